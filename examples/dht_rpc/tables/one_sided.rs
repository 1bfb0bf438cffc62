//! The library's own table, whose operations are one-sided.

use pgas::prelude::{HashMap, World};

use super::{Table, WINDOW};
use crate::values::Values;

/// The maximum number of chunks of a value.
const MAX_PIECES: u64 = 4;
/// The longest chunk that goes into batches: the table keeps a part of a batch on the stack.
const LONGEST_IN_BATCH: usize = 4096;

/// Values are stored in chunks of `N` bytes, each under its own key. All but the longest values
/// have one chunk.
pub(crate) struct OneSided<const N: usize>(HashMap<u64, [u8; N]>);

impl<const N: usize> OneSided<N> {
    /// A table with room for `n_keys` values of `value_bytes`, with two thirds of the slots full.
    pub(crate) fn new(world: &World, n_keys: usize, value_bytes: usize) -> pgas::Result<Self> {
        let n_pieces = n_keys * value_bytes.div_ceil(N);
        HashMap::with_capacity(world, n_pieces + n_pieces / 2 + 64).map(Self)
    }
}

/// The chunks of `value`, and their keys.
fn pieces<const N: usize>(key: u64, value: &[u8]) -> impl Iterator<Item = (u64, [u8; N])> {
    let (pieces, rest) = value.as_chunks::<N>();
    assert!(
        rest.is_empty() && pieces.len() as u64 <= MAX_PIECES,
        "of one of the sizes"
    );
    let keys = (0..).map(move |piece| key * MAX_PIECES + piece);
    keys.zip(pieces.iter().copied())
}

impl<const N: usize> Table for OneSided<N> {
    const NAME: &'static str = "one-sided";

    fn insert(&self, key: u64, value: &[u8]) -> pgas::Result<()> {
        pieces(key, value).try_for_each(|(key, piece)| self.0.insert(&key, piece).map(drop))
    }

    fn finds(&self, key: u64, value: &[u8]) -> pgas::Result<bool> {
        let mut found = true;
        for (key, piece) in pieces(key, value) {
            found &= self.0.find(&key)? == Some(piece);
        }
        Ok(found)
    }

    fn insert_all(&self, keys: &[u64], values: &Values) -> pgas::Result<()> {
        if N > LONGEST_IN_BATCH {
            return keys
                .iter()
                .try_for_each(|key| self.insert(*key, values.get(*key)));
        }
        let mut entries = Vec::with_capacity(WINDOW);
        for batch in keys.chunks(WINDOW) {
            entries.clear();
            entries.extend(batch.iter().flat_map(|key| pieces(*key, values.get(*key))));
            self.0.insert_many(&entries)?;
        }
        Ok(())
    }

    fn finds_all(&self, keys: &[u64], values: &Values) -> pgas::Result<bool> {
        let mut found = true;
        if N > LONGEST_IN_BATCH {
            for key in keys {
                found &= self.finds(*key, values.get(*key))?;
            }
            return Ok(found);
        }
        for batch in keys.chunks(WINDOW) {
            let (asked, expected): (Vec<_>, Vec<_>) = batch
                .iter()
                .flat_map(|key| pieces::<N>(*key, values.get(*key)))
                .map(|(key, piece)| (key, Some(piece)))
                .unzip();
            found &= self.0.find_many(&asked)? == expected;
        }
        Ok(found)
    }

    fn end(self) -> pgas::Result<()> {
        Ok(())
    }
}
