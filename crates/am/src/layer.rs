//! What active messages add to a world: who handles what, which answers are awaited, and what is still to be sent.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use pgas_core::backend::{HandlerId, Message, MessageClass, Sent};
use pgas_core::{Layer, Rank, Tasks, WeakWorld, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::buffers::Buffers;
use crate::dist_object::Objects;
use crate::driven::Driven;
use crate::error::{MixedBinaries, Unknown};
use crate::function::{FunctionId, Incoming, LAYER_KEY, Names};
use crate::handle::Handle;
use crate::identity::{Program, mix};
use crate::lost::Lost;
use crate::message::registry::Registry;
use crate::outbox::{Left, Outbox};
use crate::pending::{Cookie, Outcome, Pending};
use crate::pieces::Pieces;
use crate::quiescence::Transfers;
use crate::tally::{Served, Tally};
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
    /// What functions are named by, or why no function is called: set when the ranks have compared their programs.
    names: OnceLock<Result<Names>>,
    rank: Rank,
    pub(crate) world: WeakWorld,
    pub(crate) registry: Registry,
    pub(crate) pending: Pending,
    pub(crate) outbox: Outbox,
    /// What was chained to transfers and collectives.
    pub(crate) tasks: Tasks,
    /// Those of them that follow transfers.
    pub(crate) transfers: Transfers,
    pub(crate) buffers: Buffers,
    pub(crate) pieces: Pieces,
    pub(crate) objects: Objects,
    pub(crate) driven: Driven,
    pub(crate) lost: Lost,
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
/// A barrier and an allgather of two words. Collective over the world. Does nothing if it was called before.
///
/// # Errors
///
/// On all ranks: [`Error::MixedBinaries`] if a rank runs another program; [`pgas_core::Error::Backend`] if one cannot read its
/// own. The failure of the job while waiting. Who calls it again gets the same error.
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
    attach_as(world, Program::own())
}

/// Attaches a rank that runs `program`, if it could find that out.
fn attach_as(world: &World, program: pgas_core::Result<&'static Program>) -> Result<()> {
    if let Some(Attached(am)) = world.layer::<Attached>() {
        return am.names().map(drop);
    }
    let program = world
        .team()
        .all_succeeded("looking at the program", program)?;
    serve::note_where_panics_are();
    let am = Arc::new(Am {
        handle: Handle::unused(),
        names: OnceLock::new(),
        rank: world.rank(),
        world: world.downgrade(),
        registry: Registry::default(),
        pending: Pending::default(),
        outbox: Outbox::default(),
        tasks: Tasks::default(),
        transfers: Transfers::default(),
        buffers: Buffers::default(),
        pieces: Pieces::default(),
        objects: Objects::default(),
        driven: Driven::default(),
        lost: Lost::default(),
        n_rounds: AtomicU32::new(0),
        tally: Tally::default(),
    });
    am.handle.give_to(&am);
    // Before the ranks compare, since the first ones that have send calls.
    world.attach(Box::new(Attached(Arc::clone(&am))));
    let names = agree(world, program);
    let outcome = names.as_ref().map(|_| ()).map_err(Error::clone);
    let is_first = am.names.set(names).is_ok();
    debug_assert!(is_first, "only this call sets it");
    outcome
}

/// What a rank tells the others of its program.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Introduction {
    build: u64,
    /// A random number: its share of the secret that tags are made of.
    secret: u64,
}

/// Compares the programs of all ranks, and agrees on a secret.
fn agree(world: &World, program: &'static Program) -> Result<Names> {
    let own = Introduction {
        build: program.build,
        secret: RandomState::new().build_hasher().finish(),
    };
    let all = world.allgather(&[own])?;
    compare(world.rank(), &all)?;
    let secret = all.iter().fold(0, |sum, other| mix(sum ^ other.secret));
    Ok(Names::new(program, secret))
}

/// An error if another rank runs another program.
fn compare(rank: Rank, all: &[Introduction]) -> Result<()> {
    let number = |i: usize| Rank::new(u32::try_from(i).expect("ranks have 24 bits"));
    let own = all[rank.index()].build;
    let Some(other) = all.iter().position(|other| other.build != own) else {
        return Ok(());
    };
    Err(Error::from(Box::new(MixedBinaries {
        rank_a: rank,
        build_a: own,
        rank_b: number(other),
        build_b: all[other].build,
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
    /// What functions are named by.
    #[inline]
    pub(crate) fn names(&self) -> Result<&Names> {
        match self.names.get() {
            Some(Ok(names)) => Ok(names),
            other => Err(nameless(other)),
        }
    }

    /// Sends a reply, or keeps it until there is room; never waits.
    #[inline]
    pub(crate) fn reply(
        &self,
        world: &World,
        to: Rank,
        id: HandlerId,
        parts: &[&[u8]],
    ) -> Result<()> {
        match world.try_send_to_layer(LAYER_KEY, to, MessageClass::Reply, id, parts) {
            Ok(Sent::Accepted) => Ok(()),
            Ok(Sent::BackPressure) => {
                self.outbox.keep_reply(to, id, parts.concat());
                Ok(())
            }
            // It has left without waiting for the reply.
            Err(error) if says_left(&error, to) => Ok(()),
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
        let sent = world.try_send_to_layer(LAYER_KEY, to, MessageClass::Request, id, parts);
        if !matches!(sent, Ok(Sent::Accepted)) {
            self.tally.count_unsent();
        }
        Ok(sent?)
    }

    /// Sends a request in a handler, as one of several that belong together; what meets back-pressure is kept.
    #[cold]
    #[track_caller]
    pub(crate) fn request_or_keep(
        &self,
        world: &World,
        to: Rank,
        id: HandlerId,
        parts: &[&[u8]],
    ) -> Result<()> {
        // Behind others, so that the target puts few together at a time.
        if !self.outbox.has_requests_to(to)
            && self.try_request(world, to, id, parts)? == Sent::Accepted
        {
            return Ok(());
        }
        // Before it is sent by another thread, and served.
        self.tally.count_sent();
        self.outbox.keep_piece(to, id, parts.concat());
        Ok(())
    }

    #[cold]
    #[track_caller]
    fn request_later(&self, world: &World, to: Rank, id: HandlerId, parts: &[&[u8]]) -> Result<()> {
        if pgas_core::in_handler() {
            // Before it is sent by another thread, and served.
            self.tally.count_sent();
            if !self.outbox.keep_request(to, id, parts) {
                self.tally.count_unsent();
                return Err(Error::BackPressure { to });
            }
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
        let Some(names) = self.names.get() else {
            // Other ranks know already that all run one program.
            self.objects.put_off(message);
            return Ok(());
        };
        let names = names.as_ref().map_err(Error::clone)?;
        self.objects.forget_named();
        let mut called = function.call(names, incoming);
        if let Err(Error::NotBuilt(number, team)) = called {
            match self.objects.set_aside(message, number, team) {
                Ok(()) => return Ok(()),
                Err(error) if has_cookie => return serve::refuse(incoming, &error),
                Err(error) => called = Err(error),
            }
        }
        if has_cookie {
            // It is served when the answer is back, which counts there.
            return called;
        }
        if let Err(error @ Error::Codec(_)) = called {
            self.lose(message.from, &error);
            called = Ok(());
        }
        self.tally.count_served();
        called
    }

    /// Takes note of a one-way call that cannot be run.
    #[cold]
    fn lose(&self, from: Rank, error: &Error) {
        let reason = format!("a call of rank {from}: {error}");
        self.lost.add(1, &reason);
    }

    /// Takes note of a message that comes too late, unless somebody waits for it who is told.
    #[cold]
    fn refuse(&self, message: &Message<'_>) {
        let handler = match message.handler {
            PIECE => Pieces::first_of(message),
            id => Some(id),
        };
        if handler.is_some_and(is_one_way) {
            let from = message.from;
            let reason = format!("a message of rank {from} came when this rank was leaving");
            self.lost.add(1, &reason);
        }
    }

    /// Tells what this rank leaves undone, in good order.
    #[cold]
    fn end(&self) {
        let n = self.objects.n_set_aside(is_one_way);
        if n > 0 {
            let reason = "calls named distributed objects that this rank has not built";
            self.lost.add(n as u64, &reason);
        }
        let n = self.outbox.n_requests();
        if n > 0 {
            let reason = "what handlers have sent found no room";
            self.lost.add(n as u64, &reason);
        }
        self.lost.tell_at_the_end(self.rank);
    }

    /// Takes note of requests to a rank that has left.
    #[cold]
    fn lose_left(&self, left: &Left) {
        if let Some(rank) = left.rank {
            let reason = format!("a handler has sent to rank {rank}, which has left the job");
            self.lost.add(left.n, &reason);
        }
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
        // After what an action may send, also if it panics.
        let served = Served::new(&self.tally);
        if self.pending.complete(Cookie(cookie), outcome, bytes) {
            return Ok(());
        }
        served.cancel();
        let what = format!("the answer of call {cookie:#x}");
        let reason = "which this rank does not wait for";
        Err(unknown(world, message.from, what, reason))
    }
}

#[cold]
fn nameless(names: Option<&Result<Names>>) -> Error {
    match names {
        Some(Err(error)) => error.clone(),
        _ => Error::NotAttached,
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
    /// What becomes of what is wrong with a message.
    #[cold]
    fn tell(&self, from: Rank, error: Error) -> pgas_core::Result<()> {
        let Self(am) = self;
        // The failure of the job is everybody's already.
        if !am.lost.has_teller() || matches!(error, Error::Core(_)) {
            return Err(error.into());
        }
        am.lose(from, &error);
        Ok(())
    }

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
        match self.dispatch(world, message) {
            Ok(()) => Ok(()),
            Err(error) => self.tell(message.from, error),
        }
    }

    #[inline]
    fn advance(&self, world: &World) -> pgas_core::Result<bool> {
        let Self(am) = self;
        let mut worked = am.outbox.flush(world, |left| am.lose_left(&left))?;
        worked |= am
            .objects
            .advance(|message| pgas_core::as_handler(|| self.deliver(world, message)))?;
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

    fn running(&self) -> Option<String> {
        self.0.objects.named_last()
    }

    fn is_idle(&self) -> bool {
        let Self(am) = self;
        !am.outbox.has_some() && !am.objects.has_ready()
    }

    fn refuse(&self, message: &Message<'_>) {
        self.0.refuse(message);
    }

    fn end(&self) {
        self.0.end();
    }

    fn wake_after_progress(&self, world: &World, waker: &Waker) -> bool {
        self.0.driven.wake_after_progress(world, waker)
    }
}

/// Whether nobody waits for an answer to such a message.
fn is_one_way(handler: HandlerId) -> bool {
    matches!(
        handler,
        CALL_FF | REQUEST_SHORT | REQUEST_MEDIUM | REQUEST_LONG
    )
}

/// Whether `error` says that `to` has left the job, and receives nothing any more.
pub(crate) fn says_left(error: &pgas_core::Error, to: Rank) -> bool {
    matches!(error, pgas_core::Error::RankFailed(failure)
        if failure.rank == to && failure.cause.starts_with("has left the job"))
}

/// The handlers of remote calls with and without an answer, for who sends them.
pub(crate) const fn call_id(is_answered: bool) -> HandlerId {
    if is_answered { CALL } else { CALL_FF }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::READ;

    #[test]
    fn another_program_is_an_error_that_names_both_builds() {
        let all = |builds: [u64; 3]| builds.map(|build| Introduction { build, secret: 1 });
        assert!(compare(Rank::new(1), &all([7, 7, 7])).is_ok());
        let error = compare(Rank::new(1), &all([7, 7, 9])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("rank 1") && text.contains("rank 2"), "{text}");
        assert!(text.contains("0000000000000009"), "{text}");
    }

    #[test]
    fn what_keeps_a_rank_from_attaching_is_told_to_all() {
        let errors = pgas_core::backend::loopback::run(3, |world| {
            let program = if world.rank() == Rank::new(1) {
                Err(pgas_core::Error::backend(READ, 13, "Permission denied"))
            } else {
                Program::own()
            };
            let error = attach_as(&world, program).unwrap_err();
            let call = crate::RemoteCalls::rpc(&world, Rank::ZERO, |x: u64| x, 1);
            assert!(matches!(call, Err(Error::NotAttached)));
            // The ranks are still in step, and may try again.
            attach(&world).unwrap();
            error.to_string()
        });
        for error in errors {
            assert!(error.contains("code 13"), "{error}");
        }
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
