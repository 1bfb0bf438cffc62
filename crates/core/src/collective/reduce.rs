//! Reduce: all members' values combined, for one member.

use zerocopy::IntoBytes;

use super::lane::{Call, Lane};
use super::{Kind, ReduceOp, Signature, doublings};
use crate::event::Event;
use crate::{Pod, Result, Team};

/// The round of the message from member 0 to the root.
const TO_ROOT: u32 = u32::MAX;

/// Combines all members' `values` in the root's. Those of other members are undefined afterwards.
///
/// Member `i` combines the values of the members after it up a binomial tree whose root is member
/// 0, so that every operand is a run of neighbours. Another root then gets the result from member
/// 0.
async fn reduce<T: Pod>(
    lane: Lane<'_>,
    root: u32,
    values: &mut [T],
    op: &impl ReduceOp<T>,
) -> Result<()> {
    let (me, n) = (lane.rank(), lane.n_ranks());
    for (round, distance) in doublings(n) {
        if me & distance != 0 {
            lane.send(me - distance, round, values.as_bytes()).await?;
            break;
        }
        if me + distance < n {
            let bytes = size_of_val(values);
            let after = lane.receive_exactly(me + distance, round, bytes).await?;
            combine_after(values, after.bytes(), op);
        }
    }
    if root != 0 && me == 0 {
        lane.send(root, TO_ROOT, values.as_bytes()).await?;
    } else if root != 0 && me == root {
        lane.receive_into(0, TO_ROOT, values.as_mut_bytes()).await?;
    }
    Ok(())
}

/// All members' `values` combined, for the root.
async fn reduced<T: Pod>(
    call: &Call,
    root: u32,
    mut values: Vec<T>,
    op: &impl ReduceOp<T>,
) -> Result<Option<Vec<T>>> {
    match call.enter_with(&mut values, op).await? {
        Some(turn) => values = turn.in_place(values).await?,
        None => reduce(call.main(), root, &mut values, op).await?,
    }
    Ok((call.main().rank() == root).then_some(values))
}

/// As [`reduced`], of one value.
async fn reduced_one<T: Pod>(
    call: &Call,
    root: u32,
    value: T,
    op: &impl ReduceOp<T>,
) -> Result<Option<T>> {
    let mut values = [value];
    match call.enter_with(&mut values, op).await? {
        Some(turn) => turn.replace(&mut values).await?,
        None => reduce(call.main(), root, &mut values, op).await?,
    }
    Ok((call.main().rank() == root).then_some(values[0]))
}

/// Combines `values` with those of the members before, whose bytes are `before`.
pub(super) fn combine_before<T: Pod>(values: &mut [T], before: &[u8], op: &impl ReduceOp<T>) {
    for_each_pair(values, before, |value, before| {
        *value = op.combine(before, *value);
    });
}

/// Combines `values` with those of the members after, whose bytes are `after`.
pub(super) fn combine_after<T: Pod>(values: &mut [T], after: &[u8], op: &impl ReduceOp<T>) {
    for_each_pair(values, after, |value, after| {
        *value = op.combine(*value, after);
    });
}

fn for_each_pair<T: Pod>(values: &mut [T], bytes: &[u8], mut each: impl FnMut(&mut T, T)) {
    if size_of::<T>() == 0 {
        return;
    }
    for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(size_of::<T>())) {
        let other = T::read_from_bytes(bytes).expect("the chunks have the element's size");
        each(value, other);
    }
}

impl Team {
    /// Combines the values of all members, for the root: `Some` there, `None` elsewhere.
    ///
    /// # Cost
    ///
    /// log n rounds, and another one unless the root is member 0. Collective over the team; members
    /// other than the root do not wait for all others.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(4, |world| {
    ///     let mine = world.rank().number();
    ///     let sum = world.team().reduce(2, mine, op::Sum)?;
    ///     assert_eq!(sum, (mine == 2).then_some(6));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Reduce")]
    #[track_caller]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "operators are closures or empty, written where they are used"
    )]
    pub fn reduce<T: Pod>(&self, root: u32, value: T, op: impl ReduceOp<T>) -> Result<Option<T>> {
        let call = self.begin(self.reduce_signature(root, &[value], &op));
        self.drive(&call, reduced_one(&call, root, value, &op))
    }

    /// Combines the values of all members element by element, for the root: `Some` there, `None`
    /// elsewhere. `values` has the same length everywhere.
    ///
    /// # Cost
    ///
    /// As [`reduce`](Self::reduce); each member sends its elements once. Collective over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for a
    /// member with another length.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let mine = [1, u64::from(world.rank().number())];
    ///     let sums = world.team().reduce_slice(0, &mine, op::Sum)?;
    ///     assert_eq!(sums, (world.rank().number() == 0).then(|| vec![3, 3]));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Reduce")]
    #[track_caller]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "operators are closures or empty, written where they are used"
    )]
    pub fn reduce_slice<T: Pod>(
        &self,
        root: u32,
        values: &[T],
        op: impl ReduceOp<T>,
    ) -> Result<Option<Vec<T>>> {
        let call = self.begin(self.reduce_signature(root, values, &op));
        self.drive(&call, reduced(&call, root, values.to_vec(), &op))
    }

    /// Begins a [`reduce`](Self::reduce).
    ///
    /// # Cost
    ///
    /// As [`reduce`](Self::reduce). Collective over the team.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(4, |world| {
    ///     let largest = world.team().reduce_nb(0, world.rank().number(), op::Max);
    ///     let largest = largest.wait()?;
    ///     assert_eq!(largest, (world.rank().number() == 0).then_some(3));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ireduce")]
    #[track_caller]
    pub fn reduce_nb<T: Pod>(
        &self,
        root: u32,
        value: T,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<Option<T>> {
        let call = self.begin(self.reduce_signature(root, &[value], &op));
        self.launch(call, |call| async move {
            reduced_one(&call, root, value, &op).await
        })
    }

    /// Begins a [`reduce_slice`](Self::reduce_slice).
    ///
    /// # Cost
    ///
    /// As [`reduce_slice`](Self::reduce_slice). Collective over the team.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(2, |world| {
    ///     let event = world.team().reduce_slice_nb(1, vec![2_u32, 3], op::Product);
    ///     let products = event.wait()?;
    ///     assert_eq!(products, (world.rank().number() == 1).then(|| vec![4, 9]));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ireduce")]
    #[track_caller]
    pub fn reduce_slice_nb<T: Pod>(
        &self,
        root: u32,
        values: Vec<T>,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<Option<Vec<T>>> {
        let call = self.begin(self.reduce_signature(root, &values, &op));
        self.launch(call, |call| async move {
            reduced(&call, root, values, &op).await
        })
    }

    #[track_caller]
    fn reduce_signature<T: Pod>(
        &self,
        root: u32,
        values: &[T],
        op: &impl ReduceOp<T>,
    ) -> Signature {
        self.assert_member(root);
        Signature::new(Kind::Reduce)
            .root(root)
            .of::<T>(values.len())
            .op(op)
    }
}
