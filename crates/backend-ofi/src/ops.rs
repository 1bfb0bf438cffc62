//! Operations in flight: a table with reused slots.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use pgas_core::Rank;
use pgas_core::backend::{Former, OpId};
use pgas_network::mix::Mix;

use crate::steps::Steps;
use crate::sys::{Buffer, Cell, Context, Region, Target};

/// The most operations in flight. A further one waits until one of them is over.
pub(crate) const LIMIT: usize = 4096;

/// Bits of the slot's index in an operation's id. The low bits of the slot's generation follow.
const INDEX_BITS: u32 = 13;
const INDICES: u64 = (1 << INDEX_BITS) - 1;
const GENERATIONS: u64 = u64::MAX >> INDEX_BITS;
const _: () = assert!(LIMIT < 1 << INDEX_BITS);

/// The state of an operation in flight.
#[derive(Debug)]
pub(crate) enum Flight {
    /// A put, with the copy of its source, if there is one, and the registration of its source, if
    /// that needs one.
    Put {
        rank: u32,
        copy: Option<Buffer>,
        #[expect(dead_code, reason = "is closed with the operation")]
        region: Option<Region>,
    },
    /// A get, with the registration of its destination.
    Get {
        rank: u32,
        #[expect(dead_code, reason = "is closed with the operation")]
        region: Option<Region>,
    },
    /// An atomic at the target: its answer. Without a place for the result it is only counted.
    Answer { from: u32, result: Option<Former> },
    /// An atomic of the provider.
    Provided(Provided),
}

/// An atomic that the provider executes.
#[derive(Debug)]
pub(crate) struct Provided {
    pub(crate) rank: u32,
    /// The word.
    pub(crate) target: Target,
    pub(crate) steps: Steps,
    /// The memory of the current step.
    pub(crate) cell: Cell,
    /// Without a place for the result it is only counted.
    pub(crate) result: Option<Former>,
}

impl Flight {
    fn rank(&self) -> u32 {
        match self {
            Self::Put { rank, .. } | Self::Get { rank, .. } => *rank,
            Self::Answer { from, .. } => *from,
            Self::Provided(atomic) => atomic.rank,
        }
    }
}

#[derive(Debug)]
struct Slot {
    context: Context,
    /// The number of earlier operations in this slot. An operation with another generation is over,
    /// however old: it takes years until a number recurs.
    generation: u64,
    /// `None` if the slot is free.
    flight: Option<Flight>,
    /// The epoch in which it began: the number of flushes of its rank before it.
    epoch: u64,
}

/// Puts and atomics that are not complete at a rank.
#[derive(Debug, Default)]
struct Open {
    /// The number of flushes that had something to wait for.
    epoch: u64,
    /// The epochs in which operations began that are not complete, the oldest first, each with
    /// their number.
    counts: VecDeque<(u64, u32)>,
}

impl Open {
    /// An operation begins. Returns the epoch.
    fn begin(&mut self) -> u64 {
        match self.counts.back_mut() {
            Some((epoch, n)) if *epoch == self.epoch => *n += 1,
            _ => self.counts.push_back((self.epoch, 1)),
        }
        self.epoch
    }

    /// An operation that began in `epoch` is complete.
    fn close(&mut self, epoch: u64) {
        let found = self
            .counts
            .binary_search_by_key(&epoch, |(epoch, _)| *epoch);
        let Ok(at) = found else {
            return;
        };
        self.counts[at].1 -= 1;
        if self.counts[at].1 == 0 {
            self.counts.remove(at);
        }
    }
}

/// A flush that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flush {
    rank: u32,
    epoch: u64,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Ops {
    slots: Vec<Slot>,
    free: Vec<usize>,
    open: HashMap<u32, Open, BuildHasherDefault<Mix>>,
    /// A function from the index of a slot to the number of its context.
    number: fn(usize) -> u64,
}

impl Ops {
    pub(crate) fn new(number: fn(usize) -> u64) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            open: HashMap::default(),
            number,
        }
    }

    /// A free slot, if there may be one more operation.
    pub(crate) fn reserve(&mut self) -> Option<usize> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        let index = self.slots.len();
        if index == LIMIT {
            return None;
        }
        self.slots.push(Slot {
            context: Context::new((self.number)(index)),
            generation: 0,
            flight: None,
            epoch: 0,
        });
        Some(index)
    }

    /// Whether there may be no further operation.
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() == LIMIT
    }

    /// Gives back a reserved slot.
    pub(crate) fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.flight = None;
        slot.generation = (slot.generation + 1) & GENERATIONS;
        self.free.push(index);
    }

    /// The context by which libfabric knows the operation in slot `index`.
    pub(crate) fn context(&self, index: usize) -> &Context {
        &self.slots[index].context
    }

    /// The id that the operation in slot `index` has.
    pub(crate) fn id(&self, index: usize) -> OpId {
        OpId(self.slots[index].generation << INDEX_BITS | (index as u64 + 1))
    }

    /// Records that the operation in slot `index` has begun.
    pub(crate) fn begin(&mut self, index: usize, flight: Flight) -> OpId {
        // No flush waits for a get.
        if !matches!(flight, Flight::Get { .. }) {
            let open = self.open.entry(flight.rank()).or_default();
            self.slots[index].epoch = open.begin();
        }
        self.slots[index].flight = Some(flight);
        self.id(index)
    }

    pub(crate) fn index_of(&self, op: OpId) -> Option<usize> {
        let index = usize::try_from(op.0 & INDICES).ok()?.checked_sub(1)?;
        let slot = self.slots.get(index)?;
        (op.0 >> INDEX_BITS == slot.generation && slot.flight.is_some()).then_some(index)
    }

    /// Whether `op` is over.
    pub(crate) fn is_over(&self, op: OpId) -> bool {
        self.index_of(op).is_none()
    }

    /// The rank of the operation in slot `index`.
    pub(crate) fn rank_of(&self, index: usize) -> Option<u32> {
        self.slots.get(index)?.flight.as_ref().map(Flight::rank)
    }

    /// The atomic of the provider in slot `index`, if there is one, and its context.
    pub(crate) fn provided(&mut self, index: usize) -> Option<(&mut Provided, &Context)> {
        let slot = self.slots.get_mut(index)?;
        match &mut slot.flight {
            Some(Flight::Provided(atomic)) => Some((atomic, &slot.context)),
            _ => None,
        }
    }

    /// Records that the operation in slot `index` is complete, and returns it.
    pub(crate) fn complete(&mut self, index: usize) -> Option<Flight> {
        let slot = self.slots.get_mut(index)?;
        let (flight, epoch) = (slot.flight.take()?, slot.epoch);
        self.release(index);
        if !matches!(flight, Flight::Get { .. }) {
            self.close(flight.rank(), epoch);
        }
        Some(flight)
    }

    /// Stores the answer of an atomic's target. Its slot is free at once: a caller that never asks
    /// for the result, or asks after many more atomics, occupies none.
    pub(crate) fn answered(&mut self, from: u32, op: OpId, bits: u64) {
        let Some(index) = self.index_of(op) else {
            return;
        };
        let slot = &mut self.slots[index];
        match slot.flight.take() {
            Some(Flight::Answer { from: of, result }) if of == from => {
                if let Some(place) = result {
                    place.set(bits);
                }
                let epoch = slot.epoch;
                self.release(index);
                self.close(from, epoch);
            }
            other => slot.flight = other,
        }
    }

    fn close(&mut self, rank: u32, epoch: u64) {
        if let Some(open) = self.open.get_mut(&rank) {
            open.close(epoch);
        }
    }

    /// Abandons `op`: its result is not needed any more.
    pub(crate) fn abandon(&mut self, op: OpId) {
        if let Some(index) = self.index_of(op)
            && let Some(Flight::Answer { result, .. } | Flight::Provided(Provided { result, .. })) =
                &mut self.slots[index].flight
        {
            *result = None;
        }
    }

    /// Begins a flush of `rank`. The result separates earlier operations from later ones, which
    /// other threads may begin without end.
    pub(crate) fn begin_flush(&mut self, rank: u32) -> Flush {
        let open = self.open.entry(rank).or_default();
        if !open.counts.is_empty() {
            open.epoch += 1;
        }
        Flush {
            rank,
            epoch: open.epoch,
        }
    }

    /// As [`begin_flush`](Self::begin_flush), of all ranks on which something is in flight.
    pub(crate) fn begin_flushes(&mut self) -> Vec<Flush> {
        let ranks = self.awaited();
        ranks
            .into_iter()
            .map(|rank| self.begin_flush(rank.number()))
            .collect()
    }

    /// Whether all operations before the flush are complete.
    pub(crate) fn is_flushed(&self, flush: Flush) -> bool {
        let first = self.open.get(&flush.rank);
        let first = first.and_then(|open| open.counts.front());
        first.is_none_or(|(epoch, _)| *epoch >= flush.epoch)
    }

    /// Whether there are operations that a flush waits for.
    pub(crate) fn has_any(&self) -> bool {
        self.open.values().any(|open| !open.counts.is_empty())
    }

    /// The ranks with operations of any kind in flight.
    pub(crate) fn in_flight(&self) -> Vec<Rank> {
        let flights = self.slots.iter().filter_map(|slot| slot.flight.as_ref());
        let mut ranks: Vec<u32> = flights.map(Flight::rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks.into_iter().map(Rank::new).collect()
    }

    /// The ranks with operations that a flush waits for.
    pub(crate) fn awaited(&self) -> Vec<Rank> {
        let open = self.open.iter().filter(|(_, open)| !open.counts.is_empty());
        let mut ranks: Vec<u32> = open.map(|(rank, _)| *rank).collect();
        ranks.sort_unstable();
        ranks.into_iter().map(Rank::new).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(rank: u32) -> Flight {
        Flight::Put {
            rank,
            copy: None,
            region: None,
        }
    }

    #[test]
    fn slots_are_used_again_under_other_ids() {
        let mut ops = Ops::new(|index| index as u64);
        let mut ids = Vec::new();
        for _ in 1..10 {
            let index = ops.reserve().unwrap();
            let op = ops.begin(index, put(3));
            assert_eq!(ops.awaited(), [Rank::new(3)]);
            assert!(!ops.is_over(op));
            assert!(matches!(ops.complete(index), Some(Flight::Put { .. })));
            assert!(!ops.has_any() && ops.is_over(op));
            assert_eq!(index, 0, "the only slot");
            ids.push(op);
        }
        ids.dedup();
        assert_eq!(ids.len(), 9);
    }

    #[test]
    fn an_answer_counts_once_and_of_the_rank_that_was_asked_alone() {
        let mut ops = Ops::new(|index| index as u64);
        let index = ops.reserve().unwrap();
        let flight = Flight::Answer {
            from: 1,
            result: None,
        };
        let op = ops.begin(index, flight);
        ops.answered(2, op, 0);
        assert_eq!(ops.awaited(), [Rank::new(1)]);
        ops.answered(1, op, 0);
        ops.answered(1, op, 0);
        assert!(!ops.has_any());
        assert_eq!(ops.reserve(), Some(index));
    }

    #[test]
    fn a_flush_waits_for_what_was_before_it_alone() {
        let mut ops = Ops::new(|index| index as u64);
        let begin = |ops: &mut Ops| {
            let index = ops.reserve().unwrap();
            ops.begin(index, put(3));
            index
        };
        let (first, second) = (begin(&mut ops), begin(&mut ops));
        let flush = ops.begin_flush(3);
        let third = begin(&mut ops);
        let later = ops.begin_flush(3);
        for index in [second, first] {
            assert!(!ops.is_flushed(flush) && !ops.is_flushed(later));
            ops.complete(index);
        }
        assert!(ops.is_flushed(flush) && !ops.is_flushed(later));
        ops.complete(third);
        assert!(ops.is_flushed(later));
        let empty = ops.begin_flush(3);
        assert!(ops.is_flushed(empty) && ops.begin_flushes().is_empty());
    }

    #[test]
    fn ranks_with_operations_in_flight_are_known_also_those_of_gets() {
        let mut ops = Ops::new(|index| index as u64);
        assert_eq!(ops.in_flight(), []);
        let get = Flight::Get {
            rank: 7,
            region: None,
        };
        for flight in [put(3), get, put(3)] {
            let index = ops.reserve().unwrap();
            ops.begin(index, flight);
        }
        assert_eq!(ops.in_flight(), [3, 7].map(Rank::new));
        assert_eq!(ops.awaited(), [Rank::new(3)]);
    }

    #[test]
    fn the_table_has_a_limit() {
        let mut ops = Ops::new(|index| index as u64);
        assert!((0..LIMIT).all(|index| ops.reserve() == Some(index)));
        assert_eq!((ops.reserve(), ops.is_full()), (None, true));
        ops.release(5);
        assert!(!ops.is_full());
        assert_eq!(ops.reserve(), Some(5));
    }
}
