//! Maps and sets.

use std::path::Path;
use std::sync::Arc;

use pgas_core::{AsTeam, Team};

use super::manifest::About;
use super::parts::Part;
use super::{load, save, saving};
use crate::Result;
use crate::hash_map::{
    Atomic, HashMap, HashSet, Looks, MultiMap, RapidHasher, loaded_numbers, sparse_numbers,
};
use crate::object::{KeyHasher, Object};

const MAP: &str = "hash map";
const MULTI: &str = "multimap";

fn about<K: Object, V: Object>(capacity: u64) -> About {
    About::of::<(K, V)>(&[capacity])
}

/// Appends the entries that this rank holds.
fn write<K: Object, V: Object, P: Looks, S: KeyHasher>(
    map: &HashMap<K, V, P, S>,
    part: &mut Part<'_>,
) -> Result<()> {
    map.local_iter().try_for_each(|entry| part.push(&entry?))
}

impl<K: Object, V: Object, P: Looks, S: KeyHasher> HashMap<K, V, P, S> {
    /// Writes the entries to a directory, from which any number of ranks may
    /// [`load`](HashMap::load) them.
    ///
    /// Each rank writes a file with the entries that it holds. No rank changes the map meanwhile.
    ///
    /// # Cost
    ///
    /// That of [`local_iter`](Self::local_iter), and B + 5 collectives. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage), which names the file, if one
    /// cannot be written.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// # let dir = std::env::temp_dir().join(format!("pgas-doc-{}", std::process::id()));
    /// let map = HashMap::<String, u64>::with_capacity(&world, 100)?;
    /// map.insert(&"one".to_owned(), 1)?;
    /// map.save(&dir)?; // collective
    /// let again = HashMap::<String, u64>::load(&world, &dir)?; // by any number of ranks
    /// assert_eq!(again.find(&"one".to_owned())?, Some(1));
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let _waits = saving(self.identity());
        let team = self.team();
        team.barrier_within()?;
        let about = about::<K, V>(self.capacity());
        save(
            team,
            dir.as_ref(),
            MAP,
            (&[about], self.n_counted()),
            |parts| write(self, &mut parts[0]),
        )
    }
}

impl<K: Object, V: Object> HashMap<K, V> {
    /// The map that was [saved](HashMap::save) in a directory, by any number of ranks.
    ///
    /// # Cost
    ///
    /// That of [`with_capacity`](Self::with_capacity), an [`insert`](Self::insert) for each entry,
    /// divided among the ranks, and B + 4 collectives. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if the directory holds no map of
    /// such entries, if a file cannot be read or is not as it was written, or if there is no room
    /// for the map.
    #[track_caller]
    pub fn load(on: &impl AsTeam, dir: impl AsRef<Path>) -> Result<Self> {
        Self::load_with_hasher(on, dir, RapidHasher)
    }
}

impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, Atomic, S> {
    /// As [`load`](HashMap::load), with a hasher of your own. It may differ from that of the saved
    /// map.
    ///
    /// # Cost
    ///
    /// As [`load`](HashMap::load).
    ///
    /// # Errors
    ///
    /// Those of [`load`](HashMap::load) and [`with_hasher`](Self::with_hasher).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::HashMap;
    /// use pgas_containers::hash_map::SeededHasher;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # let dir = std::env::temp_dir().join(format!("pgas-load-{}", std::process::id()));
    /// let counts = HashMap::<u64, u64>::with_capacity(&world, 100)?;
    /// counts.insert(&7, 49)?;
    /// counts.save(&dir)?;
    /// let counts = HashMap::<u64, u64, _, _>::load_with_hasher(&world, &dir, SeededHasher::new(3))?;
    /// assert_eq!(counts.find(&7)?, Some(49));
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn load_with_hasher(on: &impl AsTeam, dir: impl AsRef<Path>, hasher: S) -> Result<Self> {
        let team = &on.as_team();
        let hasher = Arc::new(hasher);
        load(team, dir.as_ref(), (MAP, &[about::<K, V>(0)]), |saved| {
            saved.expect_room()?;
            let map = Self::with_shared_hasher(team, saved.size(0)?, Arc::clone(&hasher));
            let map = saved.made(map)?;
            saved.for_each(team, 0, |_, (key, value)| map.insert(&key, value).map(drop))?;
            team.barrier_within()?;
            Ok(map)
        })
    }
}

impl<K: Object, P: Looks, S: KeyHasher> HashSet<K, P, S> {
    /// Writes the keys to a directory, as [`HashMap::save`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::save`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::save`].
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::HashSet;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # let dir = std::env::temp_dir().join(format!("pgas-doc-set-{}", std::process::id()));
    /// let set = HashSet::<u64>::with_capacity(&world, 100)?;
    /// set.extend([1, 2])?;
    /// set.save(&dir)?; // collective
    /// assert!(HashSet::<u64>::load(&world, &dir)?.contains(&2)?);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.map().save(dir)
    }
}

impl<K: Object> HashSet<K> {
    /// The set that was saved in a directory, as [`HashMap::load`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::load`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::load`].
    #[track_caller]
    pub fn load(on: &impl AsTeam, dir: impl AsRef<Path>) -> Result<Self> {
        HashMap::load(on, dir).map(Self::of)
    }
}

impl<K: Object, V: Object, P: Looks, S: KeyHasher> MultiMap<K, V, P, S> {
    /// Writes the values and their keys to a directory, as [`HashMap::save`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::save`]; the entries are those of both maps of which it consists.
    ///
    /// # Errors
    ///
    /// As [`HashMap::save`].
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::MultiMap;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # let dir = std::env::temp_dir().join(format!("pgas-doc-multi-{}", std::process::id()));
    /// let lines = MultiMap::<String, u32>::with_capacity(&world, 100)?;
    /// lines.extend([("a".to_owned(), 1), ("a".to_owned(), 2)])?;
    /// lines.save(&dir)?; // collective
    /// assert_eq!(MultiMap::<String, u32>::load(&world, &dir)?.find("a")?, [1, 2]);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let (numbers, values) = self.maps();
        let _waits = saving(numbers.identity());
        let abouts = [
            about::<K, u64>(numbers.capacity()),
            about::<(K, u64), V>(values.capacity()),
        ];
        let team = numbers.team();
        team.barrier_within()?;
        let n = numbers.n_counted().saturating_add(values.n_counted());
        save(team, dir.as_ref(), MULTI, (&abouts, n), |parts| {
            write(numbers, &mut parts[0])?;
            write(values, &mut parts[1])
        })
    }
}

/// Gives values of all ranks new numbers: those of each key keep their order, and none is beyond
/// the number of values. Collective.
#[track_caller]
fn number_anew<K, V>(team: &Team, values: &mut [((K, u64), V)]) -> Result<()> {
    let mine: Vec<u64> = values.iter().map(|((_, number), _)| *number).collect();
    let mut all = team.allgather_varying(&mine)?.concat();
    all.sort_unstable();
    all.dedup();
    for ((_, number), _) in values {
        *number = all.partition_point(|other| *other < *number) as u64;
    }
    Ok(())
}

impl<K: Object, V: Object> MultiMap<K, V> {
    /// The map that was saved in a directory, as [`HashMap::load`].
    ///
    /// # Cost
    ///
    /// That of [`with_capacity`](Self::with_capacity), an insert for each entry of both maps of
    /// which it consists, divided among the ranks, and B + 5 collectives. If a key has more numbers
    /// than the map has values, since inserts were refused, the values of such keys get new ones:
    /// an allreduce and an [`allgather_varying`](Team::allgather_varying) more, and a
    /// [`find`](HashMap::find) for each value. Collective over the team.
    ///
    /// # Errors
    ///
    /// As [`HashMap::load`].
    #[track_caller]
    pub fn load(on: &impl AsTeam, dir: impl AsRef<Path>) -> Result<Self> {
        let abouts = [about::<K, u64>(0), about::<(K, u64), V>(0)];
        let team = &on.as_team();
        load(team, dir.as_ref(), (MULTI, &abouts), |saved| {
            saved.expect_room()?;
            let capacity = |i: usize| saved.capacity(i);
            let numbers = saved.made(HashMap::with_capacity(team, capacity(0)?))?;
            let values = saved.made(HashMap::with_capacity(team, capacity(1)?))?;
            let n_values = saved.n_elements(1)?;
            let n_sparse = saved.sum_of_each(team, 0, |_, (key, word): (K, u64)| {
                let numbers_of = loaded_numbers(word, n_values);
                let loaded = numbers_of.map_err(|why| saved.refuse(why))?;
                numbers.insert(&key, loaded)?;
                Ok((loaded != word).into())
            })?;
            let mut apart = Vec::new();
            saved.for_each(team, 1, |_, (place, value): ((K, u64), V)| {
                if n_sparse > 0 && numbers.find(&place.0)? == Some(sparse_numbers(n_values)) {
                    apart.push((place, value));
                    return Ok(());
                }
                values.insert(&place, value).map(drop)
            })?;
            if n_sparse > 0 {
                number_anew(team, &mut apart)?;
                saved.together(team, || {
                    let mut apart = apart.into_iter();
                    apart.try_for_each(|(place, value)| values.insert(&place, value).map(drop))?;
                    Ok(0)
                })?;
            }
            team.barrier_within()?;
            Ok(Self::of(numbers, values))
        })
    }
}
