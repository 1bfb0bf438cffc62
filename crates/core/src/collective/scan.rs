//! Scans: the combined values of the members up to each one.

use zerocopy::IntoBytes;

use super::lane::Call;
use super::reduce::combine_before;
use super::{Kind, ReduceOp, Signature, doublings};
use crate::event::Event;
use crate::{Pod, Result, Team};

/// Combines into `values` those of all members up to this one, inclusively.
///
/// In each round, a member sends its combined values to the member at twice the former distance.
async fn inclusive<T: Pod>(call: &Call, values: &mut [T], op: &impl ReduceOp<T>) -> Result<()> {
    if let Some(turn) = call.enter_with(values, op).await? {
        return turn.replace(values).await;
    }
    let lane = call.main();
    let (me, n) = (lane.rank(), lane.n_ranks());
    for (round, distance) in doublings(n) {
        if me + distance < n {
            lane.send(me + distance, round, values.as_bytes()).await?;
        }
        if me >= distance {
            let bytes = size_of_val(values);
            let before = lane.receive_exactly(me - distance, round, bytes).await?;
            combine_before(values, before.bytes(), op);
        }
    }
    Ok(())
}

/// Replaces `values` by the combination of those of the members before this one; the first member's
/// are `first`.
///
/// A member keeps two combinations: with its own values, to pass on, and without.
async fn exclusive<T: Pod>(
    call: &Call,
    values: &mut [T],
    first: T,
    op: &impl ReduceOp<T>,
) -> Result<()> {
    let turn = call.enter_with(values, op).await?;
    let lane = call.main();
    let (me, n) = (lane.rank(), lane.n_ranks());
    if let Some(turn) = turn {
        turn.replace(values).await?;
        // The transport leaves them undefined there.
        if me == 0 {
            values.fill(first);
        }
        return Ok(());
    }
    let mut with_mine = values.to_vec();
    values.fill(first);
    for (round, distance) in doublings(n) {
        if me + distance < n {
            lane.send(me + distance, round, with_mine.as_bytes())
                .await?;
        }
        if me >= distance {
            let bytes = size_of_val(values);
            let before = lane.receive_exactly(me - distance, round, bytes).await?;
            combine_before(&mut with_mine, before.bytes(), op);
            if distance == 1 {
                values.as_mut_bytes().copy_from_slice(before.bytes());
            } else {
                combine_before(values, before.bytes(), op);
            }
        }
    }
    Ok(())
}

impl Team {
    /// Combines the values of the members up to and including this one.
    ///
    /// # Cost
    ///
    /// log n rounds. Collective over the team; a member does not wait for those after it.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(4, |world| {
    ///     let mine = world.rank().number() + 1;
    ///     let factorial = world.team().scan_inclusive(mine, op::Product)?;
    ///     assert_eq!(factorial, [1, 2, 6, 24][world.rank().index()]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Scan")]
    #[track_caller]
    pub fn scan_inclusive<T: Pod>(&self, value: T, op: impl ReduceOp<T>) -> Result<T> {
        let mut values = [value];
        self.scan_inclusive_slice(&mut values, op)?;
        Ok(values[0])
    }

    /// Combines the values of the members before this one; the first member gets `first`, usually
    /// the operator's neutral value.
    ///
    /// # Cost
    ///
    /// As [`scan_inclusive`](Self::scan_inclusive). Collective over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Examples
    ///
    /// The start of each member's part of a list:
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(4, |world| {
    ///     let len = 10 * (world.rank().number() + 1);
    ///     let start = world.team().scan_exclusive(len, 0, op::Sum)?;
    ///     assert_eq!(start, [0, 10, 30, 60][world.rank().index()]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Exscan")]
    #[track_caller]
    pub fn scan_exclusive<T: Pod>(&self, value: T, first: T, op: impl ReduceOp<T>) -> Result<T> {
        let mut values = [value];
        self.scan_exclusive_slice(&mut values, first, op)?;
        Ok(values[0])
    }

    /// As [`scan_inclusive`](Self::scan_inclusive), element by element, in place; `values` has the
    /// same length everywhere.
    ///
    /// # Cost
    ///
    /// log n rounds with all elements. Collective over the team; a member does not wait for those
    /// after it.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for a
    /// member with another length.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let mut sums = [1, 10];
    ///     world.team().scan_inclusive_slice(&mut sums, op::Sum)?;
    ///     let n = world.rank().number() + 1;
    ///     assert_eq!(sums, [n, 10 * n]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[expect(
        clippy::needless_pass_by_value,
        reason = "operators are closures or empty, written where they are used"
    )]
    #[doc(alias = "MPI_Scan")]
    #[track_caller]
    pub fn scan_inclusive_slice<T: Pod>(
        &self,
        values: &mut [T],
        op: impl ReduceOp<T>,
    ) -> Result<()> {
        let call = self.begin(scan_signature(Kind::ScanInclusive, values, &op));
        self.drive(&call, inclusive(&call, values, &op))
    }

    /// As [`scan_exclusive`](Self::scan_exclusive), element by element, in place; `values` has the
    /// same length everywhere. On the first member each element becomes `first`.
    ///
    /// # Cost
    ///
    /// As [`scan_inclusive_slice`](Self::scan_inclusive_slice). Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`scan_inclusive_slice`](Self::scan_inclusive_slice).
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let mut starts = [2_u64, 5];
    ///     world.team().scan_exclusive_slice(&mut starts, 0, op::Sum)?;
    ///     let n = u64::from(world.rank().number());
    ///     assert_eq!(starts, [2 * n, 5 * n]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[expect(
        clippy::needless_pass_by_value,
        reason = "operators are closures or empty, written where they are used"
    )]
    #[doc(alias = "MPI_Exscan")]
    #[track_caller]
    pub fn scan_exclusive_slice<T: Pod>(
        &self,
        values: &mut [T],
        first: T,
        op: impl ReduceOp<T>,
    ) -> Result<()> {
        let call = self.begin(scan_signature(Kind::ScanExclusive, values, &op));
        self.drive(&call, exclusive(&call, values, first, &op))
    }

    /// Begins a [`scan_inclusive_slice`](Self::scan_inclusive_slice), whose event gives the
    /// combinations.
    ///
    /// # Cost
    ///
    /// As [`scan_inclusive_slice`](Self::scan_inclusive_slice). Collective over the team.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let sums = world.team().scan_inclusive_slice_nb(vec![1_u32, 10], op::Sum);
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
        mut values: Vec<T>,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<Vec<T>> {
        let call = self.begin(scan_signature(Kind::ScanInclusive, &values, &op));
        self.launch(call, |call| async move {
            inclusive(&call, &mut values, &op).await?;
            Ok(values)
        })
    }

    /// Begins a [`scan_exclusive_slice`](Self::scan_exclusive_slice), whose event gives the
    /// combinations.
    ///
    /// # Cost
    ///
    /// As [`scan_exclusive_slice`](Self::scan_exclusive_slice). Collective over the team.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let starts = world.team().scan_exclusive_slice_nb(vec![2_u64, 5], 0, op::Sum);
    ///     let n = u64::from(world.rank().number());
    ///     assert_eq!(starts.wait()?, [2 * n, 5 * n]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iexscan")]
    #[track_caller]
    pub fn scan_exclusive_slice_nb<T: Pod>(
        &self,
        mut values: Vec<T>,
        first: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<Vec<T>> {
        let call = self.begin(scan_signature(Kind::ScanExclusive, &values, &op));
        self.launch(call, |call| async move {
            exclusive(&call, &mut values, first, &op).await?;
            Ok(values)
        })
    }

    /// Begins a [`scan_inclusive`](Self::scan_inclusive).
    ///
    /// # Cost
    ///
    /// As [`scan_inclusive`](Self::scan_inclusive). Collective over the team.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let largest = world.team().scan_inclusive_nb(world.rank().number(), op::Max);
    ///     assert_eq!(largest.wait()?, world.rank().number());
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
        let mut values = [value];
        let call = self.begin(scan_signature(Kind::ScanInclusive, &values, &op));
        self.launch(call, |call| async move {
            inclusive(&call, &mut values, &op).await?;
            Ok(values[0])
        })
    }

    /// Begins a [`scan_exclusive`](Self::scan_exclusive).
    ///
    /// # Cost
    ///
    /// As [`scan_exclusive`](Self::scan_exclusive). Collective over the team.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let place = world.team().scan_exclusive_nb(1, 0, op::Sum);
    ///     assert_eq!(place.wait()?, world.rank().number());
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
        let mut values = [value];
        let call = self.begin(scan_signature(Kind::ScanExclusive, &values, &op));
        self.launch(call, |call| async move {
            exclusive(&call, &mut values, first, &op).await?;
            Ok(values[0])
        })
    }
}

fn scan_signature<T: Pod>(kind: Kind, values: &[T], op: &impl ReduceOp<T>) -> Signature {
    Signature::new(kind).of::<T>(values.len()).op(op)
}
