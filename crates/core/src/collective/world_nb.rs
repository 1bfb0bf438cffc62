//! Non-blocking collectives over all ranks.

use super::ReduceOp;
use crate::event::Event;
use crate::{Pod, Rank, World};

impl World {
    /// [`Team::barrier_nb`](crate::Team::barrier_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// B: a flush before this returns, and log n rounds. Collective over the world.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let met = world.barrier_nb();
    ///     let busy: u64 = (0..1000).sum();
    ///     met.wait()?;
    ///     assert_eq!(busy, 499_500);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ibarrier")]
    #[track_caller]
    pub fn barrier_nb(&self) -> Event<()> {
        self.team().barrier_nb()
    }

    /// [`Team::broadcast_nb`](crate::Team::broadcast_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the world.
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
    ///     let seed = world.broadcast_nb(Rank::new(2), world.rank().number());
    ///     assert_eq!(seed.wait()?, 2);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ibcast")]
    #[track_caller]
    pub fn broadcast_nb<T: Pod>(&self, root: Rank, value: T) -> Event<T> {
        self.team().broadcast_nb(root.number(), value)
    }

    /// [`Team::broadcast_slice_nb`](crate::Team::broadcast_slice_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds, in pieces. Collective over the world.
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
    ///     let seeds = world.broadcast_slice_nb(Rank::new(1), vec![world.rank().number(); 4]);
    ///     assert_eq!(seeds.wait()?, [1; 4]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ibcast")]
    #[track_caller]
    pub fn broadcast_slice_nb<T: Pod>(&self, root: Rank, values: Vec<T>) -> Event<Vec<T>> {
        self.team().broadcast_slice_nb(root.number(), values)
    }

    /// [`Team::reduce_nb`](crate::Team::reduce_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds, and another one unless the root is rank 0. Collective over the world.
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
    ///     let sum = world.reduce_nb(Rank::ZERO, 5, op::Sum);
    ///     assert_eq!(sum.wait()?, (world.rank() == Rank::ZERO).then_some(15));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ireduce")]
    #[track_caller]
    pub fn reduce_nb<T: Pod>(
        &self,
        root: Rank,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<Option<T>> {
        self.team().reduce_nb(root.number(), value, op)
    }

    /// [`Team::allreduce_nb`](crate::Team::allreduce_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds, and two more unless n is a power of two. Collective over the world.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let sum = world.allreduce_nb(0.5, op::Sum);
    ///     let most = world.allreduce_nb(world.rank().number(), op::Max);
    ///     assert_eq!((sum.wait()?, most.wait()?), (1.5, 2));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iallreduce")]
    #[track_caller]
    pub fn allreduce_nb<T: Pod>(
        &self,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<T> {
        self.team().allreduce_nb(value, op)
    }

    /// [`Team::allreduce_slice_nb`](crate::Team::allreduce_slice_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// Up to 32 KiB, log n rounds with all elements. Above that 2 log n rounds, in which a rank
    /// sends the elements about twice in all. Two rounds more unless n is a power of two.
    /// Collective over the world.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let counts = world.allreduce_slice_nb(vec![1_u64, 2], op::Sum);
    ///     assert_eq!(counts.wait()?, [3, 6]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iallreduce")]
    #[track_caller]
    pub fn allreduce_slice_nb<T: Pod>(
        &self,
        values: Vec<T>,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<Vec<T>> {
        self.team().allreduce_slice_nb(values, op)
    }

    /// [`Team::gather_nb`](crate::Team::gather_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds; one for more than 1 KiB a rank. Collective over the world.
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
    ///     let all = world.gather_nb(Rank::ZERO, vec![world.rank().number()]);
    ///     let expected = (world.rank() == Rank::ZERO).then(|| vec![0, 1, 2]);
    ///     assert_eq!(all.wait()?, expected);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Igather")]
    #[track_caller]
    pub fn gather_nb<T: Pod>(&self, root: Rank, values: Vec<T>) -> Event<Option<Vec<T>>> {
        self.team().gather_nb(root.number(), values)
    }

    /// [`Team::allgather_nb`](crate::Team::allgather_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the world.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let all = world.allgather_nb(vec![world.rank().number()]);
    ///     assert_eq!(all.wait()?, [0, 1, 2]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iallgather")]
    #[track_caller]
    pub fn allgather_nb<T: Pod>(&self, values: Vec<T>) -> Event<Vec<T>> {
        self.team().allgather_nb(values)
    }

    /// [`Team::all_to_all_nb`](crate::Team::all_to_all_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds; n - 1 for blocks over 256 bytes or up to 4 ranks. Collective over the world.
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
    ///     let received = world.all_to_all_nb(vec![world.rank().number(); 3]);
    ///     assert_eq!(received.wait()?, [0, 1, 2]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ialltoall")]
    #[track_caller]
    pub fn all_to_all_nb<T: Pod>(&self, values: Vec<T>) -> Event<Vec<T>> {
        self.team().all_to_all_nb(values)
    }

    /// [`Team::scan_inclusive_nb`](crate::Team::scan_inclusive_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the world.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let sum = world.scan_inclusive_nb(1, op::Sum);
    ///     assert_eq!(sum.wait()?, world.rank().number() + 1);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iscan")]
    #[track_caller]
    pub fn scan_inclusive_nb<T: Pod>(
        &self,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<T> {
        self.team().scan_inclusive_nb(value, op)
    }

    /// [`Team::scan_exclusive_nb`](crate::Team::scan_exclusive_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the world.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let before = world.scan_exclusive_nb(2, 0, op::Sum);
    ///     assert_eq!(before.wait()?, 2 * world.rank().number());
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iexscan")]
    #[track_caller]
    pub fn scan_exclusive_nb<T: Pod>(
        &self,
        value: T,
        first: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<T> {
        self.team().scan_exclusive_nb(value, first, op)
    }
}
