//! The tables that are compared.

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

/// Operations that a rank has in flight, or in one batch, at most.
const WINDOW: usize = 64;

/// A distributed hash table from numbers to values of one size.
pub(crate) trait Table {
    const NAME: &'static str;

    /// Inserts `value` under a new key; it is there on return.
    fn insert(&self, key: u64, value: &[u8]) -> pgas::Result<()>;

    /// Looks `key` up, and says whether `value` was found.
    fn finds(&self, key: u64, value: &[u8]) -> pgas::Result<bool>;

    /// Inserts many new keys; their values are there after the next barrier.
    fn insert_all(&self, keys: &[u64], values: &Values) -> pgas::Result<()>;

    /// Looks many keys up, and says whether the right values were found.
    fn finds_all(&self, keys: &[u64], values: &Values) -> pgas::Result<bool>;

    /// Gives its memory back. Collective.
    fn end(self) -> pgas::Result<()>;
}

/// The rank that a key belongs to in a table made of calls.
fn owner(world: &World, key: u64) -> Rank {
    let rank = mix(!key) % u64::from(world.n_ranks());
    Rank::new(u32::try_from(rank).expect("less than the number of ranks"))
}

/// Calls on their way, each with what is done with its result: the oldest is waited for when there are too many.
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
