//! The destination of encoded bytes.

/// The destination of a value's bytes.
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// The number of bytes so far.
    fn n_bytes(&self) -> usize;
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn n_bytes(&self) -> usize {
        self.len()
    }
}
