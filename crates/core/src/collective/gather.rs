//! Gather and allgather: all members' values side by side, for one member or for all.

use zerocopy::IntoBytes;

use super::lane::Lane;
use super::{Kind, Signature, blocks, doublings, wrap, zeroed};
use crate::event::Event;
use crate::{Pod, Result, Team};

/// Blocks of more bytes than this go directly to the root, and not through other members' memory.
const LONG_BYTES: usize = 1024;

/// Writes all members' blocks, as long as `mine`, to the root's `all` in the order of the members.
pub(super) async fn gather(lane: Lane<'_>, root: u32, mine: &[u8], all: &mut [u8]) -> Result<()> {
    if mine.len() > LONG_BYTES {
        return gather_directly(lane, root, mine, all).await;
    }
    if let Some(rotated) = climb(lane, root, mine, Some(mine.len())).await? {
        let (first, last) = all.split_at_mut(blocks(root, mine.len()));
        let (from_root_on, before_root) = rotated.split_at(last.len());
        last.copy_from_slice(from_root_on);
        first.copy_from_slice(before_root);
    }
    Ok(())
}

async fn gather_directly(lane: Lane<'_>, root: u32, mine: &[u8], all: &mut [u8]) -> Result<()> {
    if lane.rank() != root {
        return lane.send(root, 0, mine).await;
    }
    for (member, block) in (0..).zip(all.chunks_exact_mut(mine.len())) {
        if member == root {
            block.copy_from_slice(mine);
        } else {
            lane.receive_into(member, 0, block).await?;
        }
    }
    Ok(())
}

/// Appends the blocks of the members after this one to its own, up a binomial tree; the root gets
/// them all, its own first. Without `block_bytes` the blocks have different lengths.
pub(super) async fn climb(
    lane: Lane<'_>,
    root: u32,
    mine: &[u8],
    block_bytes: Option<usize>,
) -> Result<Option<Vec<u8>>> {
    let n = lane.n_ranks();
    let place = wrap(lane.rank(), n - root, n);
    let mut gathered = mine.to_vec();
    for (round, distance) in doublings(n) {
        if place & distance != 0 {
            let parent = wrap(root, place - distance, n);
            lane.send(parent, round, &gathered).await?;
            return Ok(None);
        }
        if place + distance < n {
            let child = wrap(root, place + distance, n);
            let payload = match block_bytes {
                Some(bytes) => {
                    let n_blocks = distance.min(n - place - distance);
                    let bytes = blocks(n_blocks, bytes);
                    lane.receive_exactly(child, round, bytes).await?
                }
                None => lane.receive(child, round).await?,
            };
            gathered.extend_from_slice(payload.bytes());
        }
    }
    Ok(Some(gathered))
}

/// Fills `all`, which begins with this member's block, with those of the members after it, around
/// the team. In each round a member with `n` blocks gets the next `n` blocks from the member `n`
/// places after it. `end` gives the end of the first `n` blocks of `all`.
pub(super) async fn collect(
    lane: Lane<'_>,
    all: &mut [u8],
    end: impl Fn(u32) -> usize,
) -> Result<()> {
    let n = lane.n_ranks();
    for (round, distance) in doublings(n) {
        let n_blocks = distance.min(n - distance);
        lane.send(lane.before(distance), round, &all[..end(n_blocks)])
            .await?;
        let into = &mut all[end(distance)..end(distance + n_blocks)];
        lane.receive_into(lane.after(distance), round, into).await?;
    }
    Ok(())
}

/// Writes all members' blocks, as long as `mine`, to `all` in the order of the members.
pub(super) async fn allgather(lane: Lane<'_>, mine: &[u8], all: &mut [u8]) -> Result<()> {
    all[..mine.len()].copy_from_slice(mine);
    collect(lane, all, |count| blocks(count, mine.len())).await?;
    all.rotate_right(blocks(lane.rank(), mine.len()));
    Ok(())
}

impl Team {
    /// Puts the values of all members side by side, in the order of the members, for the root:
    /// `Some` there, `None` elsewhere. Every member gives the same number of values.
    ///
    /// # Cost
    ///
    /// Up to 1 KiB a member: log n rounds up a tree, in which members pass on the values of those
    /// below. Above that one round, directly to the root. Collective over the team; members other
    /// than the root do not wait for all others.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for a
    /// member with another length. If one has over 1 KiB and another has not, this is certain only
    /// with `PGAS_CHECK=1`; otherwise a member may wait for ever.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let me = world.rank().number();
    ///     let all = world.team().gather(1, &[me, 10 * me])?;
    ///     assert_eq!(all, (me == 1).then(|| vec![0, 0, 1, 10, 2, 20]));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Gather")]
    #[track_caller]
    pub fn gather<T: Pod>(&self, root: u32, values: &[T]) -> Result<Option<Vec<T>>> {
        let call = self.begin(self.gather_signature(root, values));
        let n_received = self.n_received(root, values);
        let all = self.drive(&call, async {
            if let Some(turn) = call.enter().await? {
                return turn.exchange(values.to_vec(), n_received).await;
            }
            let mut all = zeroed::<T>(n_received);
            gather(call.main(), root, values.as_bytes(), all.as_mut_bytes()).await?;
            Ok(all)
        })?;
        Ok((self.rank() == root).then_some(all))
    }

    /// Begins a [`gather`](Self::gather).
    ///
    /// # Cost
    ///
    /// As [`gather`](Self::gather). Collective over the team.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let me = world.rank().number();
    ///     let all = world.team().gather_nb(0, vec![me]).wait()?;
    ///     assert_eq!(all, (me == 0).then(|| vec![0, 1, 2]));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Igather")]
    #[track_caller]
    pub fn gather_nb<T: Pod>(&self, root: u32, values: Vec<T>) -> Event<Option<Vec<T>>> {
        let call = self.begin(self.gather_signature(root, &values));
        let n_received = self.n_received(root, &values);
        self.launch(call, |call| async move {
            let is_root = call.main().rank() == root;
            if let Some(turn) = call.enter().await? {
                let all = turn.exchange(values, n_received).await?;
                return Ok(is_root.then_some(all));
            }
            let mut all = zeroed::<T>(n_received);
            gather(call.main(), root, values.as_bytes(), all.as_mut_bytes()).await?;
            Ok(is_root.then_some(all))
        })
    }

    /// Puts the values of all members side by side, in the order of the members, for all members.
    /// Every member gives the same number of values.
    ///
    /// # Cost
    ///
    /// log n rounds, in which a member sends and receives n - 1 times the bytes of its own values.
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
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let squares = world.team().allgather(&[world.rank().number().pow(2)])?;
    ///     assert_eq!(squares, [0, 1, 4]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Allgather")]
    #[track_caller]
    pub fn allgather<T: Pod>(&self, values: &[T]) -> Result<Vec<T>> {
        let signature = Signature::new(Kind::Allgather).of::<T>(values.len());
        let call = self.begin(signature);
        let n_received = blocks(self.n_ranks(), values.len());
        self.drive(&call, async {
            if let Some(turn) = call.enter().await? {
                return turn.exchange(values.to_vec(), n_received).await;
            }
            let mut all = zeroed::<T>(n_received);
            allgather(call.main(), values.as_bytes(), all.as_mut_bytes()).await?;
            Ok(all)
        })
    }

    /// Begins an [`allgather`](Self::allgather).
    ///
    /// # Cost
    ///
    /// As [`allgather`](Self::allgather). Collective over the team.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let all = world.team().allgather_nb(vec![world.rank().number()]);
    ///     assert_eq!(all.wait()?, [0, 1, 2]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iallgather")]
    #[track_caller]
    pub fn allgather_nb<T: Pod>(&self, values: Vec<T>) -> Event<Vec<T>> {
        let signature = Signature::new(Kind::Allgather).of::<T>(values.len());
        let call = self.begin(signature);
        let n_received = blocks(self.n_ranks(), values.len());
        self.launch(call, |call| async move {
            if let Some(turn) = call.enter().await? {
                return turn.exchange(values, n_received).await;
            }
            let mut all = zeroed::<T>(n_received);
            allgather(call.main(), values.as_bytes(), all.as_mut_bytes()).await?;
            Ok(all)
        })
    }

    #[track_caller]
    fn gather_signature<T>(&self, root: u32, values: &[T]) -> Signature {
        self.assert_member(root);
        Signature::new(Kind::Gather)
            .root(root)
            .of::<T>(values.len())
    }

    /// All members' values at the root, none elsewhere.
    fn n_received<T>(&self, root: u32, values: &[T]) -> usize {
        let n_members = if self.rank() == root {
            self.n_ranks()
        } else {
            0
        };
        blocks(n_members, values.len())
    }
}
