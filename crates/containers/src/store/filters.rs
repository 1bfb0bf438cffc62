//! Bloom filters: their words, in the order of the blocks.

use std::path::Path;

use pgas_core::AsTeam;

use super::manifest::About;
use super::{load, save, saving};
use crate::Result;
use crate::bloom::BloomFilter;
use crate::object::Object;

const fn kind<const WORDS: usize>() -> &'static str {
    if WORDS == 1 {
        "Bloom filter"
    } else {
        "wide Bloom filter"
    }
}

impl<T: Object, const WORDS: usize> BloomFilter<T, WORDS> {
    /// Writes the filter to a directory, from which any number of ranks may [`load`](Self::load)
    /// it.
    ///
    /// # Cost
    ///
    /// ℓ for each word of this rank's blocks, and B + 5 collectives. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage), which names the file, if one
    /// cannot be written.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_containers::BloomFilter;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # let dir = std::env::temp_dir().join(format!("pgas-doc-filter-{}", std::process::id()));
    /// let seen = BloomFilter::<String>::with_rate(&world, 100, 0.01)?;
    /// seen.insert(&"seven".to_owned())?;
    /// seen.save(&dir)?; // collective
    /// let again = BloomFilter::<String>::load(&world, &dir)?;
    /// assert!(again.contains(&"seven".to_owned())?);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<()> {
        let _waits = saving(self.identity());
        let team = self.team();
        team.barrier_within()?;
        let about = About::of::<T>(&self.saved_shape());
        save(
            team,
            dir.as_ref(),
            kind::<WORDS>(),
            (&[about], 0),
            |parts| {
                let words = self.local_words()?;
                words.iter().try_for_each(|word| parts[0].push(word))
            },
        )
    }

    /// The filter that was [saved](Self::save) in a directory.
    ///
    /// # Cost
    ///
    /// 2B + 5 collectives, and A for each word that is not zero, divided among the ranks.
    /// Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank: [`Error::Storage`](crate::Error::Storage) if the directory holds no filter
    /// for such items, if a file cannot be read or is not as it was written, or if there is no room
    /// for the filter.
    #[track_caller]
    pub fn load(on: &impl AsTeam, dir: impl AsRef<Path>) -> Result<Self> {
        let team = &on.as_team();
        let abouts = [About::of::<T>(&[0; 3])];
        load(team, dir.as_ref(), (kind::<WORDS>(), &abouts), |saved| {
            let sizes = &saved.manifest.abouts[0].sizes;
            let shape = [sizes[0], sizes[1], sizes[2]];
            saved.expect(shape[0].checked_mul(WORDS as u64))?;
            let filter = saved.made(Self::of_saved_shape(team, shape))?;
            saved.for_each(team, 0, |i, word: u64| filter.restore(i, word))?;
            team.barrier_within()?;
            Ok(filter)
        })
    }
}
