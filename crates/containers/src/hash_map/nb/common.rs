//! What a map shares with its operations in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use pgas_core::{Symmetric, World, in_handler};

use super::super::shard::Served;
use super::super::view::Shape;
use crate::Result;
use crate::object::Object;

/// What a map shares with its operations in flight. They keep it until they are over.
pub(in super::super) struct Common<K: Object, V: Object, S> {
    /// The memory of the slots.
    pub(in super::super) slots: Symmetric<u8>,
    /// The shards as an object that requests of other ranks name, if ranks serve requests.
    pub(in super::super) served: Option<Served<K, V, S>>,
    pub(super) shape: Shape<K, V, S>,
    /// Counted by [`begin`](Self::begin) and [`end`](Self::end).
    n_in_flight: AtomicU64,
    /// Keys inserted minus keys removed by operations in flight, modulo 2^64.
    keys: AtomicU64,
    /// Keys removed by them.
    removed: AtomicU64,
}

impl<K: Object, V: Object, S> Common<K, V, S> {
    pub(in super::super) fn new(
        slots: Symmetric<u8>,
        served: Option<Served<K, V, S>>,
        shape: Shape<K, V, S>,
    ) -> Self {
        Self {
            slots,
            served,
            shape,
            n_in_flight: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            removed: AtomicU64::new(0),
        }
    }

    /// The counts of operations that were in flight: keys, modulo 2^64, and removals.
    pub(in super::super) fn counts(&self) -> [u64; 2] {
        // Relaxed: a thread that knows of a completed operation knows it by its future, which
        // orders the count before.
        [&self.keys, &self.removed].map(|count| count.load(Ordering::Relaxed))
    }

    /// Counts a key that was inserted.
    pub(super) fn count_new(&self) {
        self.keys.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a key that was removed.
    pub(super) fn count_removed(&self) {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.removed.fetch_add(1, Ordering::Relaxed);
    }

    fn world(&self) -> &World {
        self.shape.world()
    }

    /// Counts an operation that is in flight from now on.
    pub(super) fn begin(&self) {
        self.n_in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an operation that is over.
    pub(super) fn end(&self) {
        // Release: pairs with the acquire of the wait for it.
        self.n_in_flight.fetch_sub(1, Ordering::Release);
    }
}

/// The map's handle on what it shares. Its drop waits for operations in flight.
pub(in super::super) struct Flights<K: Object, V: Object, S>(
    pub(in super::super) Arc<Common<K, V, S>>,
);

impl<K: Object, V: Object, S> Flights<K, V, S> {
    /// Waits until no operation of this rank is in flight.
    #[track_caller]
    pub(in super::super) fn end(&self) -> Result<()> {
        // Acquire: pairs with the release of `Common::end`.
        let is_over = || self.0.n_in_flight.load(Ordering::Acquire) == 0;
        if is_over() {
            return Ok(());
        }
        let what = "operations in flight of a hash map";
        self.0.world().wait_for(what, || Ok(is_over()))
    }
}

impl<K: Object, V: Object, S> Drop for Flights<K, V, S> {
    fn drop(&mut self) {
        if !in_handler() && !thread::panicking() {
            // After a failure of the job nobody uses the memory.
            drop(self.end());
        }
    }
}
