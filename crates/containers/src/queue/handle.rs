//! The operations of queues of both kinds.

use std::fmt;
use std::marker::PhantomData;

use pgas_core::{AsTeam, Member as _, Pod, Rank, Team, World};

use super::PushError;
use super::local::Cursor;
use super::phase::{Local, Phase, Pop, Pops, Push, Pushes};
use super::ring::Ring;
use crate::object::{Object, Plain};
use crate::team::TeamMember;
use crate::{Result, TakeError};

/// A kind of queue: [`Circular`](super::Circular) or [`Fast`](super::Fast).
///
/// # Examples
///
/// ```
/// use pgas_containers::queue::{Circular, Fast, Kind, Queue};
/// use pgas_core::{Rank, Result, World};
///
/// /// A queue of either kind, on rank 0.
/// fn jobs<K: Kind>(world: &World) -> Result<Queue<u64, K::First, K>> {
///     Queue::with_capacity(world, Rank::ZERO, 100)
/// }
///
/// # let world = pgas_core::backend::loopback::world();
/// jobs::<Circular>(&world)?.push(7)?;
/// jobs::<Fast>(&world)?.push(7)?;
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub trait Kind: Sealed {
    /// The phase in which a queue is made.
    type First: Pushes;
}

/// Keeps the set of kinds closed.
#[expect(unnameable_types, reason = "sealed")]
pub trait Sealed {
    /// For `Debug`.
    const NAME: &'static str;
    /// Whether there is a phase in which ranks push and pop at the same time.
    const CAN_MEET: bool;
}

/// A queue of a fixed capacity in the memory of one rank: a [`CircularQueue`](super::CircularQueue)
/// or a [`FastQueue`](super::FastQueue), as `K` says, in phase `P`.
///
/// # Examples
///
/// The operations of both kinds:
///
/// ```
/// use pgas_containers::CircularQueue;
/// use pgas_core::Rank;
///
/// # let world = pgas_core::backend::loopback::world();
/// let mut queue = CircularQueue::<u64>::with_capacity(&world, Rank::ZERO, 4)?; // collective
/// queue.push(1)?;
/// queue.push_slice(&[2, 3])?;
/// assert_eq!((queue.len()?, queue.capacity()), (3, 4));
/// assert_eq!(queue.pop()?, Some(1));
/// assert_eq!(queue.pop_many(5)?, [2, 3]);
/// assert!(queue.is_empty()?);
/// queue.resize(8)?; // collective, as all that follows of these
/// queue.migrate(Rank::ZERO)?; // to where it is, here
/// assert_eq!((queue.host(), queue.capacity()), (Rank::ZERO, 8));
/// assert_eq!(queue.world().n_ranks(), queue.team().n_ranks());
///
/// let queue = queue.into_push_phase()?; // all ranks push
/// queue.push_slice(&[4, 5, 6])?;
/// let queue = queue.into_pop_phase()?; // all ranks pop
/// let mut two = [0; 2];
/// assert_eq!((queue.pop_slice(&mut two)?, two), (2, [4, 5]));
/// let mut queue = queue.into_local_phase()?; // the host alone does both
/// queue.local_push(7)?;
/// assert_eq!((queue.local_len(), queue.local_pop()?), (2, Some(6)));
/// let queue = queue.into_push_pop_phase()?;
/// assert_eq!(queue.pop()?, Some(7));
/// # Ok::<(), pgas_containers::Error>(())
/// ```
pub struct Queue<T: Object, P, K> {
    ring: Ring<T>,
    local: Cursor<T>,
    kind: PhantomData<fn() -> (P, K)>,
}

impl<T: Object, K: Kind> Queue<T, K::First, K> {
    /// A queue with room for `capacity` elements on `host`: a [`Rank`] if it is made on the world,
    /// the number of a member if on a team. A [`CircularQueue`](super::CircularQueue) begins in the
    /// phase [`PushPop`](super::PushPop), a [`FastQueue`](super::FastQueue) in [`Push`].
    ///
    /// It takes the memory of the next power of two of slots.
    ///
    /// # Cost
    ///
    /// 2B + 5 allreduces or broadcasts. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Mismatch`](crate::Error::Mismatch) if the ranks give different
    /// arguments, [`Error::Argument`](crate::Error::Argument) if the capacity is 0 or over 2^31 or
    /// there is no such host; if it has no room [`Exhausted`](pgas_core::Error::Exhausted) there,
    /// and [`Elsewhere`](pgas_core::Error::Elsewhere) on the others.
    #[track_caller]
    pub fn with_capacity<G: AsTeam>(on: &G, host: G::Member, capacity: usize) -> Result<Self> {
        Self::starting_at(on, host, capacity, 0)
    }

    /// As [`with_capacity`](Self::with_capacity), with tickets from `first` on.
    #[track_caller]
    pub(super) fn starting_at<G: AsTeam>(
        on: &G,
        host: G::Member,
        capacity: usize,
        first: u64,
    ) -> Result<Self> {
        Ok(Self {
            ring: Ring::new::<K::First>(
                &on.as_team(),
                host.number(),
                capacity,
                K::CAN_MEET,
                first,
            )?,
            local: Cursor::default(),
            kind: PhantomData,
        })
    }
}

/// While any rank pushes.
impl<T: Object, P: Phase, K: Kind> Queue<T, P, K> {
    /// Appends `value`, or gives it back if the queue is full.
    ///
    /// # Cost
    ///
    /// [`PushPop`](super::PushPop): 2A + W; A more for each time that another rank pushes first,
    /// and once in a round of the ring, to see how far pops have come; 3A more if the push before
    /// this one is still being written. Full: 2A. Complete at the target on return.
    ///
    /// [`Push`]: A + W; A more for each time that another rank pushes first. Full: ℓ. Complete at
    /// the target after the phase.
    ///
    /// One-sided; or M for a rank of another host, in both phases, also if the queue is full, and
    /// the price above on top if former elements of the slots are still being read.
    ///
    /// # Errors
    ///
    /// [`PushError::Full`] with the value; [`PushError::Failed`] if it cannot be encoded or the
    /// transport fails.
    #[inline]
    #[track_caller]
    pub fn push(&self, value: T) -> Result<(), PushError<T>>
    where
        P: Pushes,
    {
        self.ring.push(value, P::BOTH)
    }

    /// Appends all of `values`, with no elements of other ranks between them, or none if there is
    /// no room for all.
    ///
    /// # Cost
    ///
    /// As one [`push`](Self::push), in M, too; and W more if the values wrap around the end of the
    /// ring. ℓ if there are more values than the capacity.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    #[track_caller]
    pub fn push_slice(&self, values: &[T]) -> Result<(), PushError<()>>
    where
        P: Pushes,
    {
        self.ring.push_slice(values, P::BOTH)
    }
}

/// While any rank pops.
impl<T: Object, P: Phase, K: Kind> Queue<T, P, K> {
    /// Takes the oldest element.
    ///
    /// # Cost
    ///
    /// [`PushPop`](super::PushPop): 2A + R; A more for each time that another rank pops first, and
    /// when this rank has popped all the pushes that it knows of; 3A more if the pop before this
    /// one is still reading. Empty: 2A. Waits for an element that is still being written.
    ///
    /// [`Pop`]: A + R; A more for each time that another rank pops first. Empty: ℓ.
    ///
    /// One-sided; or M for a rank of another host, in both phases, also if the queue is empty, and
    /// the price above on top if the element is still being written.
    ///
    /// # Errors
    ///
    /// Errors of the transport, and the failure of the job while waiting;
    /// [`Error::Codec`](crate::Error::Codec) if the element is no `T`; the element is then gone.
    #[inline]
    #[track_caller]
    pub fn pop(&self) -> Result<Option<T>>
    where
        P: Pops,
    {
        self.ring.pop(P::BOTH)
    }

    /// Takes the oldest elements: all that are there, and at most `most`.
    ///
    /// # Cost
    ///
    /// As one [`pop`](Self::pop), in M, too; and R more if the elements wrap around the end of the
    /// ring. In [`PushPop`](super::PushPop) 4A + R if this rank does not know of as many pushes
    /// yet, and 3A if the queue is empty.
    ///
    /// # Errors
    ///
    /// As [`pop`](Self::pop), with the elements that could be read; and
    /// [`Error::Argument`](crate::Error::Argument) if there is no memory for their slots: then they
    /// stay.
    #[track_caller]
    pub fn pop_many(&self, most: usize) -> Result<Vec<T>, TakeError<T>>
    where
        P: Pops,
    {
        self.ring.pop_many(most, P::BOTH)
    }
}

impl<T: Object<Repr = Plain> + Pod, P: Phase, K: Kind> Queue<T, P, K> {
    /// Takes the oldest elements into the front of `out`: all that are there, and at most
    /// `out.len()`. Returns their number.
    ///
    /// # Cost
    ///
    /// As [`pop_many`](Self::pop_many). Allocates nothing, unless it is a message.
    ///
    /// # Errors
    ///
    /// Errors of the transport, and the failure of the job while waiting.
    #[track_caller]
    pub fn pop_slice(&self, out: &mut [T]) -> Result<usize>
    where
        P: Pops,
    {
        self.ring.pop_slice(out, P::BOTH)
    }
}

/// While the host alone uses the queue.
impl<T: Object, K: Kind> Queue<T, Local, K> {
    /// Appends `value`, or gives it back if the queue is full.
    ///
    /// # Cost
    ///
    /// ℓ: a write to this rank's own memory.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
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
    /// As [`pop`](Self::pop).
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

/// Methods of every phase.
impl<T: Object, P: Phase, K: Kind> Queue<T, P, K> {
    /// Goes on to the phase in which any rank pushes.
    ///
    /// # Cost
    ///
    /// 2B + an allreduce + 2A; on the host 4A more, and 4A more to leave the local phase.
    /// Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: errors of the transport; the failure of the job while waiting; with
    /// `PGAS_CHECK=1` [`Error::Mismatch`](crate::Error::Mismatch) if ranks go into different
    /// phases. Then the queue is lost, and so it is on a rank that calls this in a handler.
    #[track_caller]
    pub fn into_push_phase(self) -> Result<Queue<T, Push, K>> {
        self.into_phase()
    }

    /// Goes on to the phase in which any rank pops.
    ///
    /// # Cost
    ///
    /// 2B + an allreduce + 2A; on the host 4A more, and 4A more to leave the local phase.
    /// Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: errors of the transport; the failure of the job while waiting; with
    /// `PGAS_CHECK=1` [`Error::Mismatch`](crate::Error::Mismatch) if ranks go into different
    /// phases. Then the queue is lost, and so it is on a rank that calls this in a handler.
    #[track_caller]
    pub fn into_pop_phase(self) -> Result<Queue<T, Pop, K>> {
        self.into_phase()
    }

    /// Goes on to the phase in which the host alone uses the queue.
    ///
    /// # Cost
    ///
    /// 2B + an allreduce + 2A; on the host 4A more, and 4A more to leave the local phase.
    /// Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: errors of the transport; the failure of the job while waiting; with
    /// `PGAS_CHECK=1` [`Error::Mismatch`](crate::Error::Mismatch) if ranks go into different
    /// phases. Then the queue is lost, and so it is on a rank that calls this in a handler.
    #[track_caller]
    pub fn into_local_phase(self) -> Result<Queue<T, Local, K>> {
        self.into_phase()
    }

    /// A number that identifies this queue, the same on all ranks.
    pub(crate) fn identity(&self) -> u64 {
        self.ring.identity()
    }

    /// Calls `f` while no operation is under way and all ranks know the same state of the queue.
    /// `f` is collective, and fails on every rank or on none. Collective.
    #[track_caller]
    pub(crate) fn with_settled(&mut self, f: impl FnOnce(&Ring<T>) -> Result<()>) -> Result<()> {
        let left = self.local.leave(&self.ring);
        let settled = self.ring.settle::<P>(left);
        let done = settled.and_then(|()| f(&self.ring));
        self.local.enter::<P>(&self.ring);
        done
    }

    #[track_caller]
    pub(super) fn into_phase<N: Phase>(mut self) -> Result<Queue<T, N, K>> {
        let what = "a change of the phase of a queue";
        let _waits = pgas_core::part_of_object(what, self.ring.identity());
        let left = self.local.leave(&self.ring);
        self.ring.settle::<N>(left)?;
        self.ring.phase.change(N::NAME);
        self.local.enter::<N>(&self.ring);
        Ok(Queue {
            ring: self.ring,
            local: self.local,
            kind: PhantomData,
        })
    }

    /// Changes the capacity. The elements stay.
    ///
    /// # Cost
    ///
    /// 3B + 5 allreduces or broadcasts, and the host copies the elements. Collective over the
    /// team.
    ///
    /// # Errors
    ///
    /// On every rank, with the queue as it was: those of [`with_capacity`](Queue::with_capacity),
    /// and [`Error::Argument`](crate::Error::Argument) if there are more elements than the new
    /// capacity.
    #[track_caller]
    pub fn resize(&mut self, capacity: usize) -> Result<()> {
        self.relocate(self.host(), capacity)
    }

    /// Moves the queue with its elements to the memory of `host`, a member of the queue's team,
    /// which is named by its [`Rank`](pgas_core::Rank), or by its number in the team.
    ///
    /// # Cost
    ///
    /// 3B + 4 allreduces or broadcasts, and `host` reads and writes the elements, nR + nW in pieces
    /// of 4096. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank, with the queue as it was: those of [`with_capacity`](Queue::with_capacity).
    #[track_caller]
    pub fn migrate(&mut self, host: impl TeamMember) -> Result<()> {
        self.relocate(host, self.capacity())
    }

    #[track_caller]
    fn relocate(&mut self, host: impl TeamMember, capacity: usize) -> Result<()> {
        let what = "a move of a queue to other memory";
        let _waits = pgas_core::part_of_object(what, self.ring.identity());
        let left = self.local.leave(&self.ring);
        let moved = self.ring.relocate::<P, _>(host, capacity, left);
        self.local.enter::<P>(&self.ring);
        moved
    }

    /// The number of elements, exact if nobody pushes or pops meanwhile. In the local phase it is
    /// the number when the phase began.
    ///
    /// # Cost
    ///
    /// 2A. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    #[track_caller]
    pub fn len(&self) -> Result<usize> {
        self.ring.len()
    }

    /// Whether [`len`](Self::len) is 0.
    ///
    /// # Cost
    ///
    /// 2A. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    #[track_caller]
    pub fn is_empty(&self) -> Result<bool> {
        self.len().map(|n| n == 0)
    }

    #[cfg(test)]
    pub(super) fn ring(&self) -> &Ring<T> {
        &self.ring
    }

    /// The number of elements that the queue has room for.
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

    /// The team whose members share the queue: all ranks if it was made on the world.
    #[must_use]
    #[inline]
    pub fn team(&self) -> &Team {
        self.ring.team()
    }
}

impl<T: Object, P: Phase, K: Kind> fmt::Debug for Queue<T, P, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, host, capacity) = (K::NAME, self.host(), self.capacity());
        let phase = P::NAME;
        write!(
            f,
            "{kind}(on rank {host}, capacity {capacity}, phase: {phase})"
        )
    }
}
