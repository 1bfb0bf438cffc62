//! The compared tables.

mod landing_zone;
mod one_sided;
mod rpc;

use std::collections::VecDeque;

use pgas::{PgasFuture, Rank, World};

use crate::support::mix;
use crate::values::Values;

pub(crate) use landing_zone::LandingZone;
pub(crate) use one_sided::OneSided;
pub(crate) use rpc::Rpc;

/// The maximum number of operations that a rank has in flight, or in one batch.
const WINDOW: usize = 64;

/// A distributed hash table from numbers to values of one size.
pub(crate) trait Table {
    const NAME: &'static str;

    /// Inserts `value` under a new key. It is complete on return.
    fn insert(&self, key: u64, value: &[u8]) -> pgas::Result<()>;

    /// Looks up `key`. Returns whether `value` was found.
    fn finds(&self, key: u64, value: &[u8]) -> pgas::Result<bool>;

    /// Inserts many new keys. They are complete after the next barrier.
    fn insert_all(&self, keys: &[u64], values: &Values) -> pgas::Result<()>;

    /// Looks up many keys. Returns whether the right values were found.
    fn finds_all(&self, keys: &[u64], values: &Values) -> pgas::Result<bool>;

    /// Frees its memory. Collective.
    fn end(self) -> pgas::Result<()>;
}

/// The owner of a key in a table of remote calls.
fn owner(world: &World, key: u64) -> Rank {
    let rank = mix(!key) % u64::from(world.n_ranks());
    Rank::new(u32::try_from(rank).expect("less than the number of ranks"))
}

/// Calls in flight, each with a function for its result. If there are too many, the oldest is
/// waited for.
struct Window<T: Send + 'static, C, F: FnMut(T, C) -> pgas::Result<()>> {
    calls: VecDeque<(PgasFuture<T>, C)>,
    then: F,
}

impl<T: Send + 'static, C, F: FnMut(T, C) -> pgas::Result<()>> Window<T, C, F> {
    fn new(then: F) -> Self {
        let calls = VecDeque::with_capacity(WINDOW + 1);
        Self { calls, then }
    }

    fn push(&mut self, call: pgas::Result<PgasFuture<T>>, context: C) -> pgas::Result<()> {
        self.calls.push_back((call?, context));
        if self.calls.len() > WINDOW {
            self.wait_for_oldest()?;
        }
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> pgas::Result<()> {
        match self.calls.pop_front() {
            Some((call, context)) => (self.then)(call.wait()?, context),
            None => Ok(()),
        }
    }

    fn finish(mut self) -> pgas::Result<()> {
        while !self.calls.is_empty() {
            self.wait_for_oldest()?;
        }
        Ok(())
    }
}
