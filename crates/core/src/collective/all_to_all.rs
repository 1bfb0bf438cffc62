//! All-to-all: a block from every member for every member.

use zerocopy::IntoBytes;

use super::lane::Lane;
use super::{Kind, Signature, blocks, doublings, zeroed};
use crate::event::Event;
use crate::{Pod, Result, Team};

/// Blocks of more bytes than this travel once, in n - 1 rounds, instead of log n times.
const LONG_BYTES: usize = 256;
/// Teams up to this size have so few rounds that blocks always travel once.
const SMALL_TEAM: u32 = 4;

/// Sends block `i` of `mine` to member `i`, and stores that of member `i` as block `i` of `all`.
async fn all_to_all(lane: Lane<'_>, mine: &[u8], all: &mut [u8]) -> Result<()> {
    let block_bytes = mine.len() / lane.n_ranks() as usize;
    let is_long = block_bytes > LONG_BYTES || lane.n_ranks() <= SMALL_TEAM;
    let lane = lane.for_long(is_long);
    if is_long {
        pairwise(lane, mine, all, block_bytes).await
    } else {
        by_hops(lane, mine, all, block_bytes).await
    }
}

/// In round `i` every member sends to the one `i` places after it and receives from the one `i`
/// places before it.
async fn pairwise(lane: Lane<'_>, mine: &[u8], all: &mut [u8], block_bytes: usize) -> Result<()> {
    let block = |member: u32| blocks(member, block_bytes)..blocks(member + 1, block_bytes);
    let me = lane.rank();
    all[block(me)].copy_from_slice(&mine[block(me)]);
    for distance in 1..lane.n_ranks() {
        let (to, from) = (lane.after(distance), lane.before(distance));
        lane.send(to, 0, &mine[block(to)]).await?;
        lane.receive_into(from, 0, &mut all[block(from)]).await?;
    }
    Ok(())
}

/// A block for the member `d` places after its sender makes a hop for each bit of `d`; the blocks
/// that hop in one round travel together.
async fn by_hops(lane: Lane<'_>, mine: &[u8], all: &mut [u8], block_bytes: usize) -> Result<()> {
    let n = lane.n_ranks();
    let block = |i: u32| blocks(i, block_bytes)..blocks(i + 1, block_bytes);
    // Sorted by the distance to the target.
    let mut under_way = vec![0; mine.len()];
    for distance in 0..n {
        under_way[block(distance)].copy_from_slice(&mine[block(lane.after(distance))]);
    }
    let mut together = Vec::with_capacity(mine.len().div_ceil(2) + block_bytes);
    for (round, hop) in doublings(n) {
        let hopping = || (0..n).filter(|distance| distance & hop != 0);
        together.clear();
        for distance in hopping() {
            together.extend_from_slice(&under_way[block(distance)]);
        }
        lane.send(lane.after(hop), round, &together).await?;
        let bytes = together.len();
        let came = lane.receive_exactly(lane.before(hop), round, bytes).await?;
        for (i, distance) in (0..).zip(hopping()) {
            under_way[block(distance)].copy_from_slice(&came.bytes()[block(i)]);
        }
    }
    for distance in 0..n {
        all[block(lane.before(distance))].copy_from_slice(&under_way[block(distance)]);
    }
    Ok(())
}

impl Team {
    /// Cuts `values` into equal blocks, one for each member, and sends block `i` to member `i`.
    /// Returns the blocks that the members sent to this one, in the order of the members.
    ///
    /// # Cost
    ///
    /// Blocks up to 256 bytes: log n rounds, in each of which a member sends half of its blocks.
    /// Longer blocks, and teams of up to 4 members: n - 1 rounds with one block each. Collective
    /// over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for
    /// members with blocks of different lengths.
    ///
    /// # Panics
    ///
    /// If the length of `values` is no multiple of the number of members.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let me = world.rank().number();
    ///     let received = world.team().all_to_all(&[10 * me, 10 * me + 1, 10 * me + 2])?;
    ///     assert_eq!(received, [me, 10 + me, 20 + me]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Alltoall")]
    #[track_caller]
    pub fn all_to_all<T: Pod>(&self, values: &[T]) -> Result<Vec<T>> {
        let call = self.begin(self.all_to_all_signature(values));
        self.drive(&call, async {
            if let Some(turn) = call.enter().await? {
                return turn.exchange(values.to_vec(), values.len()).await;
            }
            let mut all = zeroed::<T>(values.len());
            all_to_all(call.main(), values.as_bytes(), all.as_mut_bytes()).await?;
            Ok(all)
        })
    }

    /// Begins an [`all_to_all`](Self::all_to_all).
    ///
    /// # Cost
    ///
    /// As [`all_to_all`](Self::all_to_all). Collective over the team.
    ///
    /// # Panics
    ///
    /// If the length of `values` is no multiple of the number of members.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(2, |world| {
    ///     let me = world.rank().number();
    ///     let received = world.team().all_to_all_nb(vec![me, me + 10]);
    ///     assert_eq!(received.wait()?, [10 * me, 10 * me + 1]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ialltoall")]
    #[track_caller]
    pub fn all_to_all_nb<T: Pod>(&self, values: Vec<T>) -> Event<Vec<T>> {
        let call = self.begin(self.all_to_all_signature(&values));
        self.launch(call, |call| async move {
            let n_received = values.len();
            if let Some(turn) = call.enter().await? {
                return turn.exchange(values, n_received).await;
            }
            let mut all = zeroed::<T>(n_received);
            all_to_all(call.main(), values.as_bytes(), all.as_mut_bytes()).await?;
            Ok(all)
        })
    }

    #[track_caller]
    fn all_to_all_signature<T>(&self, values: &[T]) -> Signature {
        assert!(
            values.len().is_multiple_of(self.n_ranks() as usize),
            "{} values cannot be cut into {} equal blocks",
            values.len(),
            self.n_ranks()
        );
        Signature::new(Kind::AllToAll).of::<T>(values.len())
    }
}
