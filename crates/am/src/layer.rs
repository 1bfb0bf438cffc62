//! The layer above core: dispatches received messages, and takes part in each round of progress.

use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use pgas_core::backend::{HandlerId, Message, MessageClass};
use pgas_core::{Layer, Rank, TeamId, World};
use pgas_lockfree::pending::{Outcome, Watcher};

use crate::answer::unanswered;
use crate::ids::{
    CALL, CALL_FF, FAILURE, PIECE, REPLY_LONG, REPLY_MEDIUM, REPLY_SHORT, REQUEST_LONG,
    REQUEST_MEDIUM, REQUEST_SHORT, RESULT, is_one_way,
};
use crate::message::deliver::deliver;
use crate::outbox::Undelivered;
use crate::state::{Am, Attached};
use pgas_core::{Error, Result};

/// Every 16th round of progress searches some calls in flight for ranks that have left.
const ROUNDS_PER_CHECK: u32 = 16;
const SLOTS_PER_SEARCH: u32 = 32;
/// The calls that are searched before a sleep: rounds may be far apart from then on.
const SLOTS_PER_SLEEP: u32 = 1024;

/// The longest sleep of a thread that takes calls of other threads, since it may have missed one.
const LONGEST_NAP: Duration = Duration::from_millis(2);

impl Am {
    /// Records a message that comes too late, unless its sender waits for it and is told so. One in
    /// pieces, of which this rank may have taken some in time, counts when all have come: otherwise
    /// its sender was refused the rest, and knows.
    #[cold]
    fn refuse(&self, message: &Message<'_>) {
        let handler = match message.handler {
            PIECE => self.pieces.add(message).flatten().map(|(_, id)| id),
            id => Some(id),
        };
        if handler.is_some_and(is_one_way) {
            let from = message.from;
            let reason = format!("a message of rank {from} came when this rank was leaving");
            self.lost.add(1, &reason);
        }
    }

    /// Reports calls that this rank has not run or sent when it leaves in good order.
    #[cold]
    fn end(&self) {
        let n = self.objects.n_set_aside(is_one_way);
        if n > 0 {
            let reason = "calls named distributed objects that this rank has not built";
            self.lost.add(n as u64, &reason);
        }
        let n = self.put_off.n_of(is_one_way);
        if n > 0 {
            let reason = "calls named teams that this rank has not made";
            self.lost.add(n as u64, &reason);
        }
        let n = self.outbox.n_one_way();
        if n > 0 {
            let reason = "what handlers have sent found no room";
            self.lost.add(n, &reason);
        }
        self.lost.tell_at_the_end(self.rank);
    }

    /// Records requests to a rank that has left.
    #[cold]
    fn lose_undelivered(&self, undelivered: &Undelivered) {
        if let Some(rank) = undelivered.rank {
            let reason = format!("a handler has sent to rank {rank}, which has left the job");
            self.lost.add(undelivered.n, &reason);
        }
    }

    /// Adds a piece. After the last one `serve` gets the whole message.
    #[cold]
    fn take_piece(
        &self,
        world: &World,
        message: &Message<'_>,
        serve: impl FnOnce(Message<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(complete) = self.pieces.add(message) else {
            let what = "a piece of a message".to_owned();
            return Err(self.malformed(world, message, what, "which fits no whole"));
        };
        let Some((whole, handler)) = complete else {
            // Pieces of replies are not counted: the whole reply completes its request.
            if message.class == MessageClass::Request {
                self.message_counts.count_served();
            }
            return Ok(());
        };
        serve(Message {
            from: message.from,
            class: message.class,
            handler,
            payload: whole.bytes(),
        })
    }

    /// Serves a message that came in pieces. Out of line, since the other cases are inlined where
    /// short messages are served.
    #[cold]
    fn serve_whole(&self, world: &World, whole: &Message<'_>) -> Result<()> {
        match whole.handler {
            CALL => self.serve_call(world, whole),
            CALL_FF => self.serve_one_way(world, whole),
            RESULT => self.take_answer(world, whole, Outcome::Returned),
            HandlerId(id) => {
                let what = format!("handler {id}");
                Err(self.malformed(world, whole, what, "and it came in pieces"))
            }
        }
    }

    /// Searches `n` of the calls in flight for ranks that have left, and tells their callers. Says
    /// whether there was anything new.
    #[cold]
    fn search_departed(&self, world: &World, n: u32) -> bool {
        if self.has_left.load(Ordering::Relaxed) {
            return self.end_calls();
        }
        let has_left = |rank| world.has_left(Rank::new(rank));
        // Actions and wakers are the program's.
        pgas_core::as_handler(|| {
            self.pending
                .search_departed(n, has_left, |action| action(Outcome::Left, &[]))
        })
    }
}

impl Am {
    /// Tells all who wait for answers that this rank has left. Says whether anybody was told.
    #[cold]
    fn end_calls(&self) -> bool {
        let mut is_watched = false;
        // Actions and wakers are the program's.
        pgas_core::as_handler(|| {
            self.pending.take_watchers(|watcher| {
                is_watched = true;
                match watcher {
                    Watcher::Wake(waker) => waker.wake(),
                    Watcher::Call(call) => call(Outcome::Ended, &[]),
                }
            });
        });
        is_watched
    }

    /// Why no answer of `to` comes any more, if none does.
    #[cold]
    pub(crate) fn no_answer(&self, world: &World, to: Rank) -> Option<Error> {
        // Relaxed: who sees that a rank has left asks again, in each round.
        if self.has_left.load(Ordering::Relaxed) {
            return Some(Error::HasLeft);
        }
        world.has_left(to).then(|| unanswered(to))
    }
}

impl Attached {
    /// Handles an error of a received message.
    #[cold]
    fn tell(&self, from: Rank, error: Error) -> Result<()> {
        let Self(am) = self;
        // The failure of the job is known to all ranks already.
        if !am.lost.has_teller() || error.is_of_communication() {
            return Err(error);
        }
        am.lose(from, &error);
        Ok(())
    }

    fn dispatch(&self, world: &World, message: Message<'_>) -> Result<()> {
        let Self(am) = self;
        match message.handler {
            CALL => am.serve_call(world, &message),
            CALL_FF => am.serve_one_way(world, &message),
            RESULT => am.take_answer(world, &message, Outcome::Returned),
            FAILURE => am.take_answer(world, &message, Outcome::Failed),
            REQUEST_SHORT | REQUEST_MEDIUM | REQUEST_LONG | REPLY_SHORT | REPLY_MEDIUM
            | REPLY_LONG => {
                let (handler, bytes) = am.header::<u64>(world, &message)?;
                deliver(world, am, &message, handler, bytes)
            }
            PIECE => am.take_piece(world, &message, |whole| am.serve_whole(world, &whole)),
            HandlerId(id) => {
                let reason = "which active messages do not use";
                let what = format!("handler {id}");
                Err(am.malformed(world, &message, what, reason))
            }
        }
    }
}

impl Layer for Attached {
    #[inline]
    fn deliver(&self, world: &World, message: Message<'_>) -> Result<()> {
        match self.dispatch(world, message) {
            Ok(()) => Ok(()),
            Err(error) => self.tell(message.from, error),
        }
    }

    #[inline]
    fn advance(&self, world: &World) -> Result<bool> {
        let Self(am) = self;
        let mut worked = am
            .outbox
            .flush(world, |undelivered| am.lose_undelivered(&undelivered))?;
        // In each round: a simulated node may sleep before the next one.
        am.objects
            .give_up(|team| world.team_by_id(TeamId::from_bits(team)).is_some());
        if am.put_off.has_some() {
            am.take_up_put_off(world);
        }
        worked |= am.objects.advance(|message| {
            let called = world.run_handler(message);
            called.unwrap_or_else(|error| world.tell_later(error));
        });
        worked |= am.tasks.has_some() && world.run_watched(|| am.tasks.advance());
        worked |= am.run_local_calls(world);
        let round = am.n_rounds.load(Ordering::Relaxed).wrapping_add(1);
        // Not exact if threads make progress at once; an exact count would lock an instruction.
        am.n_rounds.store(round, Ordering::Relaxed);
        if round.is_multiple_of(ROUNDS_PER_CHECK) {
            am.search_departed(world, SLOTS_PER_SEARCH);
        }
        Ok(worked)
    }

    fn advance_thread(&self, world: &World) -> bool {
        self.0.run_local_calls(world)
    }

    fn longest_nap(&self) -> Option<Duration> {
        let has_calls = self.0.takes_local_calls()?;
        Some(if has_calls {
            Duration::ZERO
        } else {
            LONGEST_NAP
        })
    }

    fn before_sleep(&self, world: &World) -> bool {
        self.0.search_departed(world, SLOTS_PER_SLEEP)
    }

    #[inline]
    fn accepts_requests(&self) -> bool {
        !self.0.outbox.has_replies()
    }

    fn running(&self) -> Option<String> {
        self.0.objects.named_last()
    }

    fn is_idle(&self) -> bool {
        let Self(am) = self;
        !am.outbox.has_some()
            && !am.objects.has_ready()
            && !am.put_off.has_some()
            && am.chained.n_running() == 0
    }

    fn refuse(&self, message: &Message<'_>) {
        self.0.refuse(message);
    }

    fn end(&self) {
        self.0.end();
    }

    fn left(&self) {
        let Self(am) = self;
        am.has_left.store(true, Ordering::Relaxed);
        am.pending.end();
        am.end_calls();
    }

    fn forget_tasks(&self) {
        self.0.tasks.clear();
        // A callback may have an event, which has the world.
        self.0.pending.forget_watchers();
    }

    fn wake_after_progress(&self, world: &World, waker: &Waker) -> bool {
        self.0.driven.wake_after_progress(world, waker)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use zerocopy::IntoBytes as _;

    use super::*;
    use crate::attach;
    use crate::function::FunctionId;
    use crate::identity::{Names, Program};
    use crate::pieces::Piece;

    /// Another rank may be attached, and call, before this one has learned the names.
    #[test]
    fn a_call_before_the_names_are_known_is_no_work_and_runs_when_they_are() {
        static N_RUN: AtomicU64 = AtomicU64::new(0);
        let world = pgas_core::backend::loopback::world();
        world.attach(Box::new(Attached(Arc::new(Am::new(&world)))));
        let attached = world.layer::<Attached>().unwrap();
        let names = Names::new(Program::own().unwrap(), 1, 7);
        let count = |()| _ = N_RUN.fetch_add(1, Ordering::Relaxed);
        let function = FunctionId::of(&names, count).unwrap();
        let message = Message {
            from: Rank::ZERO,
            class: MessageClass::Request,
            handler: CALL_FF,
            payload: function.as_bytes(),
        };
        attached.deliver(&world, message).unwrap();
        assert!((0..3).all(|_| !attached.advance(&world).unwrap()));
        assert!(!attached.is_idle() && attached.0.names.set(Ok(names)).is_ok());
        assert!(attached.advance(&world).unwrap() && attached.is_idle());
        assert_eq!(N_RUN.load(Ordering::Relaxed), 1);
    }

    /// Pieces of a call, of which this rank takes `n_served` in time and refuses `n_refused`.
    #[test]
    fn a_call_in_pieces_that_comes_too_late_is_lost_once_if_all_of_it_was_sent() {
        const N_PIECES: u64 = 3;
        let world = pgas_core::backend::loopback::world();
        attach(&world).unwrap();
        let Attached(am) = world.layer::<Attached>().unwrap();
        let (mut whole, mut n_lost) = (0, 0);
        for handler in [CALL_FF, CALL] {
            for n_served in 0..N_PIECES {
                for n_refused in 0..=N_PIECES - n_served {
                    whole += 1;
                    for at in 0..n_served + n_refused {
                        let piece = Piece {
                            whole,
                            len: 8 * N_PIECES,
                            at: 8 * at,
                            handler: u64::from(handler.0),
                        };
                        let message = Message {
                            from: Rank::ZERO,
                            class: MessageClass::Request,
                            handler: PIECE,
                            payload: &[piece.as_bytes(), &[0; 8]].concat(),
                        };
                        if at < n_served {
                            am.take_piece(&world, &message, |_| panic!("not the whole"))
                                .unwrap();
                        } else {
                            am.refuse(&message);
                        }
                    }
                    let is_lost = handler == CALL_FF && n_served + n_refused == N_PIECES;
                    n_lost += u64::from(is_lost);
                    assert_eq!(am.lost.n(), n_lost, "{n_served} {n_refused}");
                }
            }
        }
    }
}
