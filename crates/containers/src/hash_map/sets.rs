//! Operations on two sets: each rank works on the keys that it holds of one set.

use pgas_core::collective::op::Sum;
use pgas_core::part_of;

use super::batch::in_parts;
use super::phase::{Changes, Finds, Inserts, Looks, Phase};
use super::set::HashSet;
use crate::object::{KeyHasher, Object};
use crate::{BatchError, Error, Result};

/// The other set may have another size, phase and hasher. Every rank calls the method, and works on
/// the keys that it holds itself of one set; these keys may be on any rank in the other set. After
/// a barrier the work of all ranks is complete.
impl<K: Object, P: Phase, S: KeyHasher> HashSet<K, P, S> {
    /// Inserts the keys that this rank holds of `other` into this set, and returns how many were
    /// new. When all ranks have done so, this set is the union of both.
    ///
    /// # Cost
    ///
    /// That of [`local_iter`](Self::local_iter) of `other`, and of
    /// [`extend`](Self::extend) by these keys. One-sided; or M. Complete at the targets on return.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert); then some of the keys are there.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::{Error, HashSet};
    /// # fn main() -> Result<(), Error> {
    /// # pgas_smp::threads(2, |world| sets(&world)).unwrap().into_iter().collect()
    /// # }
    /// # fn sets(world: &pgas_core::World) -> Result<(), Error> {
    /// let small = HashSet::<u64>::with_capacity(world, 100)?;
    /// let even = HashSet::<u64>::with_capacity(world, 100)?;
    /// small.extend(0..10)?;
    /// even.extend((0..20).filter(|n| n % 2 == 0))?;
    /// world.barrier()?;
    /// let all = HashSet::<u64>::with_capacity(world, 100)?;
    /// all.union_with(&small)?;
    /// all.union_with(&even)?;
    /// assert_eq!(all.len()?, 15); // of both ranks, so it waits for both
    ///
    /// small.intersect_with(&even)?;
    /// assert_eq!(small.len()?, 5); // 0, 2, 4, 6, 8
    /// even.difference_with(&small)?;
    /// assert_eq!(even.len()?, 5); // 10, 12, 14, 16, 18
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "union")]
    #[track_caller]
    pub fn union_with<O, T>(&self, other: &HashSet<K, O, T>) -> Result<usize>
    where
        P: Inserts,
        O: Looks,
        T: KeyHasher,
    {
        let _waits = part_of("a union of sets");
        in_batches(other.local_iter(), |keys| self.extend(keys))
    }

    /// Removes the keys that this rank holds and that are not in `other`, and returns their number.
    /// When all ranks have done so, this set is the intersection of both.
    ///
    /// # Cost
    ///
    /// That of [`local_iter`](Self::local_iter), of [`contains_many`](Self::contains_many) of
    /// `other` with these keys, and of [`remove_many`](Self::remove_many). One-sided; or M.
    /// Complete at the targets on return.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then some of the keys may be removed.
    #[doc(alias = "intersection")]
    #[track_caller]
    pub fn intersect_with<O, T>(&self, other: &HashSet<K, O, T>) -> Result<usize>
    where
        P: Changes + Looks,
        O: Finds,
        T: KeyHasher,
    {
        self.remove_where(other, false)
    }

    /// Removes the keys that this rank holds and that are also in `other`, and returns their
    /// number. When all ranks have done so, this set is the difference of both.
    ///
    /// # Cost
    ///
    /// As [`intersect_with`](Self::intersect_with).
    ///
    /// # Errors
    ///
    /// As [`intersect_with`](Self::intersect_with).
    #[doc(alias = "difference")]
    #[track_caller]
    pub fn difference_with<O, T>(&self, other: &HashSet<K, O, T>) -> Result<usize>
    where
        P: Changes + Looks,
        O: Finds,
        T: KeyHasher,
    {
        self.remove_where(other, true)
    }

    /// Whether all keys of this set, on all ranks, are in `other`. No rank changes one of the sets
    /// meanwhile.
    ///
    /// # Cost
    ///
    /// B, an allreduce, and that of [`local_iter`](Self::local_iter) and of
    /// [`contains_many`](Self::contains_many) of `other` with these keys. Collective over the team
    /// of this set.
    ///
    /// # Errors
    ///
    /// Errors of the transport, on every rank.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashSet;
    /// # let world = pgas_core::backend::loopback::world();
    /// let small = HashSet::<u64>::with_capacity(&world, 10)?;
    /// let large = HashSet::<u64>::with_capacity(&world, 100)?;
    /// small.extend(0..5)?;
    /// large.extend(0..50)?;
    /// assert!(small.is_subset(&large)? && !large.is_subset(&small)?); // collective, each of both
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn is_subset<O, T>(&self, other: &HashSet<K, O, T>) -> Result<bool>
    where
        P: Looks,
        O: Finds,
        T: KeyHasher,
    {
        let what = "a comparison of sets";
        let _waits = part_of(what);
        self.team().barrier_within()?;
        let absent = || {
            let absent = in_batches(self.local_iter(), |keys| {
                let found = other.contains_many(&keys).map_err(of_first)?;
                Ok(found.into_iter().filter(|is| !is).count())
            });
            absent.map(|n| n as u64)
        };
        Ok(self.team().all_try_reduce(what, absent, Sum)? == 0)
    }

    /// Removes the keys of this rank that `other` contains, if `has`, or does not contain.
    #[track_caller]
    fn remove_where<O, T>(&self, other: &HashSet<K, O, T>, has: bool) -> Result<usize>
    where
        P: Changes + Looks,
        O: Finds,
        T: KeyHasher,
    {
        let _waits = part_of("a removal of the keys of a set");
        in_batches(self.local_iter(), |keys| {
            let found = other.contains_many(&keys).map_err(of_first)?;
            let found = keys.into_iter().zip(found);
            let gone = found.filter(|(_, is)| *is == has).map(|(key, _)| key);
            self.remove_many(&gone.collect::<Vec<K>>())
        })
    }
}

/// Calls `perform` with some of `keys` after others, and returns the sum of its results.
fn in_batches<K>(
    keys: impl Iterator<Item = Result<K>>,
    mut perform: impl FnMut(Vec<K>) -> Result<usize, BatchError>,
) -> Result<usize> {
    let sum = in_parts(keys, |some| {
        perform(some.into_iter().collect::<Result<_>>().map_err(of_first)?)
    });
    Ok(sum?)
}

/// The error of a batch that did nothing.
fn of_first(error: Error) -> BatchError {
    BatchError { done: 0, error }
}
