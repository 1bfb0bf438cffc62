//! One collective that this rank takes part in: how its algorithm sends and receives.
//!
//! An algorithm is an `async fn` that is written once. A blocking collective polls it between calls
//! of progress ([`Team::drive`]); a non-blocking one hands it to the engine, which polls it inside
//! every call of progress of the rank ([`Team::launch`]).

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};

use zerocopy::IntoBytes;

use super::inbox::{Header, Inbox, Key, Payload};
use super::native::{Ticket, Turn};
use super::{Kind, Signature, check};
use crate::backend::{Backend, HandlerId, Message, MessageClass, Sent};
use crate::cost::{CostKind, Counting};
use crate::error::Mismatch;
use crate::event::{Event, Task};
use crate::team::Shared;
use crate::wait::Awaited;
use crate::world::lock;
use crate::{Config, Error, Rank, Result, Team, World, in_handler};

/// How many collectives of a team a rank may be ahead of the slowest member.
pub(super) const WINDOW: u64 = 64;

/// The part of a world that collectives use. They do not hold the world itself, which lives until its
/// user drops it, whatever is in flight.
pub(crate) struct Wire {
    backend: Arc<dyn Backend>,
    counting: Option<Arc<Counting>>,
    inbox: Inbox,
    check: bool,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl Wire {
    pub(crate) fn new(
        backend: &Arc<dyn Backend>,
        counting: Option<&Arc<Counting>>,
        config: &Config,
    ) -> Self {
        Self {
            backend: Arc::clone(backend),
            counting: counting.map(Arc::clone),
            inbox: Inbox::default(),
            check: config.check,
        }
    }

    /// Takes a message for [`HandlerId::COLLECTIVE`].
    pub(crate) fn deliver(&self, message: Message<'_>) -> Result<()> {
        self.inbox.deliver(message.from, message.payload)
    }

    /// Takes what has arrived for collectives, on a rank that is leaving and serves no other messages, which `late` gets.
    pub(crate) fn receive(&self, late: &mut dyn FnMut(Message<'_>)) -> Result<()> {
        let mut delivered = Ok(());
        let mut sink = |message: Message<'_>| {
            if message.handler != HandlerId::COLLECTIVE {
                late(message);
            } else if delivered.is_ok() {
                delivered = self.deliver(message);
            }
        };
        for class in [MessageClass::Reply, MessageClass::Request] {
            self.backend.poll(class, usize::MAX, &mut sink)?;
        }
        delivered
    }

    /// Takes the payload at `key`, if it is there; an error if it cannot come any more.
    fn take(&self, key: &Key, kind: Kind) -> Option<Result<Payload>> {
        if let Some(payload) = self.inbox.take(key) {
            return Some(Ok(payload));
        }
        if !self.backend.has_left(key.from) {
            return None;
        }
        // It may have come between the two questions; after this one nothing can.
        let late = self.inbox.take(key);
        Some(late.ok_or_else(|| self.deserted(key.from, kind)))
    }

    /// The failure of a rank that has left the job although a collective needs it. The others of the
    /// team may wait for this rank in turn, so that it is the whole job's.
    #[cold]
    pub(super) fn deserted(&self, rank: Rank, kind: Kind) -> Error {
        let cause = format!("has left the job while others wait for it in {kind}");
        self.backend.blame(rank, &cause)
    }

    /// What this rank returns for an `error` that ends a collective, or what belongs to one, here alone. The
    /// others may wait for this rank, so that it is the failure of the job, by which they are told.
    #[cold]
    pub(crate) fn give_up(&self, what: &str, error: Error) -> Error {
        if self.backend.health().is_ok() {
            let cause = format!("failed in {what}: {error}");
            // It may be recorded already, by another rank, which the next wait tells.
            drop(self.backend.blame(self.backend.rank(), &cause));
        }
        error
    }

    /// Whether `rank` has left the job, and nothing more will come of it.
    pub(super) fn has_left(&self, rank: Rank) -> bool {
        self.backend.has_left(rank)
    }

    /// The number of payloads that wait to be asked for.
    #[cfg(test)]
    pub(super) fn n_waiting(&self) -> usize {
        self.inbox.len()
    }

    /// Sends one message; ready when the transport has taken it.
    async fn send(&self, to: Rank, kind: Kind, header: &Header, piece: &[u8]) -> Result<()> {
        let parts = [header.as_bytes(), piece];
        poll_fn(|_| {
            let sent =
                self.backend
                    .try_send(to, MessageClass::Request, HandlerId::COLLECTIVE, &parts)?;
            match sent {
                Sent::Accepted => Poll::Ready(Ok(())),
                Sent::BackPressure if self.backend.has_left(to) => {
                    Poll::Ready(Err(self.deserted(to, kind)))
                }
                Sent::BackPressure => Poll::Pending,
            }
        })
        .await?;
        if let Some(counting) = &self.counting {
            let bytes = size_of::<Header>() + piece.len();
            counting.add(CostKind::Message, Some(to), 1, bytes as u64);
        }
        Ok(())
    }
}

/// A part of a collective, whose messages are kept apart from those of other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Phase {
    /// The collective, or its first part.
    Main,
    /// Its second part.
    Second,
    /// The comparison of the arguments.
    Check,
    /// The meeting before a new window.
    Window,
}

/// A collective in progress.
pub(crate) struct Call {
    wire: Arc<Wire>,
    team: Arc<Shared>,
    number: u64,
    signature: Signature,
    /// The call's place among those that the transport performs, if it is one.
    ticket: Option<Ticket>,
    /// Whether it was called inside a handler, where it is an error that changes nothing.
    is_refused: bool,
    /// Whether it ends with an error that all members get.
    is_agreed: AtomicBool,
    /// The rank whose message the algorithm waits for, for the message of a failed wait.
    awaits: AtomicU32,
}

/// The value of [`Call::awaits`] that names no rank.
const NOBODY: u32 = u32::MAX;

impl Call {
    /// Waits until the team is near enough, and compares the arguments if that is wanted. Every
    /// algorithm begins with it. Where it gives a turn, the transport takes the algorithm's place.
    pub(super) async fn enter(&self) -> Result<Option<Turn<'_>>> {
        if self.is_refused {
            let what = self.signature.kind.name();
            return Err(Error::InHandler { what });
        }
        let admitted = self.admit().await;
        let Some(ticket) = &self.ticket else {
            return admitted.map(|()| None);
        };
        let turn = ticket.turn().await;
        if let Err(error @ Error::Mismatch(_)) = admitted {
            turn?;
            // All members have the same error, and are still in step.
            ticket.pass();
            return Err(error);
        }
        // A failure of the job says more than that an earlier call was given up for it.
        admitted?;
        turn?;
        Ok(Some(Turn::new(self, ticket)))
    }

    async fn admit(&self) -> Result<()> {
        // What others have sent before the job failed would let this member alone go on.
        self.wire.backend.health()?;
        let window = self.number / WINDOW;
        if self.number.is_multiple_of(WINDOW) && window > 0 {
            self.reached(window - 1).await;
            super::barrier::meet(self.lane(Phase::Window)).await?;
            self.team.reach_window(window);
        } else {
            self.reached(window).await;
        }
        if self.wire.check {
            let compared = check::compare(self.lane(Phase::Check), &self.signature).await;
            // Relaxed: whoever polls the algorithm asks for it.
            let is_agreed = matches!(compared, Err(Error::Mismatch(_)));
            self.is_agreed.store(is_agreed, Ordering::Relaxed);
            compared?;
        }
        Ok(())
    }

    async fn reached(&self, window: u64) {
        poll_fn(|_| {
            if self.team.window() >= window {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    pub(super) fn lane(&self, phase: Phase) -> Lane<'_> {
        Lane { call: self, phase }
    }

    /// The lane of an algorithm that has one part.
    pub(super) fn main(&self) -> Lane<'_> {
        self.lane(Phase::Main)
    }

    pub(super) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(super) fn kind(&self) -> Kind {
        self.signature.kind
    }

    /// The outcome on this rank; an error that the other members do not get fails the job.
    fn outcome<T>(&self, result: Result<T>) -> Result<T> {
        // Relaxed, as in `admit`.
        if self.is_refused || self.is_agreed.load(Ordering::Relaxed) {
            return result;
        }
        result.map_err(|error| self.wire.give_up(self.signature.kind.name(), error))
    }

    fn awaited(&self) -> Vec<Rank> {
        // Only for a message; another thread may have moved on.
        match self.awaits.load(Ordering::Relaxed) {
            NOBODY => Vec::new(),
            rank => vec![Rank::new(rank)],
        }
    }
}

/// Sends and receives in one part of a collective. Members are named by their number in the team;
/// `round` tells the messages between two members apart.
#[derive(Clone, Copy)]
pub(super) struct Lane<'a> {
    call: &'a Call,
    phase: Phase,
}

impl Lane<'_> {
    pub(super) fn rank(self) -> u32 {
        self.call.team.rank()
    }

    pub(super) fn n_ranks(self) -> u32 {
        self.call.team.n_ranks()
    }

    pub(super) fn world_rank(self, i: u32) -> Rank {
        self.call.team.world_rank(i)
    }

    /// The member `distance` places after this one, counted around the team.
    pub(super) fn after(self, distance: u32) -> u32 {
        super::wrap(self.rank(), distance, self.n_ranks())
    }

    /// The member `distance` places before this one, counted around the team.
    pub(super) fn before(self, distance: u32) -> u32 {
        let n = self.n_ranks();
        super::wrap(self.rank(), n - distance % n, n)
    }

    /// The bytes of a payload that travel in one message.
    pub(super) fn piece_bytes(self) -> usize {
        self.call.wire.backend.capabilities().max_medium - size_of::<Header>()
    }

    /// Sends `bytes`, in as many messages as it takes; ready when the buffer may be reused.
    pub(super) async fn send(self, to: u32, round: u32, bytes: &[u8]) -> Result<()> {
        let to = self.world_rank(to);
        let mut offset = 0;
        loop {
            let piece = &bytes[offset..bytes.len().min(offset + self.piece_bytes())];
            let header = Header {
                team: self.call.team.id().bits(),
                number: self.call.number,
                total: bytes.len() as u64,
                offset: offset as u64,
                phase: self.phase as u32,
                round,
            };
            let kind = self.call.signature.kind;
            self.call.wire.send(to, kind, &header, piece).await?;
            offset += piece.len();
            if offset == bytes.len() {
                return Ok(());
            }
        }
    }

    /// Receives a payload of any length.
    pub(super) async fn receive(self, from: u32, round: u32) -> Result<Payload> {
        let from = self.world_rank(from);
        let key = Key {
            team: self.call.team.id().bits(),
            number: self.call.number,
            phase: self.phase as u32,
            round,
            from,
        };
        // Only for the message of a failed wait.
        self.call.awaits.store(from.number(), Ordering::Relaxed);
        let kind = self.call.signature.kind;
        let payload = poll_fn(|_| match self.call.wire.take(&key, kind) {
            Some(payload) => Poll::Ready(payload),
            None => Poll::Pending,
        })
        .await;
        self.call.awaits.store(NOBODY, Ordering::Relaxed);
        payload
    }

    /// Receives a payload of `len` bytes.
    pub(super) async fn receive_exactly(
        self,
        from: u32,
        round: u32,
        len: usize,
    ) -> Result<Payload> {
        let payload = self.receive(from, round).await?;
        let came = payload.bytes().len();
        if came == len {
            return Ok(payload);
        }
        Err(Error::from(Box::new(Mismatch {
            what: format!("the bytes of a message of {}", self.call.signature.kind),
            rank_a: self.world_rank(self.rank()),
            value_a: len.to_string(),
            rank_b: self.world_rank(from),
            value_b: came.to_string(),
        })))
    }

    /// Receives exactly `into`.
    pub(super) async fn receive_into(self, from: u32, round: u32, into: &mut [u8]) -> Result<()> {
        let payload = self.receive_exactly(from, round, into.len()).await?;
        into.copy_from_slice(payload.bytes());
        Ok(())
    }
}

impl Team {
    /// Begins a collective: gives it its number. Inside a handler it gets none, so that the team stays in step, and
    /// [`enter`](Call::enter) refuses it.
    pub(super) fn begin(&self, signature: Signature) -> Call {
        let is_refused = in_handler();
        let (number, ticket) = if is_refused {
            (0, None)
        } else {
            let number = self.shared().take_number();
            (number, Ticket::take(self.shared(), &signature))
        };
        Call {
            wire: Arc::clone(self.world().wire()),
            team: Arc::clone(self.shared()),
            number,
            ticket,
            is_refused,
            signature,
            is_agreed: AtomicBool::new(false),
            awaits: AtomicU32::new(NOBODY),
        }
    }

    /// Runs the `algorithm` of `call` to its end on this thread.
    #[track_caller]
    pub(super) fn drive<T>(
        &self,
        call: &Call,
        algorithm: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut algorithm = pin!(algorithm);
        let mut cx = Context::from_waker(Waker::noop());
        let mut output = None;
        let awaited = Awaited {
            what: call.signature.kind.name(),
            number: Some(call.number),
            missing: &|| call.awaited(),
        };
        let mut n_steps = 0_u32;
        let waited = self.world().wait_until(&awaited, || {
            n_steps = n_steps.saturating_add(1);
            if let Poll::Ready(result) = algorithm.as_mut().poll(&mut cx) {
                output = Some(result?);
            }
            Ok(output.is_some())
        });
        let waited = waited.and_then(|()| match n_steps {
            // Who need not wait, such as the root of a broadcast, serves the others all the same.
            1 => self.world().advance().map(drop),
            _ => Ok(()),
        });
        call.outcome(waited)?;
        Ok(output.expect("the wait ended because the algorithm has"))
    }

    /// Takes the first steps of `algorithm` now and leaves the others to the engine, which takes them
    /// whatever becomes of the event: other ranks wait for them.
    pub(super) fn launch<T: Send + 'static, F>(
        &self,
        call: Call,
        algorithm: impl FnOnce(Arc<Call>) -> F,
    ) -> Event<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (kind, number) = (call.kind(), call.number);
        let call = Arc::new(call);
        let weak = Arc::downgrade(&call);
        let same = Arc::clone(&call);
        let algorithm = algorithm(call);
        let outcome = Arc::new(Outcome {
            is_done: AtomicBool::new(false),
            result: Mutex::new(None),
        });
        let for_task = Arc::clone(&outcome);
        let mut task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            let result = same.outcome(algorithm.await);
            drop(same);
            *lock(&for_task.result) = Some(result);
            // Pairs with the load in `is_done`: who sees the flag finds the result.
            for_task.is_done.store(true, Ordering::Release);
        });
        let mut cx = Context::from_waker(Waker::noop());
        if task.as_mut().poll(&mut cx).is_pending() {
            self.world().engine().tasks.spawn(task);
        }
        Event::task(Box::new(Launched {
            world: self.world().clone(),
            kind,
            number,
            call: weak,
            outcome,
        }))
    }
}

/// Where a task leaves its result.
struct Outcome<T> {
    is_done: AtomicBool,
    result: Mutex<Option<Result<T>>>,
}

/// The event's view of a task.
struct Launched<T> {
    world: World,
    kind: Kind,
    number: u64,
    /// The call is the task's, and over when that is dropped.
    call: Weak<Call>,
    outcome: Arc<Outcome<T>>,
}

impl<T: Send> Task<T> for Launched<T> {
    fn is_done(&self) -> bool {
        // Pairs with the store at the end of the task.
        self.outcome.is_done.load(Ordering::Acquire)
    }

    fn take(&mut self) -> Result<T> {
        lock(&self.outcome.result)
            .take()
            .expect("the event takes the result of a task that is done, once")
    }

    fn world(&self) -> &World {
        &self.world
    }

    fn what(&self) -> &'static str {
        self.kind.name()
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn missing(&self) -> Vec<Rank> {
        let call = self.call.upgrade();
        call.map_or_else(Vec::new, |call| call.awaited())
    }
}
