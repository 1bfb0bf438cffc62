//! Memory of the local heap that is kept for later use.

use std::fmt;
use std::sync::{Mutex, Weak};

use crate::locks::lock;

/// Who keeps memory of the local heap for later use, and frees it if nothing else is left.
///
/// # Examples
///
/// None: [`World::on_exhausted`](crate::World::on_exhausted) has one.
pub trait Spare: Send + Sync {
    /// Frees what is not in use, by [`World::free`](crate::World::free). Returns whether there was
    /// any. It runs within the call that lacks memory, which may be one of a handler, so it does
    /// not wait for other ranks, or for a lock.
    fn free_unused(&self) -> bool;
}

/// All that a rank may ask for memory.
#[derive(Default)]
pub(crate) struct Spares(Mutex<Vec<Weak<dyn Spare>>>);

impl fmt::Debug for Spares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spares({})", lock(&self.0).len())
    }
}

impl Spares {
    pub(crate) fn add(&self, spare: Weak<dyn Spare>) {
        let mut all = lock(&self.0);
        all.retain(|spare| spare.strong_count() > 0);
        all.push(spare);
    }

    /// Has all of them free what they do not use. Returns whether there was any.
    #[cold]
    pub(crate) fn free_unused(&self) -> bool {
        // Not locked meanwhile: the last handle on one of them may be dropped here.
        let all = lock(&self.0).clone();
        let all = all.iter().filter_map(Weak::upgrade);
        all.filter(|spare| spare.free_unused()).count() > 0
    }
}
