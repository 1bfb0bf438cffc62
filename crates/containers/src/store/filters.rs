//! Bloom filters: their words, in the order of the blocks.

use std::any::type_name;
use std::path::Path;

use pgas_core::World;

use super::{About, open, save};
use crate::Result;
use crate::bloom::BloomFilter;
use crate::object::Object;

fn about<T, const WORDS: usize>(sizes: &[u64]) -> About<'_> {
    About {
        kind: if WORDS == 1 {
            "Bloom filter"
        } else {
            "wide Bloom filter"
        },
        element: type_name::<T>(),
        sizes,
    }
}

impl<T: Object, const WORDS: usize> BloomFilter<T, WORDS> {
    /// Writes the filter to a directory, from which any number of ranks may [`load`](Self::load) it.
    ///
    /// # Cost
    ///
    /// That of reading this rank's blocks, and 2B + 5 collectives. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if a file cannot be written, which names it.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let world = self.world();
        world.barrier()?;
        save(
            world,
            dir.as_ref(),
            &about::<T, WORDS>(&self.saved_shape()),
            |part| {
                self.local_words()?
                    .iter()
                    .try_for_each(|word| part.push(word))
            },
        )?;
        Ok(world.barrier()?)
    }

    /// The filter that was [saved](Self::save) in a directory.
    ///
    /// # Cost
    ///
    /// B + an allreduce + 3 collectives, and an A for each word that is not zero. Collective over the world.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if the directory holds no filter for such items, or a file cannot be
    /// read or is not what was written; [`Exhausted`](pgas_core::Error::Exhausted) in [`Error::Core`](crate::Error::Core)
    /// if the symmetric heap has no room.
    pub fn load(world: &World, dir: impl AsRef<Path>) -> Result<Self> {
        let saved = open(world, dir.as_ref(), &about::<T, WORDS>(&[0; 3]))?;
        let filter = Self::of_saved_shape(world, [saved.sizes[0], saved.sizes[1], saved.sizes[2]])?;
        saved.for_each(world, |i, word: u64| filter.restore(i, word))?;
        world.barrier()?;
        Ok(filter)
    }
}
