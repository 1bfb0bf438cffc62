//! Operations that probe a whole line of slots, and fall back on single slots.

use super::super::probe::{LineProbeResult, Lines, States};
use super::*;

impl<'a> Lines for &'a Table<true> {
    type Line = ();
    type Four = [u32; 4];

    fn states(&self, (): &()) -> States<[u32; 4]> {
        if self.is_packed {
            return States::load(&self.slot(0).block, self.n);
        }
        let mut four = [StateWord::reserved(Fingerprint::of(!0)).narrow(); 4];
        for index in (0..self.n).rev() {
            four[index] = self.slot(index).load_state().unwrap().narrow();
        }
        States::new(self.n, four, None)
    }

    fn line_slot(&self, (): &(), index: usize) -> Slot<'a, true> {
        self.slot(index)
    }

    fn first_in_probe_order(&self, (): &(), free: u32) -> usize {
        free.trailing_zeros() as usize
    }

    fn next_line(&self, (): ()) -> Option<()> {
        None
    }
}

fn place(table: &Table<true>, key: u64, intent: Intent) -> ProbeResult<Slot<'_, true>> {
    let home = home(table, key);
    let sought = (home.fingerprint, &key, intent);
    let found = |slot, held| Ok::<_, Infallible>(Some(ProbeResult::Found(slot, held)));
    match probe::probe(&table, Some(()), sought, found).unwrap() {
        Some(LineProbeResult::Found(place)) => place,
        Some(LineProbeResult::Free(slot)) => ProbeResult::Free(slot),
        None => probe::probe_slots(&table, home, &key, ReadValue::No, intent).unwrap(),
    }
}

/// As [`insert`] in a line of slots.
pub(super) fn insert_in_line(table: &Table<true>, key: u64, value: [u64; 2]) -> Option<bool> {
    insert_at(table, place(table, key, Intent::Claim), key, value)
}

/// As a [`find`] in a line of slots.
pub(super) fn find_in_line(table: &Table<true>, key: u64) -> Option<[u64; 2]> {
    find_at(place(table, key, Intent::Find))
}

fn assert_one_is_new(a: Option<bool>, b: Option<bool>) {
    let is_one = matches!(
        (a, b),
        (Some(true), Some(false)) | (Some(false), Some(true))
    );
    assert!(
        is_one,
        "one is new and the other one overwrites it: {a:?} {b:?}"
    );
}

#[test]
fn loom_a_search_in_a_line_sees_an_insert_whole_or_not_at_all_and_never_forgets_it() {
    race::<true, _, _>(
        3,
        |table| assert_eq!(insert(table, 6, [5, 0]), Some(true)),
        |table| (insert(table, 7, [1, 0]), insert(table, 7, [2, 0])),
        |table| (find_in_line(table, 7), find_in_line(table, 7)),
        |table, _, (first, second)| {
            for found in [first, second] {
                assert!(matches!(found, None | Some([1 | 2, 0])), "{found:?}");
            }
            assert!(first <= second, "time runs backwards: {first:?} {second:?}");
            assert_eq!(find_in_line(table, 7), Some([2, 0]));
        },
    );
}

#[test]
fn loom_a_search_in_a_line_finds_what_its_own_rank_has_inserted_behind_another_insert() {
    let both = |key: u64| {
        move |table: &Table<true>| (insert(table, key, [key, 0]), find_in_line(table, key))
    };
    race::<true, _, _>(
        2,
        |_| (),
        both(7),
        both(107),
        |_, a, b| {
            assert_eq!(a, (Some(true), Some([7, 0])));
            assert_eq!(b, (Some(true), Some([107, 0])));
        },
    );
}

/// Keys that share a fingerprint: one without bits, beside which a free slot may be that of a key,
/// and one with.
const KEYS: [[u64; 2]; 2] = [[7, 8], [107, 108]];

#[test]
fn loom_two_inserts_of_one_key_in_a_line_take_one_slot_and_one_is_new() {
    for [key, _] in KEYS {
        race::<true, _, _>(
            2,
            |_| (),
            move |table| insert_in_line(table, key, [1, 0]),
            move |table| insert_in_line(table, key, [2, 0]),
            move |table, a, b| {
                assert_one_is_new(a, b);
                assert!(matches!(find_in_line(table, key), Some([1 | 2, 0])));
                assert!(table.is_free(1));
            },
        );
    }
}

/// Where the other one may have reserved the last slot and filled the line.
#[test]
fn loom_two_inserts_of_one_key_in_a_full_line_take_one_slot() {
    for [key, other_key] in KEYS {
        race::<true, _, _>(
            2,
            |table| assert_eq!(insert_in_line(table, 207, [3, 0]), Some(true)),
            move |table| insert_in_line(table, key, [1, 0]),
            move |table| {
                (
                    insert_in_line(table, key, [2, 0]),
                    insert_in_line(table, other_key, [4, 0]),
                )
            },
            move |table, a, (b, other)| {
                assert_one_is_new(a, b);
                assert_eq!(other, None, "the table is full");
                assert!(matches!(find_in_line(table, key), Some([1 | 2, 0])));
                assert_eq!(find_in_line(table, other_key), None);
            },
        );
    }
}

#[test]
fn loom_two_keys_with_one_fingerprint_both_find_a_slot_of_a_line() {
    for [first, second] in KEYS {
        race::<true, _, _>(
            2,
            |_| (),
            move |table| insert_in_line(table, first, [1, 0]),
            move |table| insert_in_line(table, second, [2, 0]),
            move |table, a, b| {
                assert_eq!((a, b), (Some(true), Some(true)));
                assert_eq!(find_in_line(table, first), Some([1, 0]));
                assert_eq!(find_in_line(table, second), Some([2, 0]));
            },
        );
    }
}

/// An insert of a key that another thread is inserting waits for that thread, and its value stays.
#[test]
fn loom_an_insert_that_meets_another_one_in_a_line_leaves_the_value_of_one() {
    for [key, _] in KEYS {
        race::<true, _, _>(
            3,
            |table| assert_eq!(insert(table, 206, [5, 0]), Some(true)),
            move |table| insert(table, key, [1, 0]),
            move |table| (insert_in_line(table, key, [2, 0]), find_in_line(table, key)),
            move |table, a, (b, found)| {
                assert_one_is_new(a, b);
                assert!(matches!(found, Some([1 | 2, 0])), "{found:?}");
                let left = find_in_line(table, key);
                assert!(matches!(left, Some([1 | 2, 0])), "{left:?}");
                if b == Some(false) {
                    assert_eq!(left, Some([2, 0]), "it came after");
                }
            },
        );
    }
}

#[test]
fn loom_a_word_that_is_inserted_again_is_found_in_its_line_from_then_on() {
    race::<true, _, _>(
        1,
        |table| assert_eq!(insert(table, 7, [1, 0]), Some(true)),
        |table| (remove(table, 7), insert(table, 7, [2, 0])),
        |table| (find_in_line(table, 7), find_in_line(table, 7)),
        |table, a, (first, second)| {
            assert_eq!(a, (true, Some(true)));
            let age = |found: Option<[u64; 2]>| match found {
                Some([1, 0]) => 0,
                None => 1,
                Some([2, 0]) => 2,
                other => panic!("{other:?} was never there"),
            };
            assert!(age(first) <= age(second), "time runs backwards");
            assert_eq!(find_in_line(table, 7), Some([2, 0]));
        },
    );
}
