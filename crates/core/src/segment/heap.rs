//! A heap of a segment: a best-fit allocator of offsets.

use std::collections::HashMap;
use std::ops::Range;

use range_alloc::RangeAllocator;

use crate::{Error, Exhausted, Rank};

/// The smallest step between allocations: no two share a cache line.
const GRANULE: u64 = 64;

/// How full a heap is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapUse {
    /// The heap's size.
    pub capacity: u64,
    /// Allocated, rounded up to whole cache lines.
    pub used: u64,
    /// Not allocated.
    pub free: u64,
    /// The largest request that would succeed now.
    pub largest: u64,
}

/// A heap: which offsets of a range are taken. Knows nothing of the memory itself.
#[derive(Debug)]
pub(crate) struct Heap {
    name: &'static str,
    ranges: RangeAllocator<u64>,
    lengths: HashMap<u64, u64>,
    /// The start of memory that was never allocated, so that it still reads as zero.
    fresh: u64,
}

/// An allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) range: Range<u64>,
    /// The part of `range` that was in use before and must be zeroed.
    pub(crate) stale: Range<u64>,
}

impl Heap {
    pub(crate) fn new(name: &'static str, range: Range<u64>) -> Self {
        let fresh = range.start;
        Self {
            name,
            ranges: RangeAllocator::new(range),
            lengths: HashMap::new(),
            fresh,
        }
    }

    /// Takes `bytes` bytes aligned to `align`; a request for nothing gets a granule of its own.
    pub(crate) fn allocate(&mut self, rank: Rank, bytes: u64, align: u64) -> Result<Block, Error> {
        let align = align.max(GRANULE);
        let rounded = bytes.max(1).checked_next_multiple_of(GRANULE);
        let range = rounded.and_then(|rounded| {
            // Sums of larger numbers would overflow inside the allocator's search.
            (rounded.max(align) <= u64::MAX / 4)
                .then(|| self.ranges.allocate_range_aligned(rounded, align).ok())?
        });
        let Some(range) = range else {
            return Err(self.exhausted(rank, bytes, align));
        };
        self.lengths.insert(range.start, range.end - range.start);
        let stale = range.start..range.end.min(self.fresh).max(range.start);
        self.fresh = self.fresh.max(range.end);
        Ok(Block { range, stale })
    }

    /// Frees the allocation at `offset`; `None` if there is none.
    pub(crate) fn free(&mut self, offset: u64) -> Option<Range<u64>> {
        let bytes = self.lengths.remove(&offset)?;
        let range = offset..offset + bytes;
        self.ranges.free_range(range.clone());
        Some(range)
    }

    pub(crate) fn usage(&self) -> HeapUse {
        let whole = self.ranges.initial_range();
        let capacity = whole.end - whole.start;
        let free = self.ranges.total_available();
        let mut largest = 0;
        let mut at = whole.start;
        for taken in self.ranges.allocated_ranges() {
            largest = largest.max(taken.start - at);
            at = taken.end;
        }
        largest = largest.max(whole.end - at);
        HeapUse {
            capacity,
            used: capacity - free,
            free,
            largest,
        }
    }

    fn exhausted(&self, rank: Rank, requested: u64, align: u64) -> Error {
        let usage = self.usage();
        Box::new(Exhausted {
            rank,
            heap: self.name,
            requested,
            align,
            free: usage.free,
            largest: usage.largest,
            capacity: usage.capacity,
            setting: "PGAS_SEGMENT (bytes a rank, e.g. PGAS_SEGMENT=8G)",
        })
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap() -> Heap {
        Heap::new("local", 4096..8192)
    }

    #[test]
    fn freed_memory_is_used_again_and_merges_with_its_neighbours() {
        let mut heap = heap();
        let blocks: Vec<_> = (0..4)
            .map(|_| heap.allocate(Rank::ZERO, 1024, 8).unwrap().range)
            .collect();
        assert_eq!(heap.usage().free, 0);
        heap.free(blocks[1].start).unwrap();
        heap.free(blocks[3].start).unwrap();
        assert_eq!((heap.usage().free, heap.usage().largest), (2048, 1024));
        assert!(heap.allocate(Rank::ZERO, 2048, 8).is_err());
        heap.free(blocks[2].start).unwrap();
        assert_eq!(
            heap.allocate(Rank::ZERO, 3072, 8).unwrap().range,
            5120..8192
        );
    }

    #[test]
    fn an_exhausted_heap_names_request_rest_and_setting() {
        let mut heap = heap();
        heap.allocate(Rank::ZERO, 64, 8).unwrap();
        let text = heap
            .allocate(Rank::new(3), 5000, 8)
            .unwrap_err()
            .to_string();
        for part in [
            "rank 3",
            "local heap",
            "5000 bytes",
            "4032 of 4096",
            "PGAS_SEGMENT",
        ] {
            assert!(text.contains(part), "{part:?} is missing in {text:?}");
        }
        assert!(heap.allocate(Rank::ZERO, u64::MAX, 8).is_err());
        assert!(heap.allocate(Rank::ZERO, u64::MAX - 4096, 1 << 40).is_err());
        assert_eq!(heap.usage().used, 64);
    }

    #[test]
    fn only_memory_that_was_used_before_is_stale() {
        let mut heap = heap();
        let first = heap.allocate(Rank::ZERO, 128, 8).unwrap();
        assert!(first.stale.is_empty());
        heap.free(first.range.start).unwrap();
        let second = heap.allocate(Rank::ZERO, 256, 8).unwrap();
        assert_eq!((second.range, second.stale), (4096..4352, 4096..4224));
    }

    #[test]
    fn over_aligned_and_empty_requests_are_served() {
        let mut heap = heap();
        heap.allocate(Rank::ZERO, 0, 1).unwrap();
        let block = heap.allocate(Rank::ZERO, 8, 2048).unwrap();
        assert_eq!(block.range.start % 2048, 0);
        assert_eq!(heap.free(4097), None);
        assert_eq!(heap.free(4096), Some(4096..4160));
        assert_eq!(heap.free(4096), None, "a second free finds nothing");
    }
}
