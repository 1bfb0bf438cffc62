//! The counters of operations on a board.

use std::sync::atomic::{AtomicU64, Ordering};

use super::board::{N_SIZES, NEAR, OPS, OPS_WORDS, SINGLES};
use crate::cost::CostKind;

/// Adds to counters that no other thread writes.
#[inline]
pub(super) fn add_to(counters: &[AtomicU64], by: &[u64]) {
    for (counter, by) in counters.iter().zip(by) {
        // Counts order nothing.
        let sum = counter.load(Ordering::Relaxed).wrapping_add(*by);
        counter.store(sum, Ordering::Relaxed);
    }
}

/// The kinds of operations that are reported as local and remote, with their bytes.
pub(super) const KINDS: [(CostKind, &str); 4] = [
    (CostKind::Read, "gets"),
    (CostKind::Write, "puts"),
    (CostKind::Atomic, "atomics"),
    (CostKind::Message, "messages"),
];

/// The kinds of [steps](super::steps), in the order of their counters; also those of single values.
pub(super) const STEPS: [CostKind; 3] = [CostKind::Read, CostKind::Write, CostKind::Atomic];

/// Which counter has the number of operations of a kind.
#[inline]
pub(super) fn n_of(kind: CostKind, is_near: bool) -> usize {
    // Four counters of each kind: local and remote, numbers and bytes.
    4 * kind as usize + if is_near { 0 } else { 2 }
}

/// Which counter has their bytes.
#[inline]
pub(super) fn bytes_of(kind: CostKind, is_near: bool) -> Option<usize> {
    (kind as usize <= CostKind::Message as usize).then_some(n_of(kind, is_near) + 1)
}

/// Which counter has near operations of this kind on one value of `bytes`, if one has.
#[inline]
pub(super) const fn single_of(kind: CostKind, bytes: usize) -> Option<usize> {
    let first = match kind {
        CostKind::Read => SINGLES,
        CostKind::Write => SINGLES + N_SIZES,
        CostKind::Atomic => SINGLES + 2 * N_SIZES,
        _ => return None,
    };
    if bytes.is_power_of_two() && bytes < 1 << N_SIZES {
        Some(first + bytes.ilog2() as usize)
    } else {
        None
    }
}

/// The counters of all threads of a rank, from its board's words. Operations on single values are
/// among all others of their kind.
pub(super) fn counters(word: &dyn Fn(usize) -> u64) -> [u64; OPS_WORDS] {
    let of_both = |i| word(OPS + i).wrapping_add(word(OPS + OPS_WORDS + i));
    let mut counters: [u64; OPS_WORDS] = std::array::from_fn(of_both);
    for (i, kind) in STEPS.into_iter().enumerate() {
        let at = n_of(kind, true);
        counters[at] = counters[at].wrapping_add(word(NEAR + 2 * i));
        counters[at + 1] = counters[at + 1].wrapping_add(word(NEAR + 2 * i + 1));
    }
    for kind in STEPS {
        for power in 0..N_SIZES {
            let n = single_of(kind, 1 << power).map_or(0, |at| counters[at]);
            let at = n_of(kind, true);
            counters[at] = counters[at].wrapping_add(n);
            counters[at + 1] = counters[at + 1].wrapping_add(n << power);
        }
    }
    counters
}

/// The kinds of operations that have a price: atomics, reads, writes and messages.
pub(super) const N_PAID: usize = 4;

/// The numbers of these operations that the first set of counters has.
pub(super) fn paid_of(word: &dyn Fn(usize) -> u64) -> [u64; N_PAID] {
    let kinds = [
        CostKind::Atomic,
        CostKind::Read,
        CostKind::Write,
        CostKind::Message,
    ];
    kinds.map(|kind| {
        let singles = (0..N_SIZES).filter_map(|power| single_of(kind, 1 << power));
        let all = [n_of(kind, true), n_of(kind, false)]
            .into_iter()
            .chain(singles);
        all.map(word).fold(0, u64::wrapping_add)
    })
}
