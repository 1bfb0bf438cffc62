//! Distributed arrays made of elements that each rank has.

use pgas_core::collective::op::Sum;
use pgas_core::{AsTeam, Pod, Team, part_of, part_of_object};

use super::distributed::DArray;
use super::layout::Distribution;
use crate::object::{Object, Plain};
use crate::{Error, Result};

/// The elements that this rank gives, and the number of those of all members.
struct Parts<T> {
    own: Vec<T>,
    n_all: u64,
}

impl<T> Parts<T> {
    /// Takes this rank's elements from the program's iterator. Collective over the team.
    #[track_caller]
    fn collect(team: &Team, elements: impl IntoIterator<Item = T>) -> Result<Self> {
        let mut own = Vec::new();
        let collect = || -> Result<u64> {
            own.extend(elements);
            Ok(own.len() as u64)
        };
        let n_all = team.all_try_reduce("collecting the elements of an array", collect, Sum)?;
        Ok(Self { own, n_all })
    }
}

impl<T: Object<Repr = Plain> + Pod> DArray<T> {
    /// An array of the elements of all ranks, dealt out as `distribution` says: first those of the
    /// first member, in their order, then those of the second one, and so on.
    ///
    /// # Cost
    ///
    /// That of [`new`](Self::new), log n rounds, 2 allreduces and B; for each rank W for every
    /// other one that holds some of its elements. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::DArray;
    /// use pgas_containers::array::Distribution;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let lines = ["3 5", "8", "13 21"]; // what this rank has read of a file
    /// let numbers = lines.iter().flat_map(|line| line.split(' ')).map(|n| n.parse().unwrap());
    /// let mut numbers = DArray::<u64>::from_iter(&world, Distribution::Block, numbers)?;
    /// assert_eq!(numbers.get_range(0..5)?, [3, 5, 8, 13, 21]); // of the one rank of this example
    /// numbers.extend([34, 55])?; // collective
    /// assert_eq!((numbers.len(), numbers.get(6)?), (7, 55));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn from_iter(
        on: &impl AsTeam,
        distribution: Distribution,
        elements: impl IntoIterator<Item = T>,
    ) -> Result<Self> {
        let _waits = part_of("the making of an array of the ranks' elements");
        let team = on.as_team();
        let parts = Parts::collect(&team, elements)?;
        Self::of_parts(&team, distribution, 0, &parts, |_| Ok(()))
    }

    /// Appends the elements of all ranks to the array, in the order of the members.
    ///
    /// All elements are dealt out anew, by the same distribution. Pointers to elements that were
    /// made before are invalid.
    ///
    /// # Cost
    ///
    /// As [`from_iter`](Self::from_iter) of all elements, B, and the memory of the former array
    /// until the next allocation of the team. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), on every rank, with the array as it was.
    #[track_caller]
    pub fn extend(&mut self, elements: impl IntoIterator<Item = T>) -> Result<()> {
        let _waits = part_of_object("an extension of an array", self.identity());
        let (team, distribution) = (self.team().clone(), self.distribution());
        let parts = Parts::collect(&team, elements)?;
        // After the barrier, earlier puts of other ranks into this rank's part are complete.
        team.barrier_within()?;
        let extended = Self::of_parts(&team, distribution, self.len(), &parts, |extended| {
            self.each_run(|first, run| extended.put_slice(first, run))
        })?;
        *self = extended;
        Ok(())
    }

    /// An array of `n_before` elements, which `fill` writes, and behind them those of the members.
    #[track_caller]
    fn of_parts(
        team: &Team,
        distribution: Distribution,
        n_before: usize,
        parts: &Parts<T>,
        fill: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<Self> {
        let n = parts.own.len() as u64;
        let first = (n_before as u64).saturating_add(team.scan_exclusive(n, 0, Sum)?);
        let len = parts.n_all.saturating_add(n_before as u64);
        let [first, len] = [first, len].map(usize::try_from);
        let (Ok(first), Ok(len)) = (first, len) else {
            let text = "a distributed array was to have more elements than memory has addresses";
            return Err(Error::Argument(text.into()));
        };
        let array = Self::new(team, len, distribution, &T::new_zeroed())?;
        team.all_try("filling an array", || {
            fill(&array)?;
            array.put_slice(first, &parts.own)
        })?;
        team.barrier_within()?;
        Ok(array)
    }

    /// Calls `f` with each block that this rank holds, and the index of its first element.
    fn each_run(&self, mut f: impl FnMut(usize, &[T]) -> Result<()>) -> Result<()> {
        let (n, block) = (self.local_len(), self.block());
        for place in (0..n).step_by(block) {
            let run = self.local_chunk(place, block.min(n - place))?;
            f(self.index_at(place), &run)?;
        }
        Ok(())
    }
}
