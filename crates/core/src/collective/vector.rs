//! Variable-count collectives: gatherv, allgatherv and alltoallv.

use zerocopy::{FromBytes as _, IntoBytes};

use super::gather::{allgather, climb, collect, gather};
use super::lane::{Call, Lane, Phase};
use super::{Kind, Signature, elements, zeroed};
use crate::error::Mismatch;
use crate::event::Event;
use crate::{Error, Pod, Result, Team};

/// The root gathers the lengths, then all values; the members in between need no lengths.
pub(super) async fn gather_varying<T: Pod>(
    call: &Call,
    root: u32,
    values: &[T],
) -> Result<Option<Vec<Vec<T>>>> {
    let lane = call.main();
    let is_root = lane.rank() == root;
    let mut lens = vec![0_u64; if is_root { lane.n_ranks() as usize } else { 0 }];
    let len = [values.len() as u64];
    gather(lane, root, len.as_bytes(), lens.as_mut_bytes()).await?;
    let second = call.lane(Phase::Second);
    let Some(gathered) = climb(second, root, values.as_bytes(), None).await? else {
        return Ok(None);
    };
    cut(second, &gathered, root, &lens).map(Some)
}

/// All members gather the lengths, then all values.
pub(super) async fn allgather_varying<T: Pod>(call: &Call, values: &[T]) -> Result<Vec<Vec<T>>> {
    let lane = call.main();
    let n = lane.n_ranks();
    let mut lens = vec![0_u64; n as usize];
    let len = [values.len() as u64];
    allgather(lane, len.as_bytes(), lens.as_mut_bytes()).await?;
    // The end of each member's block, counted from this member around the team.
    let mut ends = Vec::with_capacity(lens.len() + 1);
    ends.push(0);
    let mut end = 0;
    for distance in 0..n {
        end += bytes_of::<T>(lens[lane.after(distance) as usize]);
        ends.push(end);
    }
    let mut all = vec![0; end];
    all[..ends[1]].copy_from_slice(values.as_bytes());
    let second = call.lane(Phase::Second);
    collect(second, &mut all, |count| ends[count as usize]).await?;
    cut(second, &all, lane.rank(), &lens)
}

fn bytes_of<T>(len: u64) -> usize {
    usize::try_from(len)
        .ok()
        .and_then(|len| len.checked_mul(size_of::<T>()))
        .expect("a member's values are in its memory")
}

/// Cuts the members' blocks out of `bytes`, beginning with that of member `first`.
fn cut<T: Pod>(lane: Lane<'_>, bytes: &[u8], first: u32, lens: &[u64]) -> Result<Vec<Vec<T>>> {
    let total: usize = lens.iter().map(|len| bytes_of::<T>(*len)).sum();
    if total != bytes.len() {
        return Err(misfit(lane, first, size_of::<T>(), total, bytes.len()));
    }
    let mut cut: Vec<Vec<T>> = Vec::with_capacity(lens.len());
    let mut rest = bytes;
    let first = first as usize;
    for len in lens[first..].iter().chain(&lens[..first]) {
        let (block, others) = rest.split_at(bytes_of::<T>(*len));
        cut.push(elements_of(block, *len));
        rest = others;
    }
    cut.rotate_right(first);
    Ok(cut)
}

/// The `len` elements in `bytes`, whose size may be 0.
pub(super) fn elements_of<T: Pod>(bytes: &[u8], len: u64) -> Vec<T> {
    if size_of::<T>() == 0 {
        return zeroed(usize::try_from(len).unwrap_or(usize::MAX));
    }
    elements(bytes)
}

pub(super) fn misfit(
    lane: Lane<'_>,
    from: u32,
    element_bytes: usize,
    wanted: usize,
    came: usize,
) -> Error {
    Error::from(Box::new(Mismatch {
        what: format!("the bytes of elements of {element_bytes} bytes"),
        rank_a: lane.world_rank(lane.rank()),
        value_a: wanted.to_string(),
        line_a: None,
        rank_b: lane.world_rank(from),
        value_b: came.to_string(),
        line_b: None,
    }))
}

/// In round `i` every member sends to the one `i` places after it and receives from the one `i`
/// places before it.
pub(super) async fn exchange_varying<T: Pod>(
    lane: Lane<'_>,
    values: &[Vec<T>],
) -> Result<Vec<Vec<T>>> {
    let mut received = vec![Vec::new(); values.len()];
    let me = lane.rank() as usize;
    received[me].clone_from(&values[me]);
    for distance in 1..lane.n_ranks() {
        let (to, from) = (lane.after(distance), lane.before(distance));
        let sent = &values[to as usize];
        if size_of::<T>() == 0 {
            // Nothing but their number.
            lane.send(to, 0, (sent.len() as u64).as_bytes()).await?;
        } else {
            lane.send(to, 0, sent.as_bytes()).await?;
        }
        let payload = lane.receive(from, 0).await?;
        let bytes = payload.bytes();
        if size_of::<T>() == 0 {
            let len = u64::read_from_bytes(bytes);
            let len = len.map_err(|_| misfit(lane, from, 0, size_of::<u64>(), bytes.len()))?;
            received[from as usize] = elements_of(bytes, len);
            continue;
        }
        let ragged = bytes.len().checked_rem(size_of::<T>()).unwrap_or(0);
        if ragged != 0 {
            let wanted = bytes.len() - ragged;
            return Err(misfit(lane, from, size_of::<T>(), wanted, bytes.len()));
        }
        received[from as usize] = elements(bytes);
    }
    Ok(received)
}

fn all_to_all_varying_signature<T>(values: &[Vec<T>]) -> Signature {
    let n_own = values.iter().map(Vec::len).sum();
    Signature::new(Kind::AllToAllVarying).varying::<T>(n_own)
}

impl Team {
    /// Gives the root each member's values, in the order of the members: `Some` there, `None`
    /// elsewhere. The members may give different numbers of values.
    ///
    /// # Cost
    ///
    /// 2 log n rounds up a tree, in which members pass on the values of those below. Collective
    /// over the team; members other than the root do not wait for all others.
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
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let me = world.rank().number();
    ///     let mine = vec![me; world.rank().index()];
    ///     let all = world.team().gather_varying(0, &mine)?;
    ///     assert_eq!(all, (me == 0).then(|| vec![vec![], vec![1], vec![2, 2]]));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Gatherv")]
    #[track_caller]
    pub fn gather_varying<T: Pod>(&self, root: u32, values: &[T]) -> Result<Option<Vec<Vec<T>>>> {
        let call = self.begin(self.gather_varying_signature(root, values));
        self.drive(&call, async {
            call.enter().await?;
            gather_varying(&call, root, values).await
        })
    }

    /// Begins a [`gather_varying`](Self::gather_varying).
    ///
    /// # Cost
    ///
    /// As [`gather_varying`](Self::gather_varying). Collective over the team.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(2, |world| {
    ///     let me = world.rank().number();
    ///     let all = world.team().gather_varying_nb(1, vec![7; 1 - world.rank().index()]);
    ///     assert_eq!(all.wait()?, (me == 1).then(|| vec![vec![7], vec![]]));
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Igatherv")]
    #[track_caller]
    pub fn gather_varying_nb<T: Pod>(
        &self,
        root: u32,
        values: Vec<T>,
    ) -> Event<Option<Vec<Vec<T>>>> {
        let call = self.begin(self.gather_varying_signature(root, &values));
        self.launch(call, |call| async move {
            call.enter().await?;
            gather_varying(&call, root, &values).await
        })
    }

    #[track_caller]
    fn gather_varying_signature<T>(&self, root: u32, values: &[T]) -> Signature {
        self.assert_member(root);
        let signature = Signature::new(Kind::GatherVarying);
        signature.root(root).varying::<T>(values.len())
    }

    /// Gives every member each member's values, in the order of the members. The members may give
    /// different numbers of values.
    ///
    /// # Cost
    ///
    /// 2 log n rounds. Collective over the team.
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
    ///     let names = world.team().allgather_varying(name.as_bytes())?;
    ///     assert_eq!(names[1], b"grace");
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Allgatherv")]
    #[track_caller]
    pub fn allgather_varying<T: Pod>(&self, values: &[T]) -> Result<Vec<Vec<T>>> {
        let call = self.begin(Signature::new(Kind::AllgatherVarying).varying::<T>(values.len()));
        self.drive(&call, async {
            call.enter().await?;
            allgather_varying(&call, values).await
        })
    }

    /// Begins an [`allgather_varying`](Self::allgather_varying).
    ///
    /// # Cost
    ///
    /// As [`allgather_varying`](Self::allgather_varying). Collective over the team.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(2, |world| {
    ///     let all = world.team().allgather_varying_nb(vec![5_u8; world.rank().index()]);
    ///     assert_eq!(all.wait()?, [vec![], vec![5]]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iallgatherv")]
    #[track_caller]
    pub fn allgather_varying_nb<T: Pod>(&self, values: Vec<T>) -> Event<Vec<Vec<T>>> {
        let call = self.begin(Signature::new(Kind::AllgatherVarying).varying::<T>(values.len()));
        self.launch(call, |call| async move {
            call.enter().await?;
            allgather_varying(&call, &values).await
        })
    }

    /// Sends `values[i]` to member `i`. Returns the values that the members sent to this one, in
    /// the order of the members.
    ///
    /// # Cost
    ///
    /// n - 1 rounds, in each of which a member sends to one other and receives from one. Collective
    /// over the team.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for
    /// members with elements of different sizes.
    ///
    /// # Panics
    ///
    /// If `values` has not one entry for each member.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     // Member i gets i copies of this rank's number.
    ///     let mine = [0, 1, 2].map(|i| vec![world.rank().number(); i]);
    ///     let received = world.team().all_to_all_varying(&mine)?;
    ///     let n = world.rank().index();
    ///     assert_eq!(received, [vec![0; n], vec![1; n], vec![2; n]]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Alltoallv")]
    #[track_caller]
    pub fn all_to_all_varying<T: Pod>(&self, values: &[Vec<T>]) -> Result<Vec<Vec<T>>> {
        self.assert_an_entry_each(values.len());
        let call = self.begin(all_to_all_varying_signature(values));
        self.drive(&call, async {
            call.enter().await?;
            exchange_varying(call.main(), values).await
        })
    }

    /// Begins an [`all_to_all_varying`](Self::all_to_all_varying).
    ///
    /// # Cost
    ///
    /// As [`all_to_all_varying`](Self::all_to_all_varying). Collective over the team.
    ///
    /// # Panics
    ///
    /// If `values` has not one entry for each member.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(2, |world| {
    ///     let me = world.rank().number();
    ///     let received = world.team().all_to_all_varying_nb(vec![vec![], vec![me]]);
    ///     let expected = if me == 1 { [vec![0], vec![1]] } else { [vec![], vec![]] };
    ///     assert_eq!(received.wait()?, expected);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Ialltoallv")]
    #[track_caller]
    pub fn all_to_all_varying_nb<T: Pod>(&self, values: Vec<Vec<T>>) -> Event<Vec<Vec<T>>> {
        self.assert_an_entry_each(values.len());
        let call = self.begin(all_to_all_varying_signature(&values));
        self.launch(call, |call| async move {
            call.enter().await?;
            exchange_varying(call.main(), &values).await
        })
    }

    #[track_caller]
    pub(super) fn assert_an_entry_each(&self, n_entries: usize) {
        assert!(
            n_entries == self.n_ranks() as usize,
            "{n_entries} entries for the {} members of the team",
            self.n_ranks()
        );
    }
}
