//! Where bytes go.

/// Where the bytes of a value go.
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// How many bytes there are.
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
