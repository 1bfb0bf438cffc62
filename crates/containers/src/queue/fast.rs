//! A queue that is either pushed to or popped from.

use std::fmt;
use std::marker::PhantomData;

use pgas_core::{Pod, Rank, World};

use super::PushError;
use super::local::Cursor;
use super::phase::{Local, Phase, Pop, Pops, Push, Pushes};
use super::ring::Ring;
use crate::object::{Object, Plain};
use crate::{Result, TakeError};

/// A queue of a fixed capacity in the memory of one rank, in phases: all ranks push, or all pop, or its
/// host does both.
///
/// It has no words for pushes and pops that meet, so an element takes no more memory than its slot;
/// otherwise it is a [`CircularQueue`](super::CircularQueue) in the same phase. It begins in the phase in
/// which all push.
///
/// # Examples
///
/// ```
/// use pgas_containers::FastQueue;
/// use pgas_core::Rank;
///
/// # let world = pgas_core::backend::loopback::world();
/// let queue = FastQueue::<u32>::with_capacity(&world, Rank::ZERO, 100)?; // collective
/// queue.push_slice(&[1, 2, 3])?;
/// let mut queue = queue.into_local_phase()?; // collective
/// if queue.host() == world.rank() {
///     assert_eq!(queue.local_pop()?, Some(1));
/// }
/// # Ok::<(), pgas_containers::Error>(())
/// ```
///
/// What a phase forbids does not compile:
///
/// ```compile_fail,E0277
/// # use pgas_containers::{FastQueue, queue::Push};
/// fn pop_while_others_push(queue: &FastQueue<u64, Push>) {
///     queue.pop();
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use pgas_containers::{FastQueue, queue::Local};
/// fn push_in_the_local_phase(queue: &FastQueue<u64, Local>) {
///     queue.push(1);
/// }
/// ```
pub struct FastQueue<T: Object, P = Push> {
    ring: Ring<T>,
    local: Cursor<T>,
    phase: PhantomData<fn() -> P>,
}

impl<T: Object> FastQueue<T> {
    /// A queue on `host` with room for `capacity` elements, in the phase in which all push.
    ///
    /// The memory is that of the next power of two.
    ///
    /// # Cost
    ///
    /// 2B + 6 allreduces or broadcasts. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`CircularQueue::with_capacity`](super::CircularQueue::with_capacity).
    pub fn with_capacity(world: &World, host: Rank, capacity: usize) -> Result<Self> {
        Self::starting_at(world, host, capacity, 0)
    }

    /// As [`with_capacity`](Self::with_capacity), with the first ticket to be given.
    pub(super) fn starting_at(
        world: &World,
        host: Rank,
        capacity: usize,
        first: u64,
    ) -> Result<Self> {
        Ok(Self {
            ring: Ring::new(world, host, capacity, false, first)?,
            local: Cursor::default(),
            phase: PhantomData,
        })
    }
}

/// While any rank pushes and nobody pops.
impl<T: Object, P: Phase> FastQueue<T, P> {
    /// Appends `value`, or gives it back if the queue is full.
    ///
    /// # Cost
    ///
    /// A + W; A more for each time that another rank pushes first. Full: ℓ. One-sided. Complete at the target after the phase.
    ///
    /// # Errors
    ///
    /// [`PushError::Full`] with the value; [`PushError::Failed`] if it cannot be encoded or the
    /// transport fails.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), PushError<T>>
    where
        P: Pushes,
    {
        self.ring.push(value, false)
    }

    /// Appends all of `values` one after the other, with no other rank's between them, or none if there
    /// is no room for all.
    ///
    /// # Cost
    ///
    /// A + W, or A + 2W where the ring begins anew. One-sided. Complete at the target after the phase.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub fn push_slice(&self, values: &[T]) -> Result<(), PushError<()>>
    where
        P: Pushes,
    {
        self.ring.push_slice(values, false)
    }
}

/// While any rank pops and nobody pushes.
impl<T: Object, P: Phase> FastQueue<T, P> {
    /// Takes the oldest element.
    ///
    /// # Cost
    ///
    /// A + R; A more for each time that another rank pops first. Empty: ℓ. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports; [`Error::Codec`](crate::Error::Codec)
    /// if the element is no `T`, which is then gone.
    #[inline]
    pub fn pop(&self) -> Result<Option<T>>
    where
        P: Pops,
    {
        self.ring.pop(false)
    }

    /// Takes the oldest elements, up to `most` of those that are there.
    ///
    /// # Cost
    ///
    /// A + R, or A + 2R where the ring begins anew. One-sided.
    ///
    /// # Errors
    ///
    /// As [`pop`](Self::pop), with the elements that could be read.
    pub fn pop_many(&self, most: usize) -> Result<Vec<T>, TakeError<T>>
    where
        P: Pops,
    {
        self.ring.pop_many(most, false)
    }
}

impl<T: Object<Repr = Plain> + Pod, P: Phase> FastQueue<T, P> {
    /// Takes the oldest elements, as many as are there and `out` has room for, and says how many.
    ///
    /// # Cost
    ///
    /// As [`pop_many`](Self::pop_many), without memory of its own. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    pub fn pop_slice(&self, out: &mut [T]) -> Result<usize>
    where
        P: Pops,
    {
        self.ring.pop_slice(out, false)
    }
}

/// While the host alone uses the queue.
impl<T: Object> FastQueue<T, Local> {
    /// Appends `value`, or gives it back if the queue is full.
    ///
    /// # Cost
    ///
    /// ℓ: a write to this rank's own memory.
    ///
    /// # Errors
    ///
    /// As [`push`](FastQueue::push).
    ///
    /// # Panics
    ///
    /// On other ranks than the host.
    #[inline]
    #[track_caller]
    pub fn local_push(&mut self, value: T) -> Result<(), PushError<T>> {
        self.local.push(&self.ring, value)
    }

    /// Takes the oldest element.
    ///
    /// # Cost
    ///
    /// ℓ: a read of this rank's own memory for up to 256 elements.
    ///
    /// # Errors
    ///
    /// As [`pop`](FastQueue::pop).
    ///
    /// # Panics
    ///
    /// On other ranks than the host.
    #[inline]
    #[track_caller]
    pub fn local_pop(&mut self) -> Result<Option<T>> {
        self.local.pop(&self.ring)
    }

    /// The number of elements.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Panics
    ///
    /// On other ranks than the host.
    #[must_use]
    #[track_caller]
    pub fn local_len(&self) -> usize {
        self.local.len()
    }
}

/// What every phase has.
impl<T: Object, P: Phase> FastQueue<T, P> {
    /// Goes on to the phase in which any rank pushes.
    ///
    /// # Cost
    ///
    /// 2B + an allreduce + 2A, on the host 6A. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: what the transport reports; the failure of the job while waiting; with `PGAS_CHECK=1` the ranks that go into different phases.
    #[track_caller]
    pub fn into_push_phase(self) -> Result<FastQueue<T, Push>> {
        self.into_phase()
    }

    /// Goes on to the phase in which any rank pops.
    ///
    /// # Cost
    ///
    /// 2B + an allreduce + 2A, on the host 6A. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: what the transport reports; the failure of the job while waiting; with `PGAS_CHECK=1` the ranks that go into different phases.
    #[track_caller]
    pub fn into_pop_phase(self) -> Result<FastQueue<T, Pop>> {
        self.into_phase()
    }

    /// Goes on to the phase in which the host alone uses the queue.
    ///
    /// # Cost
    ///
    /// 2B + an allreduce + 2A, on the host 6A. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: what the transport reports; the failure of the job while waiting; with `PGAS_CHECK=1` the ranks that go into different phases.
    #[track_caller]
    pub fn into_local_phase(self) -> Result<FastQueue<T, Local>> {
        self.into_phase()
    }

    /// Calls `f`, which is collective and fails on every rank or on none, when all ranks have come to one state of the queue.
    /// Collective.
    pub(crate) fn with_settled(&mut self, f: impl FnOnce(&Ring<T>) -> Result<()>) -> Result<()> {
        let left = self.local.leave(&self.ring);
        let settled = self.ring.settle::<P>(left);
        let done = settled.and_then(|()| f(&self.ring));
        self.local.enter::<P>(&self.ring);
        done
    }

    #[track_caller]
    fn into_phase<N: Phase>(mut self) -> Result<FastQueue<T, N>> {
        let _waits = pgas_core::part_of("a change of the phase of a queue");
        let left = self.local.leave(&self.ring);
        self.ring.settle::<N>(left)?;
        self.local.enter::<N>(&self.ring);
        Ok(FastQueue {
            ring: self.ring,
            local: self.local,
            phase: PhantomData,
        })
    }

    /// Gives the queue another capacity; its elements stay.
    ///
    /// # Cost
    ///
    /// 3B + 4 allreduces or broadcasts, and the host copies the elements. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank, with the queue as it was: those of [`with_capacity`](FastQueue::with_capacity), and
    /// [`Error::Argument`](crate::Error::Argument) if there are more elements than the new capacity.
    pub fn resize(&mut self, capacity: usize) -> Result<()> {
        self.relocate(self.host(), capacity)
    }

    /// Moves the queue with its elements to the memory of `host`.
    ///
    /// # Cost
    ///
    /// 3B + 4 allreduces or broadcasts, and `host` reads and writes the elements, nR + nW in pieces of 4096. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank, with the queue as it was: those of [`with_capacity`](FastQueue::with_capacity).
    pub fn migrate(&mut self, host: Rank) -> Result<()> {
        self.relocate(host, self.capacity())
    }

    fn relocate(&mut self, host: Rank, capacity: usize) -> Result<()> {
        let left = self.local.leave(&self.ring);
        let moved = self.ring.relocate::<P>(host, capacity, left);
        self.local.enter::<P>(&self.ring);
        moved
    }

    /// The number of elements, exact if nobody pushes or pops meanwhile; in the local phase that before it
    /// began.
    ///
    /// # Cost
    ///
    /// 2A. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    pub fn len(&self) -> Result<usize> {
        self.ring.len()
    }

    /// Whether there are no elements, as [`len`](Self::len) says.
    ///
    /// # Cost
    ///
    /// 2A. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    pub fn is_empty(&self) -> Result<bool> {
        self.len().map(|n| n == 0)
    }

    /// How many elements fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// The rank whose memory holds the elements.
    #[must_use]
    pub fn host(&self) -> Rank {
        self.ring.host()
    }

    /// The world whose ranks share the queue.
    #[must_use]
    pub fn world(&self) -> &World {
        self.ring.world()
    }
}

impl<T: Object, P: Phase> fmt::Debug for FastQueue<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, capacity, phase) = (self.host(), self.capacity(), P::NAME);
        write!(
            f,
            "FastQueue(on rank {host}, capacity {capacity}, phase: {phase})"
        )
    }
}
