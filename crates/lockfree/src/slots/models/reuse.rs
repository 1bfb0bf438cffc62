//! Reuse of the slots of removed keys by other keys, while all threads continue.

use super::super::reclaim::{self, Blocks};
use super::super::sections::{self, Wait};
use super::super::state::SlotState;
use super::*;
use crate::sync::model::each;

impl<'a, const W: bool> Blocks for &'a Table<W> {
    fn n_slots(&self, _: &Slot<'a, W>) -> usize {
        if self.is_packed { self.n } else { 1 }
    }

    fn block_slot(&self, slot: &Slot<'a, W>, index: usize) -> Slot<'a, W> {
        if self.is_packed {
            self.slot(index)
        } else {
            *slot
        }
    }

    fn next_block(&self, slot: &Slot<'a, W>) -> Slot<'a, W> {
        if self.is_packed {
            *slot
        } else {
            self.next(slot)
        }
    }

    fn is_same_block(&self, a: &Slot<'a, W>, b: &Slot<'a, W>) -> bool {
        ptr::eq(a.block, b.block)
    }

    fn n_blocks_passed(&self, taken: &Slot<'a, W>) -> Result<usize, Infallible> {
        Ok(if self.is_packed { 0 } else { taken.index })
    }

    fn passes(&self, taken: &Slot<'a, W>, slot: &Slot<'a, W>) -> Result<bool, Infallible> {
        Ok(slot.index < taken.index)
    }

    fn key_slot(&self, slot: &Slot<'a, W>) -> Result<u64, Infallible> {
        let [key]: [u64; 1] = memory::load(&slot.block, slot.key());
        Ok(key)
    }

    fn release_key(&self, _: u64) {}
}

/// Runs `body` in a section of thread `own`.
fn section<const W: bool, T>(table: &Table<W>, own: usize, body: impl FnOnce() -> T) -> T {
    sections::open(&table.sections[own]);
    let done = body();
    sections::close(&table.sections[own]);
    done
}

/// Reclaims slots unless a section is open. Returns the number of reclaimed slots.
fn empty<const W: bool>(table: &Table<W>) -> Option<u64> {
    let slots: Vec<_> = (0..table.n).map(|index| table.slot(index)).collect();
    let load = |i: usize| word::load(&table.sections[i]);
    let have_ended = || Wait::new((0..2).map(load)).is_over(load);
    let emptied = reclaim::empty(&table, &slots, &table.n_emptied, have_ended).unwrap();
    if emptied.is_some() {
        reclaim::free_unpassed(&table, &slots, usize::MAX).unwrap();
    }
    emptied
}

/// As a find of a map.
fn find_reused<const W: bool>(table: &Table<W>, own: usize, key: u64) -> Option<[u64; 2]> {
    let found = sections::read_optimistically(&table.n_emptied, || find(table, key));
    found.unwrap_or_else(|| section(table, own, || find(table, key)))
}

/// Asserts that the key is in exactly one slot.
fn assert_once<const W: bool>(table: &Table<W>, key: u64) {
    let has_it = |index: &usize| {
        let slot = table.slot(*index);
        slot.load_state().unwrap().state() == SlotState::Ready && slot.has_key(&key, &()).unwrap()
    };
    assert_eq!((0..table.n).filter(has_it).count(), 1, "one slot has {key}");
    assert!(find(table, key).is_some(), "{key} is found");
}

/// A table with this key in each slot from the first one on, in order, of which the first was
/// removed.
fn with_removed<const W: bool>(table: &Table<W>, keys: &[u64]) {
    for &key in keys {
        assert_eq!(insert(table, key, [key, key]), Some(true));
    }
    assert!(remove(table, keys[0]));
}

#[test]
fn loom_an_update_that_comes_late_changes_no_other_keys_word() {
    each(|| {
        race::<true, _, _>(
            1,
            |table| assert_eq!(insert(table, 7, [1, 0]), Some(true)),
            |table| {
                section(table, 0, || match look(table, 7) {
                    ProbeResult::Found(slot, held) => {
                        let add = |[n, _]: [u64; 2]| Ok([n + 1, 0]);
                        slot::update(&slot, &(), held, add).unwrap();
                    }
                    ProbeResult::Free(_) | ProbeResult::Absent => {}
                });
            },
            |table| {
                assert!(section(table, 1, || remove(table, 7)));
                empty(table);
                section(table, 1, || insert(table, 8, [100, 0]))
            },
            |table, (), inserted| {
                let found = inserted.map(|_| [100, 0]);
                assert_eq!(find(table, 8), found);
            },
        );
    });
}

#[test]
fn loom_a_search_without_a_section_finds_no_other_keys_value() {
    fn check<const W: bool>() {
        race::<W, _, _>(
            1,
            |table| assert_eq!(insert(table, 7, [1, 1]), Some(true)),
            |table| find_reused(table, 0, 7),
            |table| {
                assert!(section(table, 1, || remove(table, 7)));
                empty(table);
                section(table, 1, || insert(table, 8, [100, 100]))
            },
            |_, found, _| {
                let is_whole = matches!(found, None | Some([1, _]));
                assert!(is_whole, "{found:?}");
            },
        );
    }
    each(check::<true>);
    each(check::<false>);
}

#[test]
fn loom_two_inserts_of_one_key_take_one_slot_while_one_before_it_is_emptied() {
    each(|| {
        race::<true, _, _>(
            2,
            |table| with_removed(table, &[106]),
            |table| section(table, 0, || insert(table, 7, [1, 0])),
            |table| {
                empty(table);
                section(table, 1, || insert(table, 7, [2, 0]))
            },
            |table, a, b| {
                assert_ne!(a, b, "exactly one of them is new");
                assert_once(table, 7);
                // The one that overwrote is the later one.
                let last = if a == Some(false) { 1 } else { 2 };
                assert_eq!(find(table, 7), Some([last, 0]));
            },
        );
    });
}

#[test]
fn loom_two_inserts_of_one_key_take_one_vacant_slot() {
    each(|| {
        race::<true, _, _>(
            3,
            |table| {
                with_removed(table, &[106, 206]);
                assert_eq!(empty(table), Some(1));
            },
            |table| section(table, 0, || insert(table, 7, [1, 0])),
            |table| section(table, 1, || insert(table, 7, [2, 0])),
            |table, a, b| {
                assert_ne!(a, b, "exactly one of them is new");
                assert_once(table, 7);
                assert!(table.is_free(2), "the vacant slot is taken");
                assert_once(table, 206);
            },
        );
    });
}

#[test]
fn loom_a_key_behind_a_slot_that_is_emptied_is_found() {
    each(|| {
        race::<true, _, _>(
            2,
            |table| with_removed(table, &[106, 7]),
            |table| {
                (
                    find_reused(table, 0, 7),
                    section(table, 0, || find(table, 7)),
                )
            },
            |table| {
                empty(table);
                section(table, 1, || insert(table, 8, [8, 0]))
            },
            |table, (first, second), _| {
                let there = Some([7, 7]).map(|[n, _]| n);
                assert_eq!(
                    [first, second].map(|found| found.map(|[n, _]| n)),
                    [there; 2]
                );
                assert_once(table, 7);
            },
        );
    });
}

#[test]
fn loom_an_insert_that_passes_a_slot_is_found_when_that_was_emptied() {
    each(|| {
        race::<true, _, _>(
            2,
            |table| with_removed(table, &[106]),
            |table| section(table, 0, || insert(table, 7, [1, 0])),
            empty,
            |table, inserted, _| {
                assert_eq!(inserted, Some(true));
                assert_once(table, 7);
                assert_eq!(insert(table, 7, [3, 0]), Some(false));
                assert_once(table, 7);
            },
        );
    });
}

#[test]
fn loom_a_key_that_is_removed_and_inserted_by_two_is_in_one_slot() {
    each(|| {
        race::<true, _, _>(
            2,
            |table| assert_eq!(insert(table, 7, [1, 0]), Some(true)),
            |table| {
                assert!(section(table, 0, || remove(table, 7)));
                empty(table);
                section(table, 0, || insert(table, 7, [2, 0]))
            },
            |table| section(table, 1, || insert(table, 7, [3, 0])),
            |table, _, _| {
                assert!(matches!(find(table, 7), Some([2 | 3, 0])));
                assert_once(table, 7);
                assert!(remove(table, 7));
                assert_eq!(find(table, 7), None);
            },
        );
    });
}

#[test]
fn loom_a_slot_that_no_key_has_passed_is_free_again() {
    each(|| {
        race::<true, _, _>(
            2,
            |table| with_removed(table, &[106]),
            |table| (find_reused(table, 0, 106), find_reused(table, 0, 7)),
            empty,
            |table, found, emptied| {
                assert_eq!((found, emptied), ((None, None), Some(1)));
                assert!(table.is_free(0));
            },
        );
    });
}
