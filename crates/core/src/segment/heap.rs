//! A heap of a segment: a best-fit allocator of offsets.

use std::collections::HashMap;
use std::ops::Range;

use range_alloc::RangeAllocator;

use crate::{Error, Exhausted, Rank};

/// Allocations are multiples of this many bytes: no two share a cache line.
const GRANULE: u64 = 64;

/// The use of a heap, in bytes.
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

/// A heap: the taken and the free offsets of a range. It does not access the memory itself.
#[derive(Debug)]
pub(crate) struct Heap {
    name: &'static str,
    ranges: RangeAllocator<u64>,
    lengths: HashMap<u64, u64>,
    /// Memory that was never handed out, so that it still reads as zero. It is taken from both
    /// ends.
    fresh: Range<u64>,
}

/// An allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) range: Range<u64>,
    /// The parts of `range` that may have been in use before and must be zeroed.
    pub(crate) stale: [Range<u64>; 2],
}

impl Block {
    /// Whether nothing has to be zeroed.
    pub(crate) fn is_fresh(&self) -> bool {
        self.stale.iter().all(Range::is_empty)
    }
}

impl Heap {
    pub(crate) fn new(name: &'static str, range: Range<u64>) -> Self {
        let fresh = range.clone();
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
        let range = granules(bytes).and_then(|rounded| {
            // Sums of larger numbers would overflow inside the allocator's search.
            (align <= u64::MAX / 4)
                .then(|| self.ranges.allocate_range_aligned(rounded, align).ok())?
        });
        let Some(range) = range else {
            return Err(self.exhausted(rank, bytes, align));
        };
        self.lengths.insert(range.start, range.end - range.start);
        let stale = self.stale(&range);
        let Range { start, end } = self.fresh;
        if range.start < end {
            self.fresh = start.max(range.end)..end.max(range.end);
        }
        Ok(Block { range, stale })
    }

    /// Takes the highest piece of `bytes` bytes, aligned to `align`, that ends at `end` or before
    /// it. Return it by [`give_back`](Self::give_back), not by [`retire`](Self::retire).
    ///
    /// Blocks at one offset on several ranks are taken from above, all others from below. So the
    /// upper offsets are more often free on all ranks.
    pub(crate) fn take_highest(&mut self, bytes: u64, align: u64, end: u64) -> Option<Block> {
        let rounded = granules(bytes)?;
        let align = align.max(GRANULE);
        let piece = |gap: &Range<u64>| {
            let start = gap.end.min(end).checked_sub(rounded)? / align * align;
            (start >= gap.start).then_some(start..start + rounded)
        };
        let gaps = self.gaps();
        let (gap, range) = gaps.iter().rev().find_map(|gap| Some((gap, piece(gap)?)))?;
        self.take(gap, &range);
        let stale = self.stale(&range);
        let Range { start, end } = self.fresh;
        if range.end > start {
            self.fresh = start..end.min(range.start).max(start);
        }
        Some(Block { range, stale })
    }

    /// Takes `range` out of a gap.
    fn take(&mut self, gap: &Range<u64>, range: &Range<u64>) {
        // The allocator cannot be asked for a given range. But asked for the gap's length it
        // returns a whole gap of that length; the wanted one at the latest when all others are
        // taken.
        let mut others = Vec::new();
        while let Ok(whole) = self.ranges.allocate_range(gap.end - gap.start) {
            if whole == *gap {
                break;
            }
            others.push(whole);
        }
        let rest = [gap.start..range.start, range.end..gap.end];
        let is_some = |range: &Range<u64>| !range.is_empty();
        for free in others.into_iter().chain(rest.into_iter().filter(is_some)) {
            self.ranges.free_range(free);
        }
    }

    /// Makes a range free that [`take_highest`](Self::take_highest) has taken, or that was
    /// [retired](Self::retire).
    pub(crate) fn give_back(&mut self, range: Range<u64>) {
        self.ranges.free_range(range);
    }

    /// The parts of `range` that are not fresh.
    fn stale(&self, range: &Range<u64>) -> [Range<u64>; 2] {
        let Range { start, end } = *range;
        let below = self.fresh.start.clamp(start, end);
        let above = self.fresh.end.clamp(below, end);
        [start..below, above..end]
    }

    /// The free pieces, in order.
    fn gaps(&self) -> Vec<Range<u64>> {
        let whole = self.ranges.initial_range();
        let mut gaps = Vec::new();
        let mut at = whole.start;
        for taken in self.ranges.allocated_ranges() {
            gaps.push(at..taken.start);
            at = taken.end;
        }
        gaps.push(at..whole.end);
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// Ends the allocation at `offset`; `None` if there is none. Its range stays taken until it is
    /// [given back](Self::give_back).
    pub(crate) fn retire(&mut self, offset: u64) -> Option<Range<u64>> {
        let bytes = self.lengths.remove(&offset)?;
        Some(offset..offset + bytes)
    }

    /// Both steps of a free.
    #[cfg(test)]
    pub(super) fn free(&mut self, offset: u64) -> Option<Range<u64>> {
        let range = self.retire(offset)?;
        self.give_back(range.clone());
        Some(range)
    }

    pub(crate) fn usage(&self) -> HeapUse {
        let whole = self.ranges.initial_range();
        let capacity = whole.end - whole.start;
        let free = self.ranges.total_available();
        let largest = self.gaps().iter().map(|gap| gap.end - gap.start).max();
        HeapUse {
            capacity,
            used: capacity - free,
            free,
            largest: largest.unwrap_or(0),
        }
    }

    /// The error of a request without room.
    pub(crate) fn exhausted(&self, rank: Rank, requested: u64, align: u64) -> Error {
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

/// `bytes` in whole granules, at least one, unless they are more than any heap has.
fn granules(bytes: u64) -> Option<u64> {
    let rounded = bytes.max(1).checked_next_multiple_of(GRANULE)?;
    (rounded <= u64::MAX / 4).then_some(rounded)
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
        assert!(first.is_fresh());
        heap.free(first.range.start).unwrap();
        let second = heap.allocate(Rank::ZERO, 256, 8).unwrap();
        let stale = [4096..4224, 4352..4352];
        assert_eq!((second.range, second.stale), (4096..4352, stale));
    }

    #[test]
    fn the_highest_piece_below_an_end_is_taken_and_given_back() {
        let mut heap = heap();
        let mut take = |bytes, end| heap.take_highest(bytes, 8, end);
        let blocks = [(); 4].map(|()| take(1000, u64::MAX).unwrap());
        assert!(blocks.iter().all(Block::is_fresh));
        let [last, second, _, first] = blocks.map(|block| block.range);
        assert_eq!((&last, &first), (&(7168..8192), &(4096..5120)));
        assert_eq!(take(1, u64::MAX), None);
        // Two gaps of one length, of which each is found.
        heap.give_back(second.clone());
        heap.give_back(first);
        assert_eq!(heap.free(second.start), None, "it was no allocation");
        let mut take = |bytes, end| heap.take_highest(bytes, 8, end);
        let piece = take(512, u64::MAX).unwrap();
        assert_eq!((piece.range, &piece.stale[1]), (6656..7168, &(6656..7168)));
        assert_eq!(take(512, 5000).unwrap().range, 4480..4992);
        assert_eq!(take(64, 4096 + 63), None);
        assert_eq!(take(u64::MAX, u64::MAX), None);
        assert_eq!(heap.usage().free, 1024);
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
