//! Two ranks that work on two keys, in an order that both agree on: neither misses the other's
//! insert.

use super::lines::{find_in_line, insert_in_line};
use super::*;
use crate::sync::model::each;

/// Two ranks each change a key and then find the other one's. At least one of them sees the other's
/// change.
fn neither_misses_the_other<const W: bool>(
    before: fn(&Table<W>),
    change: fn(&Table<W>, u64),
    look: fn(&Table<W>, u64) -> Option<[u64; 2]>,
    changed: Option<[u64; 2]>,
) {
    each(|| {
        race::<W, _, _>(
            2,
            before,
            move |table| {
                change(table, 7);
                look(table, 107)
            },
            move |table| {
                change(table, 107);
                look(table, 7)
            },
            move |_, a, b| assert!(a == changed || b == changed, "{a:?} {b:?}"),
        );
    });
}

/// Each key in its own slot.
fn both<const W: bool>(table: &Table<W>) {
    for key in [7, 107] {
        assert_eq!(insert(table, key, [1, 1]), Some(true));
    }
}

#[test]
fn loom_of_two_inserts_one_is_seen_by_who_made_the_other() {
    neither_misses_the_other::<true>(
        |_| (),
        |table, key| assert_eq!(insert(table, key, [2, 0]), Some(true)),
        |table, key| find(table, key),
        Some([2, 0]),
    );
}

#[test]
fn loom_of_two_inserts_one_is_found_in_its_line_by_who_made_the_other() {
    neither_misses_the_other::<true>(
        |_| (),
        |table, key| assert_eq!(insert_in_line(table, key, [2, 0]), Some(true)),
        |table, key| find_in_line(table, key),
        Some([2, 0]),
    );
}

#[test]
fn loom_of_two_overwritten_words_one_is_seen_by_who_wrote_the_other() {
    neither_misses_the_other::<true>(
        both,
        |table, key| assert_eq!(insert(table, key, [2, 0]), Some(false)),
        |table, key| find(table, key),
        Some([2, 0]),
    );
}

#[test]
fn loom_of_two_updated_words_one_is_seen_by_who_updated_the_other() {
    neither_misses_the_other::<true>(
        both,
        |table, key| add_one(table, key),
        |table, key| find(table, key),
        Some([2, 0]),
    );
}

#[test]
fn loom_of_two_overwritten_wide_values_one_is_seen_by_who_wrote_the_other() {
    neither_misses_the_other::<false>(
        both,
        |table, key| assert_eq!(insert(table, key, [2, 2]), Some(false)),
        |table, key| find(table, key),
        Some([2, 2]),
    );
}

#[test]
fn loom_of_two_removals_one_is_seen_by_who_made_the_other() {
    neither_misses_the_other::<true>(
        both,
        |table, key| assert!(remove(table, key)),
        |table, key| find(table, key),
        None,
    );
}
