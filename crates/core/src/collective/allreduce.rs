//! Allreduce: all members' values combined, for all members.

use zerocopy::IntoBytes;

use super::lane::Lane;
use super::reduce::{combine_after, combine_before};
use super::{Kind, ReduceOp, Signature, doublings};
use crate::event::Event;
use crate::{Pod, Result, Team};

/// Values of more bytes than this are reduced in parts, so that a member sends fewer bytes.
const LONG_BYTES: usize = 32 << 10;

/// The rounds before and after those between places.
const FOLD: u32 = 64;
const UNFOLD: u32 = 65;
/// The first round of the second half of a long allreduce.
const SPREAD: u32 = 32;

/// Maps any number of members to a power of two of places. With `rest` members too many, each of
/// the first `rest` places stands for two neighbours, of whom the second one acts.
#[derive(Clone, Copy)]
struct Places {
    n: u32,
    rest: u32,
}

impl Places {
    fn of(n_ranks: u32) -> Self {
        let n = 1 << n_ranks.ilog2();
        let rest = n_ranks - n;
        Self { n, rest }
    }

    /// The member that acts for `place`.
    fn member(self, place: u32) -> u32 {
        if place < self.rest {
            2 * place + 1
        } else {
            place + self.rest
        }
    }
}

/// Combines all members' `values` into those of each member.
///
/// Partners combine the same two operands in the same order, so all members get the same bits.
async fn allreduce<T: Pod>(lane: Lane<'_>, values: &mut [T], op: &impl ReduceOp<T>) -> Result<()> {
    let is_long = size_of_val(values) > LONG_BYTES;
    let lane = lane.for_long(is_long);
    let places = Places::of(lane.n_ranks());
    let me = lane.rank();
    let is_folded = me < 2 * places.rest;
    if is_folded && me.is_multiple_of(2) {
        lane.send(me + 1, FOLD, values.as_bytes()).await?;
        return lane
            .receive_into(me + 1, UNFOLD, values.as_mut_bytes())
            .await;
    }
    let place = if is_folded { me / 2 } else { me - places.rest };
    if is_folded {
        let bytes = size_of_val(values);
        let before = lane.receive_exactly(me - 1, FOLD, bytes).await?;
        combine_before(values, before.bytes(), op);
    }
    if is_long {
        by_parts(lane, places, place, values, op).await?;
    } else {
        by_doubling(lane, places, place, values, op).await?;
    }
    if is_folded {
        lane.send(me - 1, UNFOLD, values.as_bytes()).await?;
    }
    Ok(())
}

/// In each round, partners at twice the former distance exchange and combine all their values.
async fn by_doubling<T: Pod>(
    lane: Lane<'_>,
    places: Places,
    place: u32,
    values: &mut [T],
    op: &impl ReduceOp<T>,
) -> Result<()> {
    for (round, distance) in doublings(places.n) {
        let partner = place ^ distance;
        let member = places.member(partner);
        lane.send(member, round, values.as_bytes()).await?;
        let bytes = size_of_val(values);
        let theirs = lane.receive_exactly(member, round, bytes).await?;
        if partner < place {
            combine_before(values, theirs.bytes(), op);
        } else {
            combine_after(values, theirs.bytes(), op);
        }
    }
    Ok(())
}

/// In each round, partners at twice the former distance each combine one half of the part that they
/// share, until every place has one part of the result. Then they exchange the parts in reverse
/// order.
async fn by_parts<T: Pod>(
    lane: Lane<'_>,
    places: Places,
    place: u32,
    values: &mut [T],
    op: &impl ReduceOp<T>,
) -> Result<()> {
    let mut part = 0..values.len();
    for (round, distance) in doublings(places.n) {
        let partner = place ^ distance;
        let member = places.member(partner);
        let (mine, theirs) = halves(&part, place, distance);
        lane.send(member, round, values[theirs].as_bytes()).await?;
        let values = &mut values[mine.clone()];
        let bytes = size_of_val(values);
        let other = lane.receive_exactly(member, round, bytes).await?;
        if partner < place {
            combine_before(values, other.bytes(), op);
        } else {
            combine_after(values, other.bytes(), op);
        }
        part = mine;
    }
    for (round, distance) in doublings(places.n).rev() {
        let member = places.member(place ^ distance);
        let whole = part_before(values.len(), place, distance);
        let (mine, theirs) = halves(&whole, place, distance);
        lane.send(member, SPREAD + round, values[mine].as_bytes())
            .await?;
        lane.receive_into(member, SPREAD + round, values[theirs].as_mut_bytes())
            .await?;
    }
    Ok(())
}

type Part = std::ops::Range<usize>;

/// The half of `part` that `place` keeps in the round with `distance`, and its partner's.
fn halves(part: &Part, place: u32, distance: u32) -> (Part, Part) {
    let middle = part.start + (part.end - part.start) / 2;
    let (low, high) = (part.start..middle, middle..part.end);
    if place & distance == 0 {
        (low, high)
    } else {
        (high, low)
    }
}

/// The part of `len` elements that `place` has before the round with `distance`.
fn part_before(len: usize, place: u32, distance: u32) -> Part {
    doublings(distance).fold(0..len, |part, (_, earlier)| halves(&part, place, earlier).0)
}

impl Team {
    /// Combines the values of all members, for all members. All get the same bits.
    ///
    /// # Cost
    ///
    /// log n rounds, and two more unless n is a power of two. Collective over the team.
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
    ///     let mine = world.rank().number() + 1;
    ///     assert_eq!(world.team().allreduce(mine, op::Sum)?, 6);
    ///     assert_eq!(world.team().allreduce(mine, |a: u32, b: u32| 10 * a + b)?, 123);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Allreduce")]
    #[track_caller]
    pub fn allreduce<T: Pod>(&self, value: T, op: impl ReduceOp<T>) -> Result<T> {
        let mut values = [value];
        self.allreduce_slice(&mut values, op)?;
        Ok(values[0])
    }

    /// Combines the values of all members element by element, for all members; `values` has the
    /// same length everywhere.
    ///
    /// # Cost
    ///
    /// Up to 32 KiB, log n rounds with all elements. Above that 2 log n rounds, in which a member
    /// sends the elements about twice in all. Two rounds more unless n is a power of two.
    /// Collective over the team.
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
    /// loopback::run(4, |world| {
    ///     let mut seen = [0_u8; 4];
    ///     seen[world.rank().index()] = 1;
    ///     world.team().allreduce_slice(&mut seen, op::Or)?;
    ///     assert_eq!(seen, [1; 4]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[expect(
        clippy::needless_pass_by_value,
        reason = "operators are closures or empty, written where they are used"
    )]
    #[doc(alias = "MPI_Allreduce")]
    #[track_caller]
    pub fn allreduce_slice<T: Pod>(&self, values: &mut [T], op: impl ReduceOp<T>) -> Result<()> {
        let call = self.begin(allreduce_signature(values, &op));
        self.drive(&call, async {
            match call.enter_with(values, &op).await? {
                Some(turn) => turn.replace(values).await,
                None => allreduce(call.main(), values, &op).await,
            }
        })
    }

    /// Begins an [`allreduce`](Self::allreduce).
    ///
    /// # Cost
    ///
    /// As [`allreduce`](Self::allreduce). Collective over the team.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(4, |world| {
    ///     let sum = world.team().allreduce_nb(0.25, op::Sum);
    ///     let least = world.team().allreduce_nb(world.rank().number(), op::Min);
    ///     assert_eq!((sum.wait()?, least.wait()?), (1.0, 0));
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
        let mut values = [value];
        let call = self.begin(allreduce_signature(&values, &op));
        self.launch(call, |call| async move {
            match call.enter_with(&mut values, &op).await? {
                Some(turn) => turn.replace(&mut values).await?,
                None => allreduce(call.main(), &mut values, &op).await?,
            }
            Ok(values[0])
        })
    }

    /// Begins an [`allreduce_slice`](Self::allreduce_slice); the event gives the values back.
    ///
    /// # Cost
    ///
    /// As [`allreduce_slice`](Self::allreduce_slice). Collective over the team.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{backend::loopback, collective::op};
    /// loopback::run(3, |world| {
    ///     let sums = world.team().allreduce_slice_nb(vec![1_u64; 10_000], op::Sum);
    ///     assert_eq!(sums.wait()?, vec![3; 10_000]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iallreduce")]
    #[track_caller]
    pub fn allreduce_slice_nb<T: Pod>(
        &self,
        mut values: Vec<T>,
        op: impl ReduceOp<T> + Send + Sync + 'static,
    ) -> Event<Vec<T>> {
        let call = self.begin(allreduce_signature(&values, &op));
        self.launch(call, |call| async move {
            if let Some(turn) = call.enter_with(&mut values, &op).await? {
                return turn.in_place(values).await;
            }
            allreduce(call.main(), &mut values, &op).await?;
            Ok(values)
        })
    }
}

fn allreduce_signature<T: Pod>(values: &[T], op: &impl ReduceOp<T>) -> Signature {
    Signature::new(Kind::Allreduce).of::<T>(values.len()).op(op)
}
