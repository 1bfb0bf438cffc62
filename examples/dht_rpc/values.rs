//! The values: parts of one text that looks random, so that making them takes no time.

use crate::support::mix;

/// The number of offsets at which values begin.
const N_STARTS: usize = 4096;

/// The values of one size.
pub(crate) struct Values {
    text: Vec<u8>,
    size: usize,
}

impl Values {
    pub(crate) fn of(size: usize) -> Self {
        let words = (0..).flat_map(|i: u64| mix(i).to_ne_bytes());
        let text = words.take(size + N_STARTS).collect();
        Self { text, size }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: u64) -> &[u8] {
        let start = usize::try_from(mix(key) % N_STARTS as u64).expect("less than the text has");
        &self.text[start..start + self.size]
    }
}
