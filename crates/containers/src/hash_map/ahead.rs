//! Inserts of small entries into near memory, each of which waits here while its place is on its way into the cache.

use std::mem;

use zerocopy::FromZeros as _;

use super::hash::Hash;
use super::left::Left;
use super::quick::Claimed;
use super::table::Table;
use crate::Result;
use crate::object::{self, KeyHasher, Object, SlotOf};

/// How many entries wait: enough to cover the latency of memory, few enough for the processor's outstanding loads.
const AHEAD: usize = 32;

/// An entry that waits.
#[derive(Clone, Copy)]
struct Entry<S> {
    hash: Hash,
    /// The key and the value.
    slot: S,
}

/// Entries that wait, in the order in which they came.
pub(super) struct Ahead<K: Object, V: Object> {
    entries: [Entry<SlotOf<(K, V)>>; AHEAD],
    /// How many have come.
    n_begun: usize,
    /// How many of them wait no more.
    n_done: usize,
    /// Keys that were new, and are not counted yet.
    n_new: u64,
}

impl<K: Object, V: Object> Ahead<K, V> {
    pub(super) fn new() -> Self {
        let nothing = Entry {
            hash: Hash::default(),
            slot: SlotOf::<(K, V)>::new_zeroed(),
        };
        Self {
            entries: [nothing; AHEAD],
            n_begun: 0,
            n_done: 0,
            n_new: 0,
        }
    }

    /// Begins the insert of an entry, or else fails and has nothing to do with it; and ends one that has waited long enough. That
    /// one goes to `left` if it fails.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a buffered insert")]
    pub(super) fn insert<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        (key, value): (K, V),
        combine: &mut impl FnMut(V, V) -> V,
        left: &mut Left<K, V>,
    ) -> Result<()> {
        let hash = Hash::of::<K>(&object::key(&key)?, &*table.hasher);
        if let Some(all) = &table.near {
            all.share(hash.bits()).block.prefetch(0);
        }
        let slot = object::to_slot(&(key, value), &table.heap)?;
        let next = Entry { hash, slot };
        let former = mem::replace(&mut self.entries[self.n_begun % AHEAD], next);
        self.n_begun += 1;
        if self.n_begun - self.n_done <= AHEAD {
            return Ok(());
        }
        self.n_done += 1;
        self.end(table, former, combine, left);
        Ok(())
    }

    /// Ends all inserts that were begun. Those that fail go to `left`, the others are done all the same.
    pub(super) fn end_all<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        combine: &mut impl FnMut(V, V) -> V,
        left: &mut Left<K, V>,
    ) {
        while self.n_done < self.n_begun {
            let entry = self.entries[self.n_done % AHEAD];
            self.n_done += 1;
            self.end(table, entry, combine, left);
        }
        table.count_new(mem::take(&mut self.n_new));
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a buffered insert")]
    fn end<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        entry: Entry<SlotOf<(K, V)>>,
        combine: &mut impl FnMut(V, V) -> V,
        left: &mut Left<K, V>,
    ) {
        // What fails is tried again the slow way, which keeps it if it fails there too.
        if !matches!(self.end_quickly(table, entry, combine), Ok(true)) {
            left.insert_or_keep(table, entry.hash, entry.slot, combine);
        }
    }

    /// The short way to the place of an entry; whether there was one.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a buffered insert")]
    fn end_quickly<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        entry: Entry<SlotOf<(K, V)>>,
        combine: &mut impl FnMut(V, V) -> V,
    ) -> Result<bool> {
        let (key, value) = object::from_slot::<(K, V)>(entry.slot, &table.heap)?;
        let Some(view) = table.view_quick() else {
            return Ok(false);
        };
        let sought = object::key(&key)?;
        match view.claim_at(entry.hash, &sought)? {
            Claimed::New(place, print) => {
                self.n_new += 1;
                let value = object::to_slot(&value, &table.heap)?;
                view.publish(place, &sought, value, print)?;
            }
            Claimed::Held(place) => {
                let value = || object::from_slot::<(K, V)>(entry.slot, &table.heap);
                view.combine_ready(place, |there| Ok(combine(there, value()?.1)))?;
            }
            Claimed::Unsure => return Ok(false),
        }
        Ok(true)
    }
}
