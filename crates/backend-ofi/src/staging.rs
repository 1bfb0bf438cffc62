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
    /// A buffer of [`MAX_STAGED`] bytes, unless all are in use. If no memory can be registered for
    /// one more, those in use will do.
    pub(crate) fn take(&mut self, endpoint: &mut Endpoint) -> Result<Option<Buffer>> {
        if let Some(buffer) = self.free.pop() {
            return Ok(Some(buffer));
        }
        if self.n_made == LIMIT {
            return Ok(None);
        }
        // Counted when it is made: a registration that fails may succeed later.
        match endpoint.buffer(MAX_STAGED, 0) {
            Ok(made) => {
                self.n_made += 1;
                Ok(Some(made))
            }
            Err(_) if self.n_made > 0 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether all copies are in use.
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.n_made == LIMIT
    }

    pub(crate) fn give_back(&mut self, buffer: Buffer) {
        self.free.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use pgas_core::{Error, Rank};

    use super::*;
    use crate::sys::find;

    /// An endpoint that registers all buffers.
    fn endpoint() -> Endpoint {
        let mut found = find(Some("tcp;ofi_rxm"), Some("127.0.0.1")).unwrap();
        let mut info = found.swap_remove(0);
        info.pretend_local();
        Endpoint::open(info, 1, 64, MAX_STAGED).unwrap()
    }

    #[test]
    fn copies_that_cannot_be_registered_are_not_counted() {
        let mut staging = Staging::default();
        let (mut closed, mut open) = (endpoint(), endpoint());
        closed.shut(Some(Error::rank_failed(Rank::new(0), "has ended")));
        for _ in 0..=LIMIT {
            assert!(staging.take(&mut closed).is_err());
        }
        let copies: Vec<_> = (0..=LIMIT)
            .map_while(|_| staging.take(&mut open).unwrap())
            .collect();
        assert_eq!(copies.len(), LIMIT);
        drop(copies);
    }

    #[test]
    fn copies_in_use_will_do_where_no_more_can_be_registered() {
        let mut staging = Staging::default();
        let mut endpoint = endpoint();
        let copy = staging.take(&mut endpoint).unwrap().unwrap();
        endpoint.shut(Some(Error::rank_failed(Rank::new(0), "has ended")));
        assert!(staging.take(&mut endpoint).unwrap().is_none());
        staging.give_back(copy);
        assert!(staging.take(&mut endpoint).unwrap().is_some());
    }
}
