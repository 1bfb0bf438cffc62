//! Collectives over all ranks with slices and with varying counts.

use super::ReduceOp;
use crate::event::Event;
use crate::{Pod, Rank, Result, World};

impl World {
    /// [`Team::reduce_slice`](crate::Team::reduce_slice) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds, and another one unless the root is rank 0. Collective over the world.
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
    /// # use pgas_core::{Rank, collective::op, backend::loopback};
    /// loopback::run(3, |world| {
    ///     let mine = [1, world.rank().number()];
    ///     let sums = world.reduce_slice(Rank::ZERO, &mine, op::Sum)?;
    ///     assert_eq!(sums, (world.rank() == Rank::ZERO).then(|| vec![3, 3]));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Reduce")]
    #[track_caller]
    pub fn reduce_slice<T: Pod>(
        &self,
        root: Rank,
        values: &[T],
        op: impl ReduceOp<T>,
    ) -> Result<Option<Vec<T>>> {
        self.team().reduce_slice(root.number(), values, op)
    }

    /// [`Team::reduce_slice_nb`](crate::Team::reduce_slice_nb) over all ranks.
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
    /// # use pgas_core::{Rank, collective::op, backend::loopback};
    /// loopback::run(3, |world| {
    ///     let products = world.reduce_slice_nb(Rank::new(1), vec![2_u32, 3], op::Product);
    ///     let expected = (world.rank() == Rank::new(1)).then(|| vec![8, 27]);
    ///     assert_eq!(products.wait()?, expected);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ireduce")]
    #[track_caller]
    pub fn reduce_slice_nb<T: Pod>(
        &self,
        root: Rank,
        values: Vec<T>,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<Option<Vec<T>>> {
        self.team().reduce_slice_nb(root.number(), values, op)
    }

    /// [`Team::gather_varying`](crate::Team::gather_varying) over all ranks.
    ///
    /// # Cost
    ///
    /// 2 log n rounds. Collective over the world.
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
    ///     let mine = vec![world.rank().number(); world.rank().index()];
    ///     let all = world.gather_varying(Rank::ZERO, &mine)?;
    ///     let expected = (world.rank() == Rank::ZERO).then(|| vec![vec![], vec![1], vec![2, 2]]);
    ///     assert_eq!(all, expected);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Gatherv")]
    #[track_caller]
    pub fn gather_varying<T: Pod>(&self, root: Rank, values: &[T]) -> Result<Option<Vec<Vec<T>>>> {
        self.team().gather_varying(root.number(), values)
    }

    /// [`Team::gather_varying_nb`](crate::Team::gather_varying_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// 2 log n rounds. Collective over the world.
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
    ///     let all = world.gather_varying_nb(Rank::ZERO, vec![7_u8; world.rank().index()]);
    ///     let expected = (world.rank() == Rank::ZERO).then(|| vec![vec![], vec![7], vec![7, 7]]);
    ///     assert_eq!(all.wait()?, expected);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Igatherv")]
    #[track_caller]
    pub fn gather_varying_nb<T: Pod>(
        &self,
        root: Rank,
        values: Vec<T>,
    ) -> Event<Option<Vec<Vec<T>>>> {
        self.team().gather_varying_nb(root.number(), values)
    }

    /// [`Team::allgather_varying`](crate::Team::allgather_varying) over all ranks.
    ///
    /// # Cost
    ///
    /// 2 log n rounds. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let name = ["ada", "grace", "mary"][world.rank().index()];
    ///     assert_eq!(world.allgather_varying(name.as_bytes())?[1], b"grace");
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Allgatherv")]
    #[track_caller]
    pub fn allgather_varying<T: Pod>(&self, values: &[T]) -> Result<Vec<Vec<T>>> {
        self.team().allgather_varying(values)
    }

    /// [`Team::allgather_varying_nb`](crate::Team::allgather_varying_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// 2 log n rounds. Collective over the world.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let all = world.allgather_varying_nb(vec![5_u8; world.rank().index()]);
    ///     assert_eq!(all.wait()?, [vec![], vec![5], vec![5, 5]]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iallgatherv")]
    #[track_caller]
    pub fn allgather_varying_nb<T: Pod>(&self, values: Vec<T>) -> Event<Vec<Vec<T>>> {
        self.team().allgather_varying_nb(values)
    }

    /// [`Team::all_to_all_varying`](crate::Team::all_to_all_varying) over all ranks.
    ///
    /// # Cost
    ///
    /// n - 1 rounds. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for ranks
    /// with elements of different sizes.
    ///
    /// # Panics
    ///
    /// If `values` has not one entry for each rank.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let mine = [0, 1, 2].map(|n| vec![world.rank().number(); n]); // rank n gets n values
    ///     let received = world.all_to_all_varying(&mine)?;
    ///     let n = world.rank().index();
    ///     assert_eq!(received, [vec![0; n], vec![1; n], vec![2; n]]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Alltoallv")]
    #[track_caller]
    pub fn all_to_all_varying<T: Pod>(&self, values: &[Vec<T>]) -> Result<Vec<Vec<T>>> {
        self.team().all_to_all_varying(values)
    }

    /// [`Team::all_to_all_varying_nb`](crate::Team::all_to_all_varying_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// n - 1 rounds. Collective over the world.
    ///
    /// # Panics
    ///
    /// If `values` has not one entry for each rank.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let mine = [0, 1, 2].map(|n| vec![world.rank().number(); n]);
    ///     let received = world.all_to_all_varying_nb(mine.to_vec());
    ///     let n = world.rank().index();
    ///     assert_eq!(received.wait()?, [vec![0; n], vec![1; n], vec![2; n]]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ialltoallv")]
    #[track_caller]
    pub fn all_to_all_varying_nb<T: Pod>(&self, values: Vec<Vec<T>>) -> Event<Vec<Vec<T>>> {
        self.team().all_to_all_varying_nb(values)
    }

    /// [`Team::scan_inclusive_slice`](crate::Team::scan_inclusive_slice) over all ranks.
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
    /// # use pgas_core::{collective::op, backend::loopback};
    /// loopback::run(3, |world| {
    ///     let mut sums = [1, 10];
    ///     world.scan_inclusive_slice(&mut sums, op::Sum)?;
    ///     let n = world.rank().number() + 1;
    ///     assert_eq!(sums, [n, 10 * n]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Scan")]
    #[track_caller]
    pub fn scan_inclusive_slice<T: Pod>(
        &self,
        values: &mut [T],
        op: impl ReduceOp<T>,
    ) -> Result<()> {
        self.team().scan_inclusive_slice(values, op)
    }

    /// [`Team::scan_exclusive_slice`](crate::Team::scan_exclusive_slice) over all ranks.
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
    /// # use pgas_core::{collective::op, backend::loopback};
    /// loopback::run(3, |world| {
    ///     let mut starts = [2, 5];
    ///     world.scan_exclusive_slice(&mut starts, 0, op::Sum)?;
    ///     let n = world.rank().number();
    ///     assert_eq!(starts, [2 * n, 5 * n]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Exscan")]
    #[track_caller]
    pub fn scan_exclusive_slice<T: Pod>(
        &self,
        values: &mut [T],
        first: T,
        op: impl ReduceOp<T>,
    ) -> Result<()> {
        self.team().scan_exclusive_slice(values, first, op)
    }

    /// [`Team::scan_inclusive_slice_nb`](crate::Team::scan_inclusive_slice_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the world.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{collective::op, backend::loopback};
    /// loopback::run(3, |world| {
    ///     let sums = world.scan_inclusive_slice_nb(vec![1_u32, 10], op::Sum);
    ///     let n = world.rank().number() + 1;
    ///     assert_eq!(sums.wait()?, [n, 10 * n]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iscan")]
    #[track_caller]
    pub fn scan_inclusive_slice_nb<T: Pod>(
        &self,
        values: Vec<T>,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<Vec<T>> {
        self.team().scan_inclusive_slice_nb(values, op)
    }

    /// [`Team::scan_exclusive_slice_nb`](crate::Team::scan_exclusive_slice_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the world.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{collective::op, backend::loopback};
    /// loopback::run(3, |world| {
    ///     let starts = world.scan_exclusive_slice_nb(vec![2_u32, 5], 0, op::Sum);
    ///     let n = world.rank().number();
    ///     assert_eq!(starts.wait()?, [2 * n, 5 * n]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iexscan")]
    #[track_caller]
    pub fn scan_exclusive_slice_nb<T: Pod>(
        &self,
        values: Vec<T>,
        first: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<Vec<T>> {
        self.team().scan_exclusive_slice_nb(values, first, op)
    }
}
