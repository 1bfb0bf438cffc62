//! A transport around another one, whose n-th step fails on one rank. It tests the outcomes of
//! collective calls, on which all ranks have to agree.
//!
//! [`every_step_fails`] makes each step of a collective call fail in turn, on each rank, in a new
//! job each time. It asserts that all ranks get an error in time, and that they can go on, or all
//! have the error that the job has failed. [`every_shortage_fails`] does so with exhausted memory
//! in one rank's local heap.
//!
//! ```
//! use pgas_testkit::faulty::{After, Steps, every_step_fails};
//!
//! every_step_fails("an update", 3, Steps::OneSided, After::MayHaveFailed, |world| {
//!     let cell = world.alloc_symmetric::<u64>(1)?;
//!     let put = cell.here().put(world, 7);
//!     // Everybody learns that it failed on one rank.
//!     world.team().all_succeeded("a put", put)?;
//!     Ok::<(), pgas_core::Error>(())
//! });
//! ```
#![expect(
    unsafe_code,
    reason = "passes the contract's calls on, or refuses them"
)]

use std::fmt::{self, Debug, Display};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use pgas_core::backend::{
    Backend, BarrierTicket, Collective, Group, HandlerId, Message, MessageClass, Offer, OpId,
    Place, Sent, Stage, loopback,
};
use pgas_core::{Config, Error, Rank, Result, World};

use crate::Deadline;
use crate::ranks::run_ranks;

/// The time limit of a call after a step of it has failed, on a busy machine; far more than it
/// needs.
const LIMIT: Duration = Duration::from_secs(60);

/// The maximum number of faults that a job tests of one call. Of a call with more steps only the
/// first ones are tested.
const MOST_FAULTS: u64 = 400;

/// The calls of the transport that count as steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Transfers, atomics and flushes.
    OneSided,
    /// Sending a message, and entering a barrier.
    Messages,
    /// Receiving messages, progress, and tests of barriers and operations. Their number depends on
    /// the length of waits.
    Looking,
}

/// The state of a job after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// All ranks can make the same call again, and it succeeds.
    GoesOn,
    /// The job has failed, and every rank has the error; or it goes on.
    MayHaveFailed,
    /// The call has retried the step, and succeeded on all ranks; otherwise as above.
    MayHaveCoped,
}

/// The fault, which occurs once.
#[derive(Debug)]
struct Fault {
    steps: Steps,
    is_armed: AtomicBool,
    /// The number of steps that succeed before the failing one.
    n_before: AtomicU64,
    has_struck: AtomicBool,
}

impl Fault {
    fn new(steps: Steps, n_before: u64) -> Self {
        Self {
            steps,
            is_armed: AtomicBool::new(false),
            n_before: AtomicU64::new(n_before),
            has_struck: AtomicBool::new(false),
        }
    }

    /// Counts a step, and makes it fail if it is its turn.
    fn step(&self, steps: Steps, name: &str) -> Result<()> {
        if steps != self.steps || !self.is_armed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let less = |n: u64| n.checked_sub(1);
        let counted = self
            .n_before
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        if counted.is_ok() || self.has_struck.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let text = format!("{INJECTED} into {name}");
        Err(Error::backend("injected", 0, text))
    }
}

/// The text of an injected error.
const INJECTED: &str = "a fault was injected";

/// A rank's transport, whose steps can fail.
struct Faulty {
    inner: Arc<dyn Backend>,
    /// The fault, on the failing rank.
    fault: Option<Arc<Fault>>,
}

impl Faulty {
    fn step(&self, steps: Steps, name: &str) -> Result<()> {
        step(self.fault.as_deref(), steps, name)
    }

    fn one_sided(&self, name: &str) -> Result<()> {
        self.step(Steps::OneSided, name)
    }
}

fn step(fault: Option<&Fault>, steps: Steps, name: &str) -> Result<()> {
    fault.map_or(Ok(()), |fault| fault.step(steps, name))
}

impl Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({:?})", self.inner)
    }
}

// SAFETY: every call is the inner transport's with the same arguments, or fails before anything was
// begun. So the inner transport keeps the promises.
unsafe impl Backend for Faulty {
    pgas_core::pass_on! {
        inner:
        name, abort, leave, rank, n_ranks, capabilities, segment_bytes, barrier_missing, n_credits,
        park, notify, ranks_per_processor, health, has_left, blame, discard
    }

    fn mapped_ranks(&self) -> Range<u32> {
        // Every access is a step.
        0..0
    }

    fn mapped(&self, _: Rank) -> Option<NonNull<u8>> {
        None
    }

    pgas_core::pass_on_one_sided!(inner, one_sided);

    fn test(&self, op: OpId, stage: Stage) -> Result<bool> {
        if let Err(error) = self.step(Steps::Looking, "test") {
            // A failed operation is over: nothing may write to its buffers any more.
            while !self.inner.test(op, Stage::Operation)? {
                self.inner.progress()?;
            }
            return Err(error);
        }
        self.inner.test(op, stage)
    }

    fn flush(&self, rank: Rank) -> Result<()> {
        self.step(Steps::OneSided, "flush")?;
        self.inner.flush(rank)
    }

    fn flush_all(&self) -> Result<()> {
        self.step(Steps::OneSided, "flush_all")?;
        self.inner.flush_all()
    }

    fn collectives(&self) -> Option<Arc<dyn Group>> {
        let inner = self.inner.collectives()?;
        Some(FaultyGroup::around(inner, self.fault.clone()))
    }

    fn barrier_begin(&self) -> Result<Option<BarrierTicket>> {
        self.step(Steps::Messages, "barrier_begin")?;
        self.inner.barrier_begin()
    }

    fn barrier_test(&self, ticket: BarrierTicket) -> Result<bool> {
        self.step(Steps::Looking, "barrier_test")?;
        self.inner.barrier_test(ticket)
    }

    fn try_send(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        self.step(Steps::Messages, "try_send")?;
        self.inner.try_send(to, class, handler, parts)
    }

    fn prepare(&self, to: Rank, len: usize) -> Result<Offer<Place>> {
        self.step(Steps::Messages, "prepare")?;
        self.inner.prepare(to, len)
    }

    unsafe fn try_commit(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        place: Place,
        opening: &[u8],
    ) -> Result<Sent> {
        if let Err(error) = self.step(Steps::Messages, "try_commit") {
            // SAFETY: the caller promises that the place came from `prepare` for this rank and is
            // his, and `prepare` above gives what the inner transport offers. He does not use it
            // after this error.
            unsafe { self.inner.give_back(to, place) };
            return Err(error);
        }
        // SAFETY: as for `give_back`, which was not called.
        unsafe { self.inner.try_commit(to, class, handler, place, opening) }
    }

    unsafe fn give_back(&self, to: Rank, place: Place) {
        // SAFETY: as for `try_commit`.
        unsafe { self.inner.give_back(to, place) }
    }

    fn poll(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        self.step(Steps::Looking, "poll")?;
        self.inner.poll(class, limit, sink)
    }

    fn progress(&self) -> Result<bool> {
        self.step(Steps::Looking, "progress")?;
        self.inner.progress()
    }
}

/// The collectives of a rank's transport, whose steps can fail.
#[derive(Debug)]
struct FaultyGroup {
    inner: Arc<dyn Group>,
    fault: Option<Arc<Fault>>,
}

impl FaultyGroup {
    fn around(inner: Arc<dyn Group>, fault: Option<Arc<Fault>>) -> Arc<dyn Group> {
        Arc::new(Self { inner, fault })
    }

    fn step(&self, steps: Steps, name: &str) -> Result<()> {
        step(self.fault.as_deref(), steps, name)
    }
}

// SAFETY: every call is the inner group's with the same arguments, or fails before anything was
// begun or after it has ended. So the inner group keeps the promises.
unsafe impl Group for FaultyGroup {
    fn offers(&self, call: &Collective) -> bool {
        self.inner.offers(call)
    }

    unsafe fn begin(&self, call: &Collective, send: *const u8, values: *mut u8) -> Result<OpId> {
        self.step(Steps::Messages, "the begin of a collective")?;
        // SAFETY: the caller promises what the inner group asks, of the same arguments.
        unsafe { self.inner.begin(call, send, values) }
    }

    fn test(&self, op: OpId) -> Result<bool> {
        if let Err(error) = self.step(Steps::Looking, "the test of a collective") {
            // A failed operation is over: nothing may write to its buffers any more.
            while !self.inner.test(op)? {
                thread::yield_now();
            }
            return Err(error);
        }
        self.inner.test(op)
    }

    fn has_begun(&self, op: OpId, rank: Rank) -> Option<bool> {
        self.inner.has_begun(op, rank)
    }

    fn split(&self, colour: Option<u32>, key: u32) -> Result<Option<Arc<dyn Group>>> {
        let group = self.inner.split(colour, key)?;
        // The others wait inside of it, so it fails after they have arrived.
        self.step(Steps::Messages, "the split of a group")?;
        Ok(group.map(|inner| Self::around(inner, self.fault.clone())))
    }
}

/// The outcome of a call on one rank.
struct Outcome {
    /// The text of the error.
    error: Option<String>,
    /// Whether the job has failed.
    has_failed: bool,
    /// The outcome of the same call again.
    again: Option<String>,
}

/// Makes each step of `call` fail in turn, on each rank, each time in a new job of `n_ranks` ranks.
/// Messages name the call `name`.
///
/// `call` is collective. Its code besides the tested call must not fail. The rank of the failed
/// step gets its own error, and the others an error that refers to it.
///
/// # Panics
///
/// If a rank gets no error although a step has failed on some rank; if a rank cannot go on although
/// it should, or waits for too long.
#[track_caller]
pub fn every_step_fails<T, E: Display + Debug>(
    name: &str,
    n_ranks: u32,
    steps: Steps,
    after: After,
    call: impl Fn(&World) -> Result<T, E> + Sync,
) {
    let plain = loopback::Options::default();
    every_step_fails_over(&plain, name, n_ranks, steps, after, call);
}

/// [`every_step_fails`] over a reference transport with these options, for example with its own
/// collectives.
///
/// # Panics
///
/// As [`every_step_fails`].
#[track_caller]
pub fn every_step_fails_over<T, E: Display + Debug>(
    options: &loopback::Options,
    name: &str,
    n_ranks: u32,
    steps: Steps,
    after: After,
    call: impl Fn(&World) -> Result<T, E> + Sync,
) {
    for culprit in (0..n_ranks).map(Rank::new) {
        for n_before in 0..MOST_FAULTS {
            let what = format!("{name}: step {n_before} of rank {culprit} ({steps:?})");
            let fault = Arc::new(Fault::new(steps, n_before));
            let worlds = worlds(options, n_ranks, culprit, &fault);
            let outcomes = run(worlds, &what, &call, |world, is_armed| {
                if world.rank() == culprit {
                    fault.is_armed.store(is_armed, Ordering::SeqCst);
                }
            });
            if !fault.has_struck.load(Ordering::SeqCst) {
                for (rank, outcome) in outcomes.iter().enumerate() {
                    assert_eq!(outcome.error, None, "{what}: rank {rank} without a fault");
                }
                break;
            }
            assert_agreed(&outcomes, after, culprit, &what, INJECTED);
        }
    }
}

/// Runs `call` with an increasing amount of free memory in the local heap of one rank, from none to
/// as much as it needs. Asserts the same as [`every_step_fails`]. Returns whether memory was ever
/// short.
///
/// # Panics
///
/// As [`every_step_fails`].
#[track_caller]
pub fn every_shortage_fails<T, E: Display + Debug>(
    name: &str,
    n_ranks: u32,
    call: impl Fn(&World) -> Result<T, E> + Sync,
) -> bool {
    let mut was_short = false;
    for culprit in (0..n_ranks).map(Rank::new) {
        let mut left = 0;
        loop {
            let what = format!("{name}: {left} bytes free on rank {culprit}");
            let fault = Arc::new(Fault::new(Steps::OneSided, u64::MAX));
            let plain = loopback::Options::default();
            let worlds = worlds(&plain, n_ranks, culprit, &fault);
            let outcomes = run(worlds, &what, &call, |world, is_before| {
                if is_before && world.rank() == culprit {
                    leave_free(world, left);
                }
            });
            if outcomes.iter().all(|outcome| outcome.error.is_none()) {
                break;
            }
            was_short = true;
            let errors: Vec<_> = outcomes.iter().map(|outcome| &outcome.error).collect();
            let all_are_told = errors.iter().all(|error| error.is_some());
            assert!(all_are_told, "{what}: {errors:?}");
            let text = "local heap cannot serve";
            for error in errors.into_iter().flatten() {
                assert!(error.contains(text), "{what}: {error}");
                assert!(
                    error.contains(&format!("rank {culprit}")),
                    "{what}: {error}"
                );
            }
            let none_failed = outcomes.iter().all(|outcome| !outcome.has_failed);
            assert!(none_failed, "{what}: the job has failed");
            left = (left * 3 / 2).next_multiple_of(64).max(64);
        }
    }
    was_short
}

/// Allocates memory of this rank's local heap until only `left` bytes are free, and keeps it.
///
/// # Panics
///
/// If less is free.
pub fn leave_free(world: &World, left: u64) {
    loop {
        let usage = world.local_heap_use();
        assert!(usage.free >= left, "{usage:?}");
        let bytes = usage.largest.min(usage.free - left);
        if bytes == 0 {
            return;
        }
        let bytes = usize::try_from(bytes).expect("a heap fits the address space");
        world.alloc::<u8>(bytes).expect("so much is free");
    }
}

/// The worlds of a job over the reference transport, with the fault on `culprit`.
fn worlds(
    options: &loopback::Options,
    n_ranks: u32,
    culprit: Rank,
    fault: &Arc<Fault>,
) -> Vec<World> {
    let mut config = Config::default();
    // A hang is an error of the wait, and shows in the outcome.
    config.timeout = Some(LIMIT / 2);
    let faulty = |inner: loopback::Loopback| {
        let fault = (inner.rank() == culprit).then(|| Arc::clone(fault));
        let inner: Arc<dyn Backend> = Arc::new(inner);
        let backend = Arc::new(Faulty { inner, fault });
        World::new(backend, config.clone()).expect("the segments can be used")
    };
    loopback::job(n_ranks, SEGMENT_BYTES, options)
        .into_iter()
        .map(faulty)
        .collect()
}

/// Enough memory for small collective calls.
const SEGMENT_BYTES: u64 = 1 << 20;

/// Makes the call on all ranks, with the actions of `arm` just before and after it on each rank,
/// and once more if it failed.
fn run<T, E: Display + Debug>(
    worlds: Vec<World>,
    what: &str,
    call: &(impl Fn(&World) -> Result<T, E> + Sync),
    arm: impl Fn(&World, bool) + Sync,
) -> Vec<Outcome> {
    let _deadline = Deadline::new(what.to_owned(), LIMIT);
    let meeting = Barrier::new(worlds.len());
    run_ranks(worlds, &|world| {
        pgas_am::attach(&world).expect("nothing has failed yet");
        // Code before and after the call is not a part of it, on any rank.
        meeting.wait();
        arm(&world, true);
        let error = call(&world).err().map(|error| error.to_string());
        arm(&world, false);
        // A rank that finished before the fault gets the error from its next call.
        let next = || world.barrier().err().map(|error| error.to_string());
        let error = error.or_else(next);
        let has_failed = has_failed(&world);
        let again = error.as_ref().filter(|_| !has_failed).map(|_| call(&world));
        let again = again.and_then(Result::err).map(|error| error.to_string());
        meeting.wait();
        Outcome {
            error,
            has_failed,
            again,
        }
    })
}

/// Whether the job has failed, as its ranks see it when they do nothing else.
fn has_failed(world: &World) -> bool {
    loop {
        match world.progress() {
            Ok(true) => {}
            Ok(false) => return false,
            Err(_) => return true,
        }
    }
}

#[track_caller]
fn assert_agreed(outcomes: &[Outcome], after: After, culprit: Rank, what: &str, cause: &str) {
    let none_failed = outcomes.iter().all(|outcome| !outcome.has_failed);
    let all_did_well = outcomes.iter().all(|outcome| outcome.error.is_none());
    if all_did_well && after == After::MayHaveCoped {
        return;
    }
    for (rank, outcome) in outcomes.iter().enumerate() {
        let Some(error) = &outcome.error else {
            panic!(
                "{what}: rank {rank} was told nothing of {:?}",
                outcomes[culprit.index()].error
            );
        };
        assert!(
            error.contains(cause),
            "{what}: rank {rank} was told {error}"
        );
        let names = rank == culprit.index() || error.contains(&format!("rank {culprit}"));
        assert!(names, "{what}: rank {rank} was told {error}");
        if after == After::GoesOn {
            assert!(none_failed, "{what}: the job has failed: {error}");
        }
        if none_failed {
            assert_eq!(outcome.again, None, "{what}: rank {rank} again");
        }
    }
}
