//! Collectives over all ranks.

use super::ReduceOp;
use crate::{Pod, Rank, Result, World};

impl World {
    /// [`Team::broadcast`](crate::Team::broadcast) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Panics
    ///
    /// If the job has no rank `root`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Rank, backend::loopback};
    /// loopback::run(3, |world| {
    ///     // Rank 0 allocates, and tells the others where.
    ///     let mine = world.alloc::<u64>(8)?;
    ///     let cells = world.broadcast(Rank::ZERO, mine)?;
    ///     assert_eq!(cells.rank(), Rank::ZERO);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Bcast")]
    #[track_caller]
    pub fn broadcast<T: Pod>(&self, root: Rank, value: T) -> Result<T> {
        self.team().broadcast(root.number(), value)
    }

    /// [`Team::broadcast_slice`](crate::Team::broadcast_slice) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds, in pieces. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for a rank
    /// with another length.
    ///
    /// # Panics
    ///
    /// If the job has no rank `root`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Rank, backend::loopback};
    /// loopback::run(3, |world| {
    ///     let mut seeds = [world.rank().number(); 4];
    ///     world.broadcast_slice(Rank::new(1), &mut seeds)?;
    ///     assert_eq!(seeds, [1; 4]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Bcast")]
    #[track_caller]
    pub fn broadcast_slice<T: Pod>(&self, root: Rank, values: &mut [T]) -> Result<()> {
        self.team().broadcast_slice(root.number(), values)
    }

    /// [`Team::reduce`](crate::Team::reduce) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds, and another one unless the root is rank 0. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Panics
    ///
    /// If the job has no rank `root`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Rank, backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let sum = world.reduce(Rank::ZERO, 5, op::Sum)?;
    ///     assert_eq!(sum, (world.rank() == Rank::ZERO).then_some(15));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Reduce")]
    #[track_caller]
    pub fn reduce<T: Pod>(&self, root: Rank, value: T, op: impl ReduceOp<T>) -> Result<Option<T>> {
        self.team().reduce(root.number(), value, op)
    }

    /// [`Team::allreduce`](crate::Team::allreduce) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds, and two more unless n is a power of two. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     assert_eq!(world.allreduce(world.rank().number(), op::Max)?, 2);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Allreduce")]
    #[track_caller]
    pub fn allreduce<T: Pod>(&self, value: T, op: impl ReduceOp<T>) -> Result<T> {
        self.team().allreduce(value, op)
    }

    /// [`Team::allreduce_slice`](crate::Team::allreduce_slice) over all ranks.
    ///
    /// # Cost
    ///
    /// Up to 32 KiB, log n rounds with all elements. Above that 2 log n rounds, in which a rank
    /// sends the elements about twice in all. Two rounds more unless n is a power of two.
    /// Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for a rank
    /// with another length.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let mut counts = [1_u64, 2];
    ///     world.allreduce_slice(&mut counts, op::Sum)?;
    ///     assert_eq!(counts, [3, 6]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Allreduce")]
    #[track_caller]
    pub fn allreduce_slice<T: Pod>(&self, values: &mut [T], op: impl ReduceOp<T>) -> Result<()> {
        self.team().allreduce_slice(values, op)
    }

    /// [`Team::gather`](crate::Team::gather) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds; one for more than 1 KiB a rank. Collective over the world.
    ///
    /// # Errors
    ///
    /// As [`Team::gather`](crate::Team::gather).
    ///
    /// # Panics
    ///
    /// If the job has no rank `root`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Rank, backend::loopback};
    /// loopback::run(3, |world| {
    ///     let all = world.gather(Rank::ZERO, &[world.rank().number()])?;
    ///     assert_eq!(all, (world.rank() == Rank::ZERO).then(|| vec![0, 1, 2]));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Gather")]
    #[track_caller]
    pub fn gather<T: Pod>(&self, root: Rank, values: &[T]) -> Result<Option<Vec<T>>> {
        self.team().gather(root.number(), values)
    }

    /// [`Team::allgather`](crate::Team::allgather) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for a rank
    /// with another length.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     assert_eq!(world.allgather(&[world.rank().number()])?, [0, 1, 2]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Allgather")]
    #[track_caller]
    pub fn allgather<T: Pod>(&self, values: &[T]) -> Result<Vec<T>> {
        self.team().allgather(values)
    }

    /// [`Team::all_to_all`](crate::Team::all_to_all) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds; n - 1 for blocks over 256 bytes or up to 4 ranks. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for ranks
    /// with blocks of different lengths.
    ///
    /// # Panics
    ///
    /// If the length of `values` is no multiple of the number of ranks.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let received = world.all_to_all(&[world.rank().number(); 3])?;
    ///     assert_eq!(received, [0, 1, 2]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Alltoall")]
    #[track_caller]
    pub fn all_to_all<T: Pod>(&self, values: &[T]) -> Result<Vec<T>> {
        self.team().all_to_all(values)
    }

    /// [`Team::scan_inclusive`](crate::Team::scan_inclusive) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let sum = world.scan_inclusive(1, op::Sum)?;
    ///     assert_eq!(sum, world.rank().number() + 1);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Scan")]
    #[track_caller]
    pub fn scan_inclusive<T: Pod>(&self, value: T, op: impl ReduceOp<T>) -> Result<T> {
        self.team().scan_inclusive(value, op)
    }

    /// [`Team::scan_exclusive`](crate::Team::scan_exclusive) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let before = world.scan_exclusive(2, 0, op::Sum)?;
    ///     assert_eq!(before, 2 * world.rank().number());
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Exscan")]
    #[track_caller]
    pub fn scan_exclusive<T: Pod>(&self, value: T, first: T, op: impl ReduceOp<T>) -> Result<T> {
        self.team().scan_exclusive(value, first, op)
    }
}
