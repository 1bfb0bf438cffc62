//! Inserts of small entries into near memory, each of which waits here while its place is on its way into the cache.

use std::mem;

use zerocopy::FromZeros as _;

use super::hash::Hash;
use super::quick::Claimed;
use super::table::Table;
use crate::object::{self, KeyHasher, Object, SlotOf};
use crate::{Error, Result};

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

    /// Begins the insert of an entry, and ends one that has waited long enough. That one goes to `left` if it fails.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a buffered insert")]
    pub(super) fn insert<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        (key, value): (K, V),
        combine: &mut impl FnMut(V, V) -> V,
        left: &mut Vec<(K, V)>,
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
        self.end(table, former, combine, left)
    }

    /// Ends all inserts that were begun. Those that fail go to `left`, the others are done all the same; the first failure.
    pub(super) fn end_all<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        combine: &mut impl FnMut(V, V) -> V,
        left: &mut Vec<(K, V)>,
    ) -> Result<()> {
        let mut outcome = Ok(());
        while self.n_done < self.n_begun {
            let entry = self.entries[self.n_done % AHEAD];
            self.n_done += 1;
            outcome = outcome.and(self.end(table, entry, combine, left));
        }
        table.count_new(mem::take(&mut self.n_new));
        outcome
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "all of a buffered insert")]
    fn end<S: KeyHasher>(
        &mut self,
        table: &Table<K, V, S>,
        entry: Entry<SlotOf<(K, V)>>,
        combine: &mut impl FnMut(V, V) -> V,
        left: &mut Vec<(K, V)>,
    ) -> Result<()> {
        let (key, value) = object::from_slot::<(K, V)>(entry.slot, &table.heap)?;
        if let Some(view) = table.view_quick() {
            let sought = object::key(&key)?;
            match view.claim_at(entry.hash, &sought)? {
                Claimed::New(place, print) => {
                    self.n_new += 1;
                    let value = object::to_slot(&value, &table.heap)?;
                    return view.publish(place, &sought, value, print);
                }
                Claimed::Held(place) => {
                    let value = || object::from_slot::<(K, V)>(entry.slot, &table.heap);
                    let combine = |there| Ok(combine(there, value()?.1));
                    return view.combine_ready(place, combine).map(drop);
                }
                Claimed::Unsure => {}
            }
        }
        end_slowly(table, key, value, combine, left)
    }
}

/// By the operations that any rank may use at any time.
#[cold]
#[inline(never)]
fn end_slowly<K: Object, V: Object, S: KeyHasher>(
    table: &Table<K, V, S>,
    key: K,
    value: V,
    combine: &mut impl FnMut(V, V) -> V,
    left: &mut Vec<(K, V)>,
) -> Result<()> {
    let done = upsert(table, &key, &value, combine);
    if done.is_err() {
        left.push((key, value));
    }
    match done {
        // That is told when all ranks know of it, and can make the map larger.
        Err(Error::Full { .. }) => Ok(()),
        done => done,
    }
}

/// As [`HashMap::upsert`](super::HashMap::upsert), by a function that takes its value each time that it is called.
pub(super) fn upsert<K: Object, V: Object, S: KeyHasher>(
    table: &Table<K, V, S>,
    key: &K,
    value: &V,
    combine: &mut impl FnMut(V, V) -> V,
) -> Result<()> {
    let heap = &*table.heap;
    // Another rank may come in between, so each time the value is read back as a copy.
    let slot = object::to_slot::<V>(value, heap)?;
    let mut failed = None;
    let upserted = table.upsert(
        key,
        value,
        &mut |there| match object::from_slot::<V>(slot, heap) {
            Ok(value) => combine(there, value),
            Err(error) => {
                failed = Some(error);
                there
            }
        },
    );
    object::release::<V>(&slot, heap)?;
    upserted?;
    failed.map_or(Ok(()), Err)
}
