//! What active messages add to a world: who handles what, which answers are awaited, and what is still to be sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;

use pgas_core::backend::{HandlerId, Message, MessageClass, Sent};
use pgas_core::{Layer, Rank, WeakWorld, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::buffers::Buffers;
use crate::dist_object::Objects;
use crate::driven::Driven;
use crate::error::{MixedBinaries, Unknown};
use crate::function::{FunctionId, Incoming};
use crate::handle::Handle;
use crate::identity::Program;
use crate::message::registry::Registry;
use crate::outbox::Outbox;
use crate::pending::{Cookie, Outcome, Pending};
use crate::pieces::Pieces;
use crate::tally::Tally;
use crate::tasks::Tasks;
use crate::{Error, Result, serve};

/// A request without payload.
pub(crate) const REQUEST_SHORT: HandlerId = HandlerId(2);
/// A request with a payload in the message.
pub(crate) const REQUEST_MEDIUM: HandlerId = HandlerId(3);
/// A request whose payload lies in the target's segment.
pub(crate) const REQUEST_LONG: HandlerId = HandlerId(4);
/// A reply without payload.
pub(crate) const REPLY_SHORT: HandlerId = HandlerId(5);
/// A reply with a payload in the message.
pub(crate) const REPLY_MEDIUM: HandlerId = HandlerId(6);
/// A remote call whose result is awaited.
const CALL: HandlerId = HandlerId(7);
/// A remote call without an answer.
const CALL_FF: HandlerId = HandlerId(8);
/// The result of a remote call.
pub(crate) const RESULT: HandlerId = HandlerId(9);
/// What went wrong in a remote call.
pub(crate) const FAILURE: HandlerId = HandlerId(10);

/// A part of a call or a result that is longer than a message.
pub(crate) const PIECE: HandlerId = HandlerId(11);

/// In how many rounds of progress it is looked once whether calls went to ranks that have left, and at how many of them.
const ROUNDS_PER_LOOK: u32 = 16;
const SLOTS_PER_LOOK: u32 = 32;

/// What a remote call without an answer begins with.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Call {
    pub(crate) function: FunctionId,
    pub(crate) cookie: u64,
}

/// The state of one rank.
#[derive(Debug)]
pub(crate) struct Am {
    /// How futures name this.
    pub(crate) handle: Handle,
    pub(crate) program: &'static Program,
    pub(crate) world: WeakWorld,
    pub(crate) registry: Registry,
    pub(crate) pending: Pending,
    pub(crate) outbox: Outbox,
    pub(crate) tasks: Tasks,
    pub(crate) buffers: Buffers,
    pub(crate) pieces: Pieces,
    pub(crate) objects: Objects,
    pub(crate) driven: Driven,
    /// Rounds of progress.
    n_rounds: AtomicU32,
    /// Messages that this rank has sent, and that it has served; a call or request that is answered is served when the answer is back.
    pub(crate) tally: Tally,
}

/// The layer of a world, shared with the futures of its calls, which do not keep the world.
#[derive(Debug)]
pub(crate) struct Attached(pub(crate) Arc<Am>);

/// Sets active messages up on `world`: from here on it receives them. The facade's `init` and `threads` do
/// this.
///
/// The ranks compare which program they run: functions are named by their place in it, so that all ranks must
/// run the same file.
///
/// # Cost
///
/// An allgather of a word. Collective over the world. Does nothing if it was called before.
///
/// # Errors
///
/// [`Error::MixedBinaries`] if a rank runs another program; the failure of the job while waiting.
///
/// # Examples
///
/// ```
/// use pgas_am::RemoteCalls;
///
/// let world = pgas_core::backend::loopback::world();
/// pgas_am::attach(&world)?;
/// assert_eq!(world.rpc(world.rank(), |x: u64| x + 1, 41)?.wait()?, 42);
/// # Ok::<(), pgas_am::Error>(())
/// ```
pub fn attach(world: &World) -> Result<()> {
    if world.layer::<Attached>().is_some() {
        return Ok(());
    }
    let program = Program::own();
    let program = world
        .team()
        .all_succeeded("looking at the program", program)?;
    serve::note_where_panics_are();
    let am = Arc::new(Am {
        handle: Handle::unused(),
        program,
        world: world.downgrade(),
        registry: Registry::default(),
        pending: Pending::default(),
        outbox: Outbox::default(),
        tasks: Tasks::default(),
        buffers: Buffers::default(),
        pieces: Pieces::default(),
        objects: Objects::default(),
        driven: Driven::default(),
        n_rounds: AtomicU32::new(0),
        tally: Tally::default(),
    });
    am.handle.give_to(&am);
    world.attach(Box::new(Attached(am)));
    let builds = world.allgather(&[program.build])?;
    compare(world.rank(), &builds)
}

/// An error if another rank runs another program.
fn compare(rank: Rank, builds: &[u64]) -> Result<()> {
    let own = builds[rank.index()];
    let Some(other) = builds.iter().position(|build| *build != own) else {
        return Ok(());
    };
    Err(Error::from(Box::new(MixedBinaries {
        rank_a: rank,
        build_a: own,
        rank_b: Rank::new(u32::try_from(other).expect("ranks have 24 bits")),
        build_b: builds[other],
    })))
}

/// The state of `world`'s active messages.
#[inline]
pub(crate) fn am(world: &World) -> Result<&Arc<Am>> {
    match world.layer::<Attached>() {
        Some(Attached(am)) => Ok(am),
        None => Err(Error::NotAttached),
    }
}

/// Panics if the job has no rank `to`.
#[inline]
#[track_caller]
pub(crate) fn assert_rank(world: &World, to: Rank) {
    let last = world.n_ranks() - 1;
    assert!(to.number() <= last, "the job has ranks 0 to {last}");
}

impl Am {
    /// Sends a reply, or keeps it until there is room; never waits.
    #[inline]
    pub(crate) fn reply(
        &self,
        world: &World,
        to: Rank,
        id: HandlerId,
        parts: &[&[u8]],
    ) -> Result<()> {
        match world.try_send(to, MessageClass::Reply, id, parts) {
            Ok(Sent::Accepted) => Ok(()),
            Ok(Sent::BackPressure) => {
                self.outbox.keep_reply(to, id, parts.concat());
                Ok(())
            }
            // It has left without waiting for the reply.
            Err(pgas_core::Error::RankFailed(_)) if world.has_left(to) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a request, waiting for room; in a handler, where nothing waits, it is kept until there is room, if not
    /// too much is kept already.
    #[inline]
    #[track_caller]
    pub(crate) fn request(
        &self,
        world: &World,
        to: Rank,
        id: HandlerId,
        parts: &[&[u8]],
    ) -> Result<()> {
        match self.try_request(world, to, id, parts)? {
            Sent::Accepted => Ok(()),
            Sent::BackPressure => self.request_later(world, to, id, parts),
        }
    }

    /// Offers a request.
    #[inline]
    #[track_caller]
    pub(crate) fn try_request(
        &self,
        world: &World,
        to: Rank,
        id: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        // Before it is counted, since what panics was not sent.
        assert_rank(world, to);
        self.tally.count_sent();
        let sent = world.try_send(to, MessageClass::Request, id, parts);
        if !matches!(sent, Ok(Sent::Accepted)) {
            self.tally.count_unsent();
        }
        Ok(sent?)
    }

    #[cold]
    #[track_caller]
    fn request_later(&self, world: &World, to: Rank, id: HandlerId, parts: &[&[u8]]) -> Result<()> {
        if pgas_core::in_handler() {
            if !self.outbox.keep_request(to, id, parts) {
                return Err(Error::BackPressure { to });
            }
            self.tally.count_sent();
            return Ok(());
        }
        let missing = || vec![to];
        world.wait_for_ranks("room for a request", &missing, || {
            match self.try_request(world, to, id, parts) {
                Ok(sent) => Ok(sent == Sent::Accepted),
                Err(error) => Err(error.into()),
            }
        })?;
        Ok(())
    }

    #[inline]
    fn call(&self, world: &World, message: &Message<'_>, has_cookie: bool) -> Result<()> {
        let (function, cookie, bytes) = if has_cookie {
            let (call, bytes) = self.header::<Call>(world, message)?;
            (call.function, Some(call.cookie), bytes)
        } else {
            let (function, bytes) = self.header::<FunctionId>(world, message)?;
            (function, None, bytes)
        };
        let incoming = Incoming {
            world,
            from: message.from,
            cookie,
            bytes,
        };
        let called = function.call(self.program, incoming);
        if let Err(Error::NotBuilt(number, team)) = called {
            return self.objects.set_aside(message, number, team);
        }
        // An answered call is served when the answer is back, which counts there.
        if !has_cookie {
            self.tally.count_served();
        }
        called
    }

    /// Serves what came in pieces. Apart from the others, which are inlined where short messages are served.
    #[cold]
    fn serve_whole(&self, world: &World, whole: &Message<'_>) -> Result<()> {
        match whole.handler {
            CALL => self.call(world, whole, true),
            CALL_FF => self.call(world, whole, false),
            _ => self.answer(world, whole, Outcome::Returned),
        }
    }

    #[inline]
    fn header<'a, H: FromBytes + Immutable + Copy>(
        &self,
        world: &World,
        message: &Message<'a>,
    ) -> Result<(H, &'a [u8])> {
        H::read_from_prefix(message.payload).map_err(|_| {
            let HandlerId(id) = message.handler;
            unknown(
                world,
                message.from,
                format!("handler {id}"),
                "and it is too short",
            )
        })
    }

    /// Looks at some of the calls in flight for those to ranks that have left, and tells who waits for them.
    #[cold]
    pub(crate) fn look_for_left(&self, world: &World, n: u32) {
        let has_left = |rank| world.has_left(Rank::new(rank));
        self.pending.look_for_left(n, has_left, |action| {
            pgas_core::as_handler(|| action(Outcome::Left, &[]));
        });
    }

    #[inline]
    fn answer(&self, world: &World, message: &Message<'_>, outcome: Outcome) -> Result<()> {
        let (cookie, bytes) = self.header::<u64>(world, message)?;
        if self.pending.complete(Cookie(cookie), outcome, bytes) {
            self.tally.count_served();
            return Ok(());
        }
        let what = format!("the answer of call {cookie:#x}");
        let reason = "which this rank does not wait for";
        Err(unknown(world, message.from, what, reason))
    }
}

/// The error for a message that names what this rank does not have.
#[cold]
pub(crate) fn unknown(world: &World, from: Rank, what: String, reason: &'static str) -> Error {
    Error::from(Box::new(Unknown {
        rank: world.rank(),
        from,
        what,
        reason,
    }))
}

impl Attached {
    fn dispatch(&self, world: &World, message: Message<'_>) -> Result<()> {
        let Self(am) = self;
        match message.handler {
            CALL => am.call(world, &message, true),
            CALL_FF => am.call(world, &message, false),
            RESULT => am.answer(world, &message, Outcome::Returned),
            FAILURE => am.answer(world, &message, Outcome::Failed),
            REQUEST_SHORT | REQUEST_MEDIUM | REQUEST_LONG | REPLY_SHORT | REPLY_MEDIUM => {
                let (handler, bytes) = am.header::<u64>(world, &message)?;
                am.registry.deliver(world, am, &message, handler, bytes)
            }
            PIECE => am.take_piece(world, &message, |whole| am.serve_whole(world, &whole)),
            HandlerId(id) => {
                let reason = "which active messages do not use";
                Err(unknown(
                    world,
                    message.from,
                    format!("handler {id}"),
                    reason,
                ))
            }
        }
    }
}

impl Layer for Attached {
    #[inline]
    fn deliver(&self, world: &World, message: Message<'_>) -> pgas_core::Result<()> {
        self.dispatch(world, message)
            .map_err(pgas_core::Error::from)
    }

    #[inline]
    fn advance(&self, world: &World) -> pgas_core::Result<bool> {
        let Self(am) = self;
        let mut worked = am.outbox.flush(world)?;
        worked |= am
            .objects
            .advance(|message| pgas_core::as_handler(|| self.dispatch(world, message)))?;
        worked |= am.tasks.advance();
        let round = am.n_rounds.load(Ordering::Relaxed).wrapping_add(1);
        // Not counted exactly where threads make progress at once, for which no instruction is locked.
        am.n_rounds.store(round, Ordering::Relaxed);
        if round.is_multiple_of(ROUNDS_PER_LOOK) {
            am.look_for_left(world, SLOTS_PER_LOOK);
        }
        Ok(worked)
    }

    #[inline]
    fn accepts_requests(&self) -> bool {
        !self.0.outbox.has_replies()
    }

    fn wake_after_progress(&self, world: &World, waker: &Waker) -> bool {
        self.0.driven.wake_after_progress(world, waker)
    }
}

/// The handlers of remote calls with and without an answer, for who sends them.
pub(crate) const fn call_id(is_answered: bool) -> HandlerId {
    if is_answered { CALL } else { CALL_FF }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_program_is_an_error_that_names_both_builds() {
        assert!(compare(Rank::new(1), &[7, 7, 7]).is_ok());
        let error = compare(Rank::new(1), &[7, 7, 9]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("rank 1") && text.contains("rank 2"), "{text}");
        assert!(text.contains("0000000000000009"), "{text}");
    }

    #[test]
    fn messages_that_make_no_sense_are_errors_that_say_who_sent_them() {
        let world = pgas_core::backend::loopback::world();
        attach(&world).unwrap();
        let attached = world.layer::<Attached>().unwrap();
        for (id, payload) in [
            (CALL, vec![0; 23]),
            (CALL, vec![0; 24]),
            (CALL_FF, vec![1; 100]),
            (RESULT, vec![0; 8]),
            (RESULT, vec![0xff; 8]),
            (FAILURE, vec![]),
            (REQUEST_SHORT, vec![3; 9]),
            (REPLY_MEDIUM, vec![3; 7]),
            (PIECE, vec![0; 40]),
            (HandlerId(15), vec![]),
        ] {
            let message = Message {
                from: Rank::ZERO,
                class: MessageClass::Request,
                handler: id,
                payload: &payload,
            };
            let error = attached.deliver(&world, message).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("got a message from rank 0"), "{text}");
        }
    }
}
