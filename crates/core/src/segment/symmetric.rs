//! The heap of symmetric allocations.

use super::heap::{Block, Heap, HeapUse};
use crate::error::Result;
use crate::rank::Rank;

/// The symmetric heap, and the allocations that this rank has dropped.
#[derive(Debug)]
pub(crate) struct SymmetricHeap {
    heap: Heap,
    /// Live allocations in the order in which they were made, which is the same on every rank.
    live: Vec<Live>,
}

/// The result of a reclaim.
#[derive(Debug, Default)]
pub(crate) struct Freed {
    /// The memory of the allocations.
    pub(crate) ranges: Vec<std::ops::Range<u64>>,
    /// The allocations of the local heap that were left to them.
    pub(crate) local: Vec<u64>,
}

#[derive(Debug)]
struct Live {
    offset: u64,
    dropped: bool,
    /// Allocations of the local heap that end with this one.
    heirlooms: Vec<u64>,
}

impl SymmetricHeap {
    pub(crate) fn new(heap: Heap) -> Self {
        Self {
            heap,
            live: Vec::new(),
        }
    }

    pub(crate) fn allocate(&mut self, rank: Rank, bytes: u64, align: u64) -> Result<Block> {
        let block = self.heap.allocate(rank, bytes, align)?;
        self.live.push(Live {
            offset: block.range.start,
            dropped: false,
            heirlooms: Vec::new(),
        });
        Ok(block)
    }

    pub(crate) fn drop_handle(&mut self, offset: u64) {
        if let Some(live) = self.live.iter_mut().find(|live| live.offset == offset) {
            live.dropped = true;
        }
    }

    pub(crate) fn bequeath(&mut self, offset: u64, blocks: impl Iterator<Item = u64>) {
        if let Some(live) = self.live.iter_mut().find(|live| live.offset == offset) {
            live.heirlooms.extend(blocks);
        }
    }

    /// One bit for each live allocation: whether this rank has dropped its handle.
    pub(crate) fn dropped(&self) -> Vec<u64> {
        let mut words = vec![0; self.live.len().div_ceil(64)];
        for (i, live) in self.live.iter().enumerate() {
            words[i / 64] |= u64::from(live.dropped) << (i % 64);
        }
        words
    }

    /// Frees the allocations whose bit is set, which must be the same ones on every rank.
    pub(crate) fn reclaim(&mut self, words: &[u64]) -> Freed {
        let mut freed = Freed::default();
        let mut index = 0;
        let heap = &mut self.heap;
        self.live.retain_mut(|live| {
            let gone = words[index / 64] >> (index % 64) & 1 == 1;
            index += 1;
            if gone {
                freed.ranges.extend(heap.free(live.offset));
                freed.local.append(&mut live.heirlooms);
            }
            !gone
        });
        freed
    }

    pub(crate) fn usage(&self) -> HeapUse {
        self.heap.usage()
    }
}
