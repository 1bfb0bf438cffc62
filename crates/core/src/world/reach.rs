//! Which segments a world reaches by this process's own instructions, decided once.

use std::ops::Range;

use crate::backend::{AtomicsBy, Backend};
use crate::config::Config;
use crate::raw::map::{EvenMap, SegmentMap};

/// The ranks whose segments are accessed directly, if they are mapped. With the direct path off
/// there is none. If ranks serve atomics, it is this rank alone: others then reach its words only
/// by asking it.
pub(super) fn direct_ranks(backend: &dyn Backend, config: &Config) -> Range<u32> {
    let own = backend.rank().number();
    if config.direct {
        backend.mapped_ranks()
    } else if backend.capabilities().ranks_serve_atomics() {
        own..own + 1
    } else {
        0..0
    }
}

/// Which segments of `ranks` are accessed directly, and on which of them CPU atomics are right: one
/// word must never have two kinds of executors.
pub(super) fn maps(backend: &dyn Backend, ranks: Range<u32>) -> (SegmentMap, SegmentMap) {
    let memory = SegmentMap::of(backend, ranks.clone());
    let by_cpu = backend.capabilities().atomics == AtomicsBy::Cpu;
    let words = if by_cpu || memory.covers(backend.n_ranks()) {
        SegmentMap::of(backend, ranks)
    } else {
        SegmentMap::empty()
    };
    (memory, words)
}

/// The map of the fast path for the segments of `ranks`, if this rank's own segment is in `map`.
pub(super) fn fast_map(
    backend: &dyn Backend,
    map: &SegmentMap,
    ranks: Range<u32>,
    is_counted: bool,
) -> EvenMap {
    if map.base(backend.rank()).is_some() {
        EvenMap::of(backend, ranks, is_counted)
    } else {
        EvenMap::empty()
    }
}
