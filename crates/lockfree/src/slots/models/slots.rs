//! Operations that probe one slot after the other.

use super::*;

#[test]
fn loom_two_inserts_of_one_key_take_one_slot_and_one_is_new() {
    race::<false, _, _>(
        2,
        |_| (),
        |table| insert(table, 7, [1, 1]),
        |table| insert(table, 7, [2, 2]),
        |table, a, b| {
            assert_ne!(a, b, "exactly one of them is new");
            // The one that overwrote is the later one.
            let last = if a == Some(false) { [1, 1] } else { [2, 2] };
            assert_eq!(find(table, 7), Some(last));
            assert!(table.is_free(1));
        },
    );
}

#[test]
fn loom_two_keys_with_one_fingerprint_both_find_a_slot() {
    race::<true, _, _>(
        2,
        |_| (),
        |table| insert(table, 7, [1, 0]),
        |table| insert(table, 8, [2, 0]),
        |table, a, b| {
            assert_eq!((a, b), (Some(true), Some(true)));
            assert_eq!(
                (find(table, 7), find(table, 8)),
                (Some([1, 0]), Some([2, 0]))
            );
            assert_eq!(insert(table, 9, [3, 0]), None, "the table is full");
        },
    );
}

#[test]
fn loom_a_slot_that_is_not_published_yet_hides_nothing_behind_it() {
    race::<false, _, _>(
        2,
        |_| (),
        |table| {
            let inserted = insert(table, 7, [1, 1]);
            (inserted, find(table, 7))
        },
        |table| {
            let inserted = insert(table, 107, [2, 2]);
            (inserted, find(table, 107))
        },
        |_, a, b| {
            assert_eq!(a, (Some(true), Some([1, 1])));
            assert_eq!(b, (Some(true), Some([2, 2])));
        },
    );
}

#[test]
fn loom_the_last_slot_goes_to_one_key_and_the_other_is_refused() {
    race::<true, _, _>(
        1,
        |_| (),
        |table| insert(table, 7, [1, 0]),
        |table| insert(table, 8, [2, 0]),
        |table, a, b| {
            assert!(matches!((a, b), (Some(true), None) | (None, Some(true))));
            let both = (find(table, 7), find(table, 8));
            assert!(matches!(both, (Some(_), None) | (None, Some(_))));
        },
    );
}

#[test]
fn loom_a_search_sees_an_insert_whole_or_not_at_all_and_never_forgets_it() {
    race::<false, _, _>(
        2,
        |table| assert_eq!(insert(table, 6, [5, 5]), Some(true)),
        |table| insert(table, 7, [1, 1]),
        |table| (find(table, 7), find(table, 7)),
        |table, _, (first, second)| {
            assert!(matches!(first, None | Some([1, 1])), "{first:?}");
            assert!(first.is_none() || second == first);
            assert_eq!(find(table, 7), Some([1, 1]));
        },
    );
}

#[test]
fn loom_a_wide_value_is_read_whole_while_it_is_overwritten() {
    race::<false, _, _>(
        1,
        |table| assert_eq!(insert(table, 7, [1, 1]), Some(true)),
        |table| insert(table, 7, [2, 2]),
        |table| (find(table, 7), find(table, 7)),
        |_, _, (first, second)| {
            assert!(matches!(first, Some([1, 1] | [2, 2])), "{first:?}");
            assert!(matches!(second, Some([1, 1] | [2, 2])), "{second:?}");
            assert!(first <= second, "time runs backwards: {first:?} {second:?}");
        },
    );
}

#[test]
fn loom_concurrent_updates_of_a_wide_value_all_count() {
    race::<false, _, _>(
        1,
        |table| assert_eq!(insert(table, 7, [1, 1]), Some(true)),
        |table| add_one(table, 7),
        |table| add_one(table, 7),
        |table, (), ()| assert_eq!(find(table, 7), Some([3, 3])),
    );
}

#[test]
fn loom_an_update_and_an_overwrite_of_a_wide_value_happen_one_after_the_other() {
    race::<false, _, _>(
        1,
        |table| assert_eq!(insert(table, 7, [1, 1]), Some(true)),
        |table| add_one(table, 7),
        |table| insert(table, 7, [5, 5]),
        |table, (), _| assert!(matches!(find(table, 7), Some([5, 5] | [6, 6]))),
    );
}

#[test]
fn loom_concurrent_additions_to_an_absent_key_all_count() {
    let add = |table: &Table<true>| match claim(table, 7) {
        ProbeResult::Free(slot) => slot
            .publish_entry(7, [1, 0], StateWord::ready(home(table, 7).fingerprint))
            .unwrap(),
        ProbeResult::Found(slot, held) => {
            slot::update(&slot, &(), held, |[n, _]| Ok([n + 1, 0])).unwrap();
        }
        ProbeResult::Absent => panic!("there is room"),
    };
    race::<true, _, _>(
        2,
        |_| (),
        add,
        add,
        |table, (), ()| {
            assert_eq!(find(table, 7), Some([2, 0]));
        },
    );
}

#[test]
fn loom_two_removals_of_one_key_remove_it_once() {
    race::<false, _, _>(
        1,
        |table| assert_eq!(insert(table, 7, [1, 1]), Some(true)),
        |table| remove(table, 7),
        |table| remove(table, 7),
        |table, a, b| {
            assert_ne!(a, b, "one of them has removed it");
            assert_eq!(find(table, 7), None);
        },
    );
}

#[test]
fn loom_a_wide_value_that_two_take_is_that_of_one() {
    race::<false, _, _>(
        1,
        |table| assert_eq!(insert(table, 7, [1, 1]), Some(true)),
        |table| take(table, 7),
        |table| take(table, 7),
        |table, a, b| {
            assert_eq!(a.or(b), Some([1, 1]));
            assert_ne!(a, b, "one of them has taken it");
            assert_eq!(find(table, 7), None);
        },
    );
}

#[test]
fn loom_a_wide_value_is_taken_as_another_thread_left_it_or_found_it() {
    race::<false, _, _>(
        1,
        |table| assert_eq!(insert(table, 7, [1, 1]), Some(true)),
        |table| take(table, 7),
        |table| insert(table, 7, [2, 2]),
        |table, taken, inserted| match inserted {
            // After the value was taken.
            Some(true) => {
                assert_eq!((taken, find(table, 7)), (Some([1, 1]), Some([2, 2])));
            }
            // Before.
            _ => assert_eq!((taken, find(table, 7)), (Some([2, 2]), None)),
        },
    );
}

#[test]
fn loom_a_removal_and_an_insert_happen_one_after_the_other() {
    race::<false, _, _>(
        1,
        |table| assert_eq!(insert(table, 7, [1, 1]), Some(true)),
        |table| remove(table, 7),
        |table| (insert(table, 7, [2, 2]), find(table, 7)),
        |table, removed, (inserted, found)| {
            assert!(removed);
            match inserted {
                // After the removal.
                Some(true) => {
                    assert_eq!((found, find(table, 7)), (Some([2, 2]), Some([2, 2])));
                }
                // Before it.
                _ => {
                    assert!(matches!(found, None | Some([2, 2])), "{found:?}");
                    assert_eq!(find(table, 7), None);
                }
            }
        },
    );
}

#[test]
fn loom_a_word_that_is_inserted_again_is_there_from_then_on() {
    race::<true, _, _>(
        1,
        |table| assert_eq!(insert(table, 7, [1, 0]), Some(true)),
        |table| (remove(table, 7), insert(table, 7, [2, 0])),
        |table| (find(table, 7), find(table, 7), find(table, 7)),
        |table, a, (first, second, third)| {
            assert_eq!(a, (true, Some(true)));
            // 1, nothing, 2, in this order.
            let age = |found: Option<[u64; 2]>| match found {
                Some([1, 0]) => 0,
                None => 1,
                Some([2, 0]) => 2,
                other => panic!("{other:?} was never there"),
            };
            let ages = [first, second, third].map(age);
            assert!(ages.is_sorted(), "time runs backwards: {ages:?}");
            assert_eq!(find(table, 7), Some([2, 0]));
        },
    );
}

#[test]
fn loom_a_removed_word_that_two_insert_again_is_that_of_one() {
    fn get_or_insert(table: &Table<true>, value: u64) -> Option<[u64; 2]> {
        let ProbeResult::Found(slot, _) = claim(table, 7) else {
            panic!("the key has a slot");
        };
        match slot::reinsert_if_removed(slot, [value, 0]).unwrap() {
            Ok(()) => None,
            Err(held) => Some(slot::load(&slot, &(), held).unwrap().unwrap()),
        }
    }
    race::<true, _, _>(
        1,
        |table| {
            assert_eq!(insert(table, 7, [1, 0]), Some(true));
            assert!(remove(table, 7));
            assert_eq!(find(table, 7), None);
        },
        |table| get_or_insert(table, 2),
        |table| get_or_insert(table, 3),
        |table, a, b| match (a, b) {
            (None, Some([2, 0])) => assert_eq!(find(table, 7), Some([2, 0])),
            (Some([3, 0]), None) => assert_eq!(find(table, 7), Some([3, 0])),
            other => panic!("{other:?}"),
        },
    );
}

#[test]
fn loom_a_wide_value_that_is_removed_and_inserted_again_is_read_whole_or_not_at_all() {
    race::<false, _, _>(
        1,
        |table| assert_eq!(insert(table, 7, [1, 1]), Some(true)),
        |table| (remove(table, 7), insert(table, 7, [2, 2])),
        |table| (find(table, 7), find(table, 7)),
        |_, a, (first, second)| {
            assert_eq!(a, (true, Some(true)));
            for found in [first, second] {
                assert!(matches!(found, None | Some([1, 1] | [2, 2])), "{found:?}");
            }
            assert!(!(first.is_none() && second == Some([1, 1])));
            assert!(!(first == Some([2, 2]) && second != first));
        },
    );
}
