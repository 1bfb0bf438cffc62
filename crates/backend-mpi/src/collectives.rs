//! MPI's own collectives, on a communicator for each team.
#![expect(
    unsafe_code,
    reason = "implements the contract of collectives, which is on raw bytes"
)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pgas_core::backend::{Collective, Group, IntegerType, OpId};
use pgas_core::collective::OpKind;
use pgas_core::{Process, Rank, Result};

use crate::session::{Session, c_rank, number};
use crate::sys::{self, Comm, Extreme, Mpi, Request};

/// The tag of questions to a departed rank for the number of operations that it had begun in a
/// group. Answers have the next tag.
const QUESTION: i32 = 1;
const ANSWER: i32 = 2;

/// A group's name, and a number of operations.
type Pair = [u64; 2];
const PAIR_BYTES: i32 = 16;

/// The distribution of a job's ranks over hosts, for the choice between MPI's collectives and
/// core's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// All on one, with mailboxes in its memory.
    One,
    /// On several, or without the direct path: core's messages would be MPI's too.
    Several,
}

/// The number of bytes of one member from which on MPI's broadcasts, gathers and allgathers are
/// used on one host, and then that for its all-to-alls.
///
/// Measured with 2 ranks, in microseconds, MPI's and core's over mailboxes, Open MPI 4.1 | MPICH
/// 4.0 (medians on a busy machine): broadcast of 4 KiB 32, 11 | 8, 21; of 32 KiB 76, 122 | 63, 124;
/// of 1 MiB 1730, 7430 | 1700, 12850; allgather of 32 KiB 125, 152 | 93, 123; of 1 MiB 3240, 8230 |
/// 2930, 9640; all-to-all of 32 KiB 355, 174 | 168, 458; of 256 KiB 3530, 4950 | 2820, 2890.
/// Reductions and scans depend on the library: a reduce of 1 MiB 38500, 15000 | 4780, 12400; a scan
/// of 256 KiB 460, 1620 | 4340, 1460. Short ones are two to thirty times faster by mailbox: a
/// broadcast of 8 B 3.5, 0.2 | 10, -.
const LONG: usize = 32 << 10;
const LONG_ALL_TO_ALL: usize = 256 << 10;

/// The longest sleep of a rank while one of MPI's collectives is in flight.
const BUSY_NAP: Duration = Duration::from_micros(50);

/// The common state of all groups of this process.
///
/// A rank that has left the job answers questions until all have left: a member that waits in an
/// operation cannot tell from MPI whether another one is late or will never come.
pub(crate) struct Collectives {
    shared: Arc<Shared>,
    /// The group of all ranks, until it is asked for.
    world: Mutex<Option<MpiGroup>>,
}

struct Shared {
    /// For questions and answers; `None` once closed.
    inquiry: Mutex<Option<Comm>>,
    /// The number of operations that this rank has begun in each group, by the group's name.
    begun: Mutex<HashMap<u64, u64>>,
    /// The numbers that departed ranks had begun, by group and rank; `None` while the answer is
    /// awaited.
    answers: Mutex<HashMap<(u64, u32), Option<u64>>>,
    /// Questions and answers that are being sent.
    sending: Mutex<Vec<(Box<Pair>, Request)>>,
    /// Groups that this rank was the first member of.
    n_named: AtomicU64,
    /// Operations in flight.
    n_flying: AtomicUsize,
    is_over: AtomicBool,
    rank: u32,
    process: Process,
    hosts: Hosts,
    compares_unsigned: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Collectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collectives").finish_non_exhaustive()
    }
}

impl Collectives {
    /// Collective over the session.
    pub(crate) fn new(session: &Session, hosts: Hosts) -> Result<Self> {
        let mpi = sys::enter()?;
        let inquiry = sys::comm_dup(&mpi, session.comm())?;
        let world = sys::comm_dup(&mpi, session.comm())?;
        let is_first = session.rank() == 0;
        let compares_unsigned = compares_unsigned(&mpi, &inquiry, is_first)?;
        let shared = Shared {
            inquiry: Mutex::new(Some(inquiry)),
            begun: Mutex::default(),
            answers: Mutex::default(),
            sending: Mutex::default(),
            n_named: AtomicU64::new(0),
            n_flying: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            rank: session.rank(),
            process: Process::this(),
            hosts,
            compares_unsigned,
        };
        drop(mpi);
        let shared = Arc::new(shared);
        let world = MpiGroup::new(world, 0, &shared)?;
        Ok(Self {
            shared,
            world: Mutex::new(Some(world)),
        })
    }

    /// The group of all ranks; once.
    pub(crate) fn world(&self) -> Option<Arc<dyn Group>> {
        let group = lock(&self.world).take()?;
        Some(Arc::new(group))
    }

    /// The time, at most `at_most`, that a rank may sleep before it checks its operations.
    pub(crate) fn nap(&self, at_most: Duration) -> Duration {
        if self.shared.n_flying.load(Ordering::Relaxed) > 0 {
            at_most.min(BUSY_NAP)
        } else {
            at_most
        }
    }

    /// Answers questions; for a rank that has left and waits for the others.
    pub(crate) fn serve(&self, mpi: &Mpi) -> Result<()> {
        let inquiry = lock(&self.shared.inquiry);
        let Some(comm) = &*inquiry else {
            return Ok(());
        };
        while let Some((from, [name, _])) = receive(mpi, comm, QUESTION)? {
            let begun = lock(&self.shared.begun).get(&name).copied();
            let answer = [name, begun.unwrap_or(0)];
            self.shared.send(mpi, comm, from, ANSWER, answer)?;
        }
        self.shared.hear(mpi, comm)?;
        self.shared.reap(mpi)
    }

    /// Whether all of this rank's questions were answered; [`serve`](Self::serve) receives the
    /// answers. A rank stays until then, so that the ranks that it asked are still there, and no
    /// message is in flight when the communicator is freed: Open MPI would take it for a message of
    /// the next communicator with the same number.
    pub(crate) fn are_answered(&self) -> bool {
        !lock(&self.shared.answers).values().any(Option::is_none)
    }

    /// Frees the communicators; collective, after the last group is gone. No question is open any
    /// more.
    pub(crate) fn close(&self) -> Result<()> {
        drop(lock(&self.world).take());
        // Groups that are still in use leave their communicators to the end of MPI.
        self.shared.is_over.store(true, Ordering::Release);
        let mpi = sys::enter()?;
        while !lock(&self.shared.sending).is_empty() {
            self.shared.reap(&mpi)?;
        }
        match lock(&self.shared.inquiry).take() {
            Some(mut comm) => sys::comm_free(&mpi, &mut comm),
            None => Ok(()),
        }
    }
}

/// A message with `tag` and its sender, if one has arrived.
fn receive(mpi: &Mpi, comm: &Comm, tag: i32) -> Result<Option<(i32, Pair)>> {
    let (mut name, mut number) = ([0; 8], [0; 8]);
    let mut bytes = [0; 16];
    let Some(from) = sys::receive_now(mpi, comm, tag, &mut bytes)? else {
        return Ok(None);
    };
    name.copy_from_slice(&bytes[..8]);
    number.copy_from_slice(&bytes[8..]);
    let pair = [name, number].map(u64::from_ne_bytes);
    Ok(Some((from, pair)))
}

impl Shared {
    fn send(&self, mpi: &Mpi, comm: &Comm, to: i32, tag: i32, pair: Pair) -> Result<()> {
        let pair = Box::new(pair);
        let bytes = (&raw const *pair).cast::<u8>();
        // SAFETY: the pair stays in its box until `reap` has found it sent; if MPI cannot tell, for
        // ever.
        let request = unsafe { sys::isend(mpi, comm, (to, tag), (bytes, PAIR_BYTES)) }?;
        lock(&self.sending).push((pair, request));
        Ok(())
    }

    fn reap(&self, mpi: &Mpi) -> Result<()> {
        let mut failure = Ok(());
        lock(&self.sending).retain_mut(|(pair, request)| match sys::test(mpi, request) {
            Ok(is_sent) => !is_sent,
            Err(error) => {
                // MPI may read it still.
                Box::leak(mem::take(pair));
                failure = Err(error);
                false
            }
        });
        failure
    }

    /// The number of operations of a group that `rank` had begun when it left, once it has
    /// answered.
    fn begun_by(&self, name: u64, rank: u32) -> Result<Option<u64>> {
        if let Some(Some(begun)) = lock(&self.answers).get(&(name, rank)) {
            return Ok(Some(*begun));
        }
        let mpi = sys::enter()?;
        let inquiry = lock(&self.inquiry);
        let Some(comm) = &*inquiry else {
            return Ok(None);
        };
        if let Entry::Vacant(answer) = lock(&self.answers).entry((name, rank)) {
            self.send(&mpi, comm, c_rank(rank), QUESTION, [name, 0])?;
            answer.insert(None);
        }
        self.hear(&mpi, comm)?;
        self.reap(&mpi)?;
        Ok(lock(&self.answers).get(&(name, rank)).copied().flatten())
    }

    /// Records the answers that have arrived.
    fn hear(&self, mpi: &Mpi, comm: &Comm) -> Result<()> {
        while let Some((from, [name, begun])) = receive(mpi, comm, ANSWER)? {
            lock(&self.answers).insert((name, number(from)), Some(begun));
        }
        Ok(())
    }
}

/// Whether MPI's counts can express the call.
fn is_countable(call: &Collective, n_ranks: u32) -> bool {
    let largest = match *call {
        Collective::Barrier => 0,
        Collective::Broadcast { bytes, .. } => bytes,
        Collective::Reduce { elements, .. }
        | Collective::Allreduce(elements)
        | Collective::ScanInclusive(elements)
        | Collective::ScanExclusive(elements) => elements.bytes(),
        // Libraries compute offsets in the whole result with MPI's integers.
        Collective::Gather { bytes, .. }
        | Collective::Allgather { bytes }
        | Collective::AllToAll { bytes } => bytes.saturating_mul(n_ranks as usize),
    };
    i32::try_from(largest).is_ok()
}

/// Whether MPI's operator is that of the contract. Open MPI 4.1 adds 8-bit and 16-bit integers
/// without wrapping around where it uses AVX (its component `op/avx`): 200 + 200 is 255 there.
/// MPICH 4.0 takes unsigned integers for signed ones in `MPI_MIN` and `MPI_MAX`.
fn is_exact(call: &Collective, compares_unsigned: bool) -> bool {
    match *call {
        Collective::Reduce { elements, .. }
        | Collective::Allreduce(elements)
        | Collective::ScanInclusive(elements)
        | Collective::ScanExclusive(elements) => match elements.op {
            OpKind::Sum | OpKind::Product => elements.ty.bytes() >= 4,
            OpKind::Min | OpKind::Max => compares_unsigned || is_signed(elements.ty),
            OpKind::BitAnd | OpKind::BitOr | OpKind::BitXor | OpKind::And | OpKind::Or => true,
        },
        Collective::Barrier
        | Collective::Broadcast { .. }
        | Collective::Gather { .. }
        | Collective::Allgather { .. }
        | Collective::AllToAll { .. } => true,
    }
}

fn is_signed(ty: IntegerType) -> bool {
    match ty {
        IntegerType::I8 | IntegerType::I16 | IntegerType::I32 | IntegerType::I64 => true,
        IntegerType::U8 | IntegerType::U16 | IntegerType::U32 | IntegerType::U64 => false,
    }
}

/// Whether MPI compares unsigned integers as unsigned. All ranks try it together.
fn compares_unsigned(mpi: &Mpi, comm: &Comm, is_first: bool) -> Result<bool> {
    let own = if is_first { u64::MAX } else { 1 };
    Ok(sys::allreduce(mpi, comm, own, Extreme::Max)? == u64::MAX)
}

/// Whether MPI's collective is the better one.
fn is_wanted(call: &Collective, hosts: Hosts) -> bool {
    if hosts == Hosts::Several {
        return true;
    }
    match *call {
        Collective::Broadcast { bytes, .. }
        | Collective::Gather { bytes, .. }
        | Collective::Allgather { bytes } => bytes >= LONG,
        Collective::AllToAll { bytes } => bytes >= LONG_ALL_TO_ALL,
        Collective::Barrier
        | Collective::Reduce { .. }
        | Collective::Allreduce(_)
        | Collective::ScanInclusive(_)
        | Collective::ScanExclusive(_) => false,
    }
}

/// MPI's collectives over one communicator.
struct MpiGroup {
    /// `None` while dropped.
    comm: Option<Comm>,
    /// The group's name: the same on all members, and unique in the job.
    name: u64,
    rank: u32,
    n_ranks: u32,
    shared: Arc<Shared>,
    flying: Mutex<Vec<(OpId, Request)>>,
}

impl MpiGroup {
    fn new(comm: Comm, name: u64, shared: &Arc<Shared>) -> Result<Self> {
        let mpi = sys::enter()?;
        let rank = number(sys::comm_rank(&mpi, &comm)?);
        let n_ranks = number(sys::comm_size(&mpi, &comm)?);
        Ok(Self {
            comm: Some(comm),
            name,
            rank,
            n_ranks,
            shared: Arc::clone(shared),
            flying: Mutex::default(),
        })
    }

    fn comm(&self) -> &Comm {
        self.comm
            .as_ref()
            .expect("a group has it until it is dropped")
    }

    /// Counts an operation, and returns its number, from 1.
    fn count(&self) -> u64 {
        let mut begun = lock(&self.shared.begun);
        let begun = begun.entry(self.name).or_default();
        *begun += 1;
        *begun
    }
}

// SAFETY: 1. MPI reads and writes the buffers in the lengths that it is given, which are the
// collective's, until the request is complete. 2. MPI's definitions are those of the contract; the
// operators that are offered give the same bits in whatever order they are applied.
unsafe impl Group for MpiGroup {
    fn offers(&self, call: &Collective) -> bool {
        is_countable(call, self.n_ranks)
            && is_exact(call, self.shared.compares_unsigned)
            && is_wanted(call, self.shared.hosts)
    }

    unsafe fn begin(&self, call: &Collective, send: *const u8, values: *mut u8) -> Result<OpId> {
        let mpi = sys::enter()?;
        let by = (self.comm(), self.rank);
        // SAFETY: the function needs the buffers of this collective until the request is complete,
        // as this method does. The caller leaves them alone until `test` below reports the
        // operation, which it does when the request is complete.
        let request = unsafe { sys::begin_collective(&mpi, by, call, send, values) }?;
        let op = OpId(self.count());
        lock(&self.flying).push((op, request));
        // Only a hint for a rank that is about to sleep.
        self.shared.n_flying.fetch_add(1, Ordering::Relaxed);
        Ok(op)
    }

    fn test(&self, op: OpId) -> Result<bool> {
        // A thread that MPI does not let in gets the error when it makes progress.
        let Ok(mpi) = sys::enter() else {
            return Ok(false);
        };
        let mut flying = lock(&self.flying);
        let at = flying.iter().position(|(flying, _)| *flying == op);
        let at = at.expect("an operation is not asked about after it was complete");
        let tested = sys::test(&mpi, &mut flying[at].1);
        if !matches!(tested, Ok(false)) {
            flying.swap_remove(at);
            self.shared.n_flying.fetch_sub(1, Ordering::Relaxed);
        }
        tested
    }

    fn has_begun(&self, op: OpId, rank: Rank) -> Option<bool> {
        // An error occurs again where it can be reported.
        let begun = self
            .shared
            .begun_by(self.name, rank.number())
            .ok()
            .flatten();
        begun.map(|begun| begun >= op.0)
    }

    fn split(&self, colour: Option<u32>, key: u32) -> Result<Option<Arc<dyn Group>>> {
        // MPI waits for the other members while this thread has its lock. The splits of the world
        // have one order on all ranks. Those of several teams may have another one on each rank.
        if self.name != 0 {
            return Ok(None);
        }
        self.count();
        let mpi = sys::enter()?;
        let colour = colour.map(c_rank);
        let Some(comm) = sys::comm_split(&mpi, self.comm(), colour, c_rank(key))? else {
            return Ok(None);
        };
        let named = self.shared.n_named.fetch_add(1, Ordering::Relaxed) + 1;
        let name = u64::from(self.shared.rank) << 32 | named & u64::from(u32::MAX);
        let mut name = name.to_ne_bytes();
        sys::bcast(&mpi, &comm, 0, &mut name)?;
        drop(mpi);
        let group = Self::new(comm, u64::from_ne_bytes(name), &self.shared)?;
        Ok(Some(Arc::new(group)))
    }
}

impl Drop for MpiGroup {
    fn drop(&mut self) {
        let Some(mut comm) = self.comm.take() else {
            return;
        };
        // Freeing is collective but does not wait, in both libraries: operations in flight keep
        // what they need. A forked child must not call MPI. In a rank MPI may end while this thread
        // waits for its lock.
        if !self.shared.process.is_forked()
            && let Ok(mpi) = sys::enter()
            && !self.shared.is_over.load(Ordering::Acquire)
        {
            drop(sys::comm_free(&mpi, &mut comm));
        }
    }
}

impl fmt::Debug for MpiGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Group({:#x}, member {} of {})",
            self.name, self.rank, self.n_ranks
        )
    }
}
