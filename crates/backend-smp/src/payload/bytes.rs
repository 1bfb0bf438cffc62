//! A message where it lies, as bytes.
#![expect(
    unsafe_code,
    reason = "words of shared memory to which nobody writes meanwhile"
)]

use std::slice;

use super::Arrived;

impl Arrived<'_> {
    /// Opening and payload.
    #[inline]
    pub(crate) fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        let words = &self.buffer.words[self.first..];
        let len = (self.len as usize).min(size_of_val(words));
        // SAFETY: the length is cut to what lies there, and the words are initialized. Between the publication of the record, which this was
        // made of, and the end of this value nobody writes to them: the sender has given them up, and nobody else takes the buffer.
        read(unsafe { slice::from_raw_parts(words.as_ptr().cast(), len) })
    }
}
