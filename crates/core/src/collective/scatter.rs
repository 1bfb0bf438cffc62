//! Scatter: a part of one member's values for each member.

use zerocopy::{FromBytes as _, IntoBytes};

use super::lane::Lane;
use super::vector::{elements_of, misfit};
use super::{Kind, Signature, elements};
use crate::event::Event;
use crate::{Pod, Rank, Result, Team, World};

/// Sends each member its part of the root's values.
async fn scatter<'v, T: Pod>(
    lane: Lane<'_>,
    root: u32,
    part: impl Fn(usize) -> &'v [T],
) -> Result<Vec<T>> {
    if lane.rank() == root {
        for member in (0..lane.n_ranks()).filter(|member| *member != root) {
            let values = part(member as usize);
            if size_of::<T>() == 0 {
                // Nothing but their number.
                lane.send(member, 0, (values.len() as u64).as_bytes())
                    .await?;
            } else {
                lane.send(member, 0, values.as_bytes()).await?;
            }
        }
        return Ok(part(root as usize).to_vec());
    }
    let payload = lane.receive(root, 0).await?;
    let bytes = payload.bytes();
    let fitting = bytes.len().checked_rem(size_of::<T>());
    match fitting {
        None => match u64::read_from_bytes(bytes) {
            Ok(len) => Ok(elements_of(bytes, len)),
            Err(_) => Err(misfit(lane, root, 0, size_of::<u64>(), bytes.len())),
        },
        Some(0) => Ok(elements(bytes)),
        Some(rest) => {
            let wanted = bytes.len() - rest;
            Err(misfit(lane, root, size_of::<T>(), wanted, bytes.len()))
        }
    }
}

impl Team {
    /// Gives member `i` the `i`-th of the equal parts of the root's `values`, of which there are as
    /// many as members. The values of the other members are ignored.
    ///
    /// # Cost
    ///
    /// A message from the root to each other member. Collective over the team; no member waits for
    /// others than the root.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for a
    /// member whose elements the bytes do not fit.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number, or if the root's values cannot be divided equally.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let mine = world.team().scatter(1, &[1, 2, 3, 4, 5, 6])?;
    ///     assert_eq!(mine, [[1, 2], [3, 4], [5, 6]][world.rank().index()]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Scatter")]
    #[track_caller]
    pub fn scatter<T: Pod>(&self, root: u32, values: &[T]) -> Result<Vec<T>> {
        let call = self.begin(self.scatter_signature(root, values));
        let len = values.len() / self.n_ranks() as usize;
        self.drive(&call, async {
            call.enter().await?;
            scatter(call.main(), root, |member| &values[member * len..][..len]).await
        })
    }

    /// Begins a [`scatter`](Self::scatter).
    ///
    /// # Cost
    ///
    /// As [`scatter`](Self::scatter). Collective over the team.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number, or if the root's values cannot be divided equally.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let mine = world.team().scatter_nb(1, vec![1, 2, 3, 4, 5, 6]).wait()?;
    ///     assert_eq!(mine, [[1, 2], [3, 4], [5, 6]][world.rank().index()]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iscatter")]
    #[track_caller]
    pub fn scatter_nb<T: Pod>(&self, root: u32, values: Vec<T>) -> Event<Vec<T>> {
        let call = self.begin(self.scatter_signature(root, &values));
        let len = values.len() / self.n_ranks() as usize;
        self.launch(call, move |call| async move {
            call.enter().await?;
            scatter(call.main(), root, |member| &values[member * len..][..len]).await
        })
    }

    /// Gives member `i` the root's `values[i]`. The values of the other members are ignored, and
    /// may be none.
    ///
    /// # Cost
    ///
    /// A message from the root to each other member. Collective over the team; no member waits for
    /// others than the root.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for a
    /// member whose elements the bytes do not fit.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number, or if the root has not one entry for each member.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let parts = [vec![7], vec![], vec![8, 9]]; // the root's are used
    ///     let mine = world.team().scatter_varying(1, &parts)?;
    ///     assert_eq!(mine, parts[world.rank().index()]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Scatterv")]
    #[track_caller]
    pub fn scatter_varying<T: Pod>(&self, root: u32, values: &[Vec<T>]) -> Result<Vec<T>> {
        let call = self.begin(self.scatter_varying_signature(root, values));
        self.drive(&call, async {
            call.enter().await?;
            scatter(call.main(), root, |member| &values[member]).await
        })
    }

    /// Begins a [`scatter_varying`](Self::scatter_varying).
    ///
    /// # Cost
    ///
    /// As [`scatter_varying`](Self::scatter_varying). Collective over the team.
    ///
    /// # Panics
    ///
    /// If `root` is not a member's number, or if the root has not one entry for each member.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::backend::loopback;
    /// loopback::run(3, |world| {
    ///     let parts = [vec![7], vec![], vec![8, 9]]; // the root's are used
    ///     let mine = world.team().scatter_varying_nb(1, parts.to_vec()).wait()?;
    ///     assert_eq!(mine, parts[world.rank().index()]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iscatterv")]
    #[track_caller]
    pub fn scatter_varying_nb<T: Pod>(&self, root: u32, values: Vec<Vec<T>>) -> Event<Vec<T>> {
        let call = self.begin(self.scatter_varying_signature(root, &values));
        self.launch(call, move |call| async move {
            call.enter().await?;
            scatter(call.main(), root, |member| &values[member]).await
        })
    }

    #[track_caller]
    fn scatter_signature<T>(&self, root: u32, values: &[T]) -> Signature {
        self.assert_member(root);
        let n = self.n_ranks() as usize;
        assert!(
            self.rank() != root || values.len().is_multiple_of(n),
            "{} values cannot be divided equally among {n} members",
            values.len()
        );
        let n_own = if self.rank() == root { values.len() } else { 0 };
        Signature::new(Kind::Scatter).root(root).varying::<T>(n_own)
    }

    #[track_caller]
    fn scatter_varying_signature<T>(&self, root: u32, values: &[Vec<T>]) -> Signature {
        self.assert_member(root);
        let mut n_own = 0;
        if self.rank() == root {
            self.assert_an_entry_each(values.len());
            n_own = values.iter().map(Vec::len).sum();
        }
        let signature = Signature::new(Kind::ScatterVarying);
        signature.root(root).varying::<T>(n_own)
    }
}

/// Scatters over all ranks.
impl World {
    /// [`Team::scatter`](crate::Team::scatter) over all ranks.
    ///
    /// # Cost
    ///
    /// A message from the root to each other rank. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for a
    /// rank with elements of another size.
    ///
    /// # Panics
    ///
    /// If the job has no rank `root`, or if the root's values cannot be divided equally.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Rank, backend::loopback};
    /// loopback::run(3, |world| {
    ///     let mine = world.scatter(Rank::new(1), &[1, 2, 3, 4, 5, 6])?;
    ///     assert_eq!(mine, [[1, 2], [3, 4], [5, 6]][world.rank().index()]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Scatter")]
    #[track_caller]
    pub fn scatter<T: Pod>(&self, root: Rank, values: &[T]) -> Result<Vec<T>> {
        self.team().scatter(root.number(), values)
    }

    /// [`Team::scatter_nb`](crate::Team::scatter_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// A message from the root to each other rank. Collective over the world.
    ///
    /// # Panics
    ///
    /// If the job has no rank `root`, or if the root's values cannot be divided equally.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Rank, backend::loopback};
    /// loopback::run(3, |world| {
    ///     let mine = world.scatter_nb(Rank::new(1), vec![1, 2, 3, 4, 5, 6]).wait()?;
    ///     assert_eq!(mine, [[1, 2], [3, 4], [5, 6]][world.rank().index()]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iscatter")]
    #[track_caller]
    pub fn scatter_nb<T: Pod>(&self, root: Rank, values: Vec<T>) -> Event<Vec<T>> {
        self.team().scatter_nb(root.number(), values)
    }

    /// [`Team::scatter_varying`](crate::Team::scatter_varying) over all ranks.
    ///
    /// # Cost
    ///
    /// A message from the root to each other rank. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::Mismatch`](crate::Error::Mismatch) for a
    /// rank with elements of another size.
    ///
    /// # Panics
    ///
    /// If the job has no rank `root`, or if the root has not one entry for each member.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Rank, backend::loopback};
    /// loopback::run(3, |world| {
    ///     let parts = [vec![7], vec![], vec![8, 9]]; // the root's are used
    ///     let mine = world.scatter_varying(Rank::new(1), &parts)?;
    ///     assert_eq!(mine, parts[world.rank().index()]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Scatterv")]
    #[track_caller]
    pub fn scatter_varying<T: Pod>(&self, root: Rank, values: &[Vec<T>]) -> Result<Vec<T>> {
        self.team().scatter_varying(root.number(), values)
    }

    /// [`Team::scatter_varying_nb`](crate::Team::scatter_varying_nb) over all ranks.
    ///
    /// # Cost
    ///
    /// A message from the root to each other rank. Collective over the world.
    ///
    /// # Panics
    ///
    /// If the job has no rank `root`, or if the root has not one entry for each member.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Rank, backend::loopback};
    /// loopback::run(3, |world| {
    ///     let parts = [vec![7], vec![], vec![8, 9]]; // the root's are used
    ///     let mine = world.scatter_varying_nb(Rank::new(1), parts.to_vec()).wait()?;
    ///     assert_eq!(mine, parts[world.rank().index()]);
    ///     Ok::<(), pgas_core::Error>(())
    /// })
    /// # .into_iter().for_each(|result| result.unwrap());
    /// ```
    #[doc(alias = "MPI_Iscatterv")]
    #[track_caller]
    pub fn scatter_varying_nb<T: Pod>(&self, root: Rank, values: Vec<Vec<T>>) -> Event<Vec<T>> {
        self.team().scatter_varying_nb(root.number(), values)
    }
}
