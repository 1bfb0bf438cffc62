//! A message copied word for word, since the words of a model are no bytes.

use super::Arrived;
use crate::sync::Ordering::Relaxed;

impl Arrived<'_> {
    /// Opening and payload.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        let words = &self.buffer.words[self.first..];
        let bytes = words
            .iter()
            .flat_map(|word| word.load(Relaxed).to_ne_bytes());
        read(&bytes.take(self.len as usize).collect::<Vec<_>>())
    }
}
