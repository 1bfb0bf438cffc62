//! Copies of the sources of short puts, so that the callers' own are free at once.

use pgas_core::Result;

use crate::sys::{Buffer, Endpoint};

/// The longest put that is copied, in bytes: longer ones wait until they are written.
pub(crate) const MAX_STAGED: usize = 4096;
/// The most copies in flight.
const LIMIT: usize = 512;

/// The copies that are free.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    free: Vec<Buffer>,
    n_made: usize,
}

impl Staging {
    /// A buffer of [`MAX_STAGED`] bytes, unless all are in use.
    pub(crate) fn take(&mut self, endpoint: &mut Endpoint) -> Result<Option<Buffer>> {
        if let Some(buffer) = self.free.pop() {
            return Ok(Some(buffer));
        }
        if self.n_made == LIMIT {
            return Ok(None);
        }
        let made = endpoint.buffer(MAX_STAGED, 0)?;
        self.n_made += 1;
        Ok(Some(made))
    }

    pub(crate) fn give_back(&mut self, buffer: Buffer) {
        self.free.push(buffer);
    }
}
