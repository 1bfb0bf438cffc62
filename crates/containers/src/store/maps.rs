//! Maps and sets.

use std::any::type_name;
use std::path::Path;

use pgas_core::World;

use super::{About, open, save};
use crate::Result;
use crate::hash_map::{Atomic, HashMap, HashSet, Looks, MultiMap, RapidHasher};
use crate::object::{KeyHasher, Object};

fn about<K, V>(sizes: &[u64]) -> About<'_> {
    About {
        kind: "hash map",
        element: type_name::<(K, V)>(),
        sizes,
    }
}

impl<K: Object, V: Object, P: Looks, S: KeyHasher> HashMap<K, V, P, S> {
    /// Writes the entries to a directory, from which any number of ranks may [`load`](HashMap::load) them.
    ///
    /// Each rank writes a file with what it holds. Nobody inserts meanwhile.
    ///
    /// # Cost
    ///
    /// That of [`local_iter`](Self::local_iter), and 2B + 5 collectives. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if a file cannot be written, which names it.
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
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let world = self.world();
        world.barrier()?;
        save(
            world,
            dir.as_ref(),
            &about::<K, V>(&[self.capacity()]),
            |part| self.local_iter().try_for_each(|entry| part.push(&entry?)),
        )?;
        Ok(world.barrier()?)
    }
}

impl<K: Object, V: Object> HashMap<K, V> {
    /// The map that was [saved](HashMap::save) in a directory, by as many ranks or by others.
    ///
    /// # Cost
    ///
    /// That of [`with_capacity`](Self::with_capacity), of an [`insert`](Self::insert) an entry, and 3 collectives. Collective
    /// over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if the directory holds no map of such entries, or a file cannot be read
    /// or is not what was written; those of [`with_capacity`](Self::with_capacity).
    pub fn load(world: &World, dir: impl AsRef<Path>) -> Result<Self> {
        Self::load_with_hasher(world, dir, RapidHasher)
    }
}

impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, Atomic, S> {
    /// As [`load`](HashMap::load), with a hasher of one's own, which need not be the one that the map was saved with.
    ///
    /// # Cost
    ///
    /// As [`load`](HashMap::load).
    ///
    /// # Errors
    ///
    /// Those of [`load`](HashMap::load) and [`with_hasher`](Self::with_hasher).
    pub fn load_with_hasher(world: &World, dir: impl AsRef<Path>, hasher: S) -> Result<Self> {
        let saved = open(world, dir.as_ref(), &about::<K, V>(&[0]))?;
        let map = Self::with_hasher(world, saved.size(0)?, hasher)?;
        saved.for_each(world, |_, (key, value)| map.insert(&key, value).map(drop))?;
        world.barrier()?;
        Ok(map)
    }
}

impl<K: Object, P: Looks, S: KeyHasher> HashSet<K, P, S> {
    /// As [`HashMap::save`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::save`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::save`].
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.map().save(dir)
    }
}

impl<K: Object> HashSet<K> {
    /// As [`HashMap::load`].
    ///
    /// # Cost
    ///
    /// As [`HashMap::load`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::load`].
    pub fn load(world: &World, dir: impl AsRef<Path>) -> Result<Self> {
        HashMap::load(world, dir).map(Self::of)
    }
}

impl<K: Object, V: Object, P: Looks, S: KeyHasher> MultiMap<K, V, P, S> {
    /// As [`HashMap::save`], to two directories in `dir`.
    ///
    /// # Cost
    ///
    /// Twice that of [`HashMap::save`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::save`].
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let (counts, values) = self.maps();
        counts.save(dir.as_ref().join("counts"))?;
        values.save(dir.as_ref().join("values"))
    }
}

impl<K: Object, V: Object> MultiMap<K, V> {
    /// As [`HashMap::load`].
    ///
    /// # Cost
    ///
    /// Twice that of [`HashMap::load`].
    ///
    /// # Errors
    ///
    /// As [`HashMap::load`].
    pub fn load(world: &World, dir: impl AsRef<Path>) -> Result<Self> {
        let counts = HashMap::load(world, dir.as_ref().join("counts"))?;
        let values = HashMap::load(world, dir.as_ref().join("values"))?;
        Ok(Self::of(counts, values))
    }
}
