//! The values that one rank holds of a map with several values for each key.

use std::iter;

use super::super::iter::Entries;
use super::super::phase::{Finds, Local, Looks};
use super::MultiMap;
use crate::Result;
use crate::object::{KeyHasher, Object};
use crate::team::TeamMember;

impl<K: Object, V: Object, P: Looks, S: KeyHasher> MultiMap<K, V, P, S> {
    /// Iterates over the values that this rank holds, each with its key, as
    /// [`HashMap::local_iter`](crate::HashMap::local_iter). In the local phase a loop over the map
    /// visits the same values.
    ///
    /// # Cost
    ///
    /// As [`HashMap::local_iter`](crate::HashMap::local_iter).
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_iter`](crate::HashMap::local_iter).
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::MultiMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let edges = MultiMap::<u32, u32>::with_capacity(&world, 100)?;
    /// edges.extend([(1, 2), (1, 3), (2, 3)])?;
    /// let mut sum = 0;
    /// edges.for_each_local(|from, to| sum += from + to)?;
    /// assert_eq!((sum, edges.entries_on(0).count()), (12, 3)); // of the one rank of this example
    /// let edges = edges.into_local_phase()?; // collective
    /// let mut n_in = [0; 4];
    /// for edge in &edges {
    ///     let (_, to) = edge?;
    ///     n_in[to as usize] += 1;
    /// }
    /// assert_eq!((n_in, edges.local_len()?), ([0, 0, 1, 2], 3));
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    pub fn local_iter(&self) -> Values<'_, K, V, S> {
        self.values.local_iter().map(unnumbered)
    }

    /// Calls `f` with each value that this rank holds, and its key.
    ///
    /// # Cost
    ///
    /// As [`HashMap::local_iter`](crate::HashMap::local_iter).
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_iter`](crate::HashMap::local_iter); then `f` was called for the values
    /// before.
    pub fn for_each_local(&self, mut f: impl FnMut(K, V)) -> Result<()> {
        self.values.for_each_local(|(key, _), value| f(key, value))
    }

    /// The number of values that this rank holds, whoever inserted them.
    ///
    /// # Cost
    ///
    /// As [`HashMap::local_len`](crate::HashMap::local_len).
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    pub fn local_len(&self) -> Result<u64> {
        self.values.local_len()
    }

    /// Iterates over the values that a member of the team holds, each with its key, as
    /// [`HashMap::entries_on`](crate::HashMap::entries_on).
    ///
    /// # Cost
    ///
    /// As [`HashMap::entries_on`](crate::HashMap::entries_on).
    ///
    /// # Errors
    ///
    /// As [`HashMap::local_iter`](crate::HashMap::local_iter).
    ///
    /// # Panics
    ///
    /// If the team has no such member.
    #[track_caller]
    pub fn entries_on(&self, member: impl TeamMember) -> Values<'_, K, V, S>
    where
        P: Finds,
    {
        self.values.entries_on(member).map(unnumbered)
    }
}

/// An entry of the map of values.
type Numbered<K, V> = Result<((K, u64), V)>;

/// The values that one rank holds, each with its key.
type Values<'m, K, V, S> =
    iter::Map<Entries<'m, (K, u64), V, S>, fn(Numbered<K, V>) -> Result<(K, V)>>;

/// In the local phase a loop over a map visits the values of this rank, as
/// [`local_iter`](MultiMap::local_iter), which has an example.
impl<'m, K: Object, V: Object, S: KeyHasher> IntoIterator for &'m MultiMap<K, V, Local, S> {
    type Item = Result<(K, V)>;
    type IntoIter = Values<'m, K, V, S>;

    fn into_iter(self) -> Self::IntoIter {
        self.local_iter()
    }
}

/// A value with its key, without its number.
fn unnumbered<K, V>(entry: Numbered<K, V>) -> Result<(K, V)> {
    let ((key, _), value) = entry?;
    Ok((key, value))
}
