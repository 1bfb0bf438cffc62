//! Operations in flight: a table with reused slots, and operations that need no slot.

use std::collections::HashMap;

use pgas_core::backend::{Former, OpId};
use pgas_core::{Rank, Result};

use crate::sys::{self, Mpi, Probe, Request};

/// The most puts and gets in flight that have a slot; a further one is [`Plain`]. Atomics have as
/// many slots at least: answers free these while a rank waits for one, whereas a slot of a put or a
/// get is freed by who waits for that.
pub(crate) const LIMIT: usize = 4096;
const N_SLOTS: usize = 2 * LIMIT;

/// Bits of the slot's index in an operation's id. The low bits of the slot's generation follow. The
/// highest bit is never set for a slot.
const INDEX_BITS: u32 = 14;
const INDICES: u64 = (1 << INDEX_BITS) - 1;
const GENERATIONS: u64 = u64::MAX >> (INDEX_BITS + 1);
const _: () = assert!(N_SLOTS < 1 << INDEX_BITS);

/// The state of an operation in flight.
#[derive(Debug)]
pub(crate) enum Flight {
    /// A put: its request, then a flush of `rank`, and the number of flushes before it.
    Put {
        request: Request,
        rank: u32,
        n_flushes: u64,
        /// A get that was begun on the same rank after it, for a rank that waits outside of MPI.
        behind: Option<Probe>,
    },
    /// A get: its request.
    Get { request: Request },
    /// An atomic at the target: its answer. Without a place for the result it is only counted.
    Answer { from: u32, result: Option<Former> },
}

#[derive(Debug)]
struct Slot {
    /// The number of earlier operations in this slot. An operation with another generation is over,
    /// however old: it takes years until a number recurs.
    generation: u64,
    /// `None` if the slot is free.
    flight: Option<Flight>,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// The puts and gets in flight that have a slot.
    n_transfers: usize,
    /// Atomics that their targets have not answered yet, of each target and of all.
    unanswered: HashMap<u32, u32>,
    n_unanswered: usize,
}

impl Ops {
    /// A free slot for a put or a get, if there may be one more.
    pub(crate) fn reserve_for_transfer(&mut self) -> Option<usize> {
        if self.n_transfers < LIMIT {
            self.reserve()
        } else {
            None
        }
    }

    /// A free slot for an atomic, if there may be one more.
    pub(crate) fn reserve(&mut self) -> Option<usize> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        if self.slots.len() == N_SLOTS {
            return None;
        }
        self.slots.push(Slot {
            generation: 0,
            flight: None,
        });
        Some(self.slots.len() - 1)
    }

    /// Gives back a reserved slot.
    pub(crate) fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if let Some(Flight::Put { .. } | Flight::Get { .. }) = slot.flight.take() {
            self.n_transfers -= 1;
        }
        slot.generation = (slot.generation + 1) & GENERATIONS;
        self.free.push(index);
    }

    /// The id that the operation in slot `index` has.
    pub(crate) fn id(&self, index: usize) -> OpId {
        OpId(self.slots[index].generation << INDEX_BITS | (index as u64 + 1))
    }

    /// Records that the operation in slot `index` has begun.
    pub(crate) fn begin(&mut self, index: usize, flight: Flight) -> OpId {
        match flight {
            Flight::Answer { from, .. } => {
                *self.unanswered.entry(from).or_default() += 1;
                self.n_unanswered += 1;
            }
            Flight::Put { .. } | Flight::Get { .. } => self.n_transfers += 1,
        }
        let slot = &mut self.slots[index];
        slot.flight = Some(flight);
        self.id(index)
    }

    pub(crate) fn index_of(&self, op: OpId) -> Option<usize> {
        let index = usize::try_from(op.0 & INDICES).ok()?.checked_sub(1)?;
        let slot = self.slots.get(index)?;
        (op.0 >> INDEX_BITS == slot.generation && slot.flight.is_some()).then_some(index)
    }

    /// Stores the answer of an atomic's target. Its slot is free at once: a caller that never asks
    /// for the result, or asks after many more atomics, occupies none.
    pub(crate) fn answered(&mut self, from: u32, op: OpId, bits: u64) {
        let Some(index) = self.index_of(op) else {
            return;
        };
        match &mut self.slots[index].flight {
            Some(Flight::Answer {
                from: asked,
                result,
            }) if *asked == from => {
                if let Some(place) = result.take() {
                    place.set(bits);
                }
            }
            _ => return,
        }
        let n = self.unanswered.get_mut(&from);
        *n.expect("it was counted when it began") -= 1;
        self.n_unanswered -= 1;
        self.release(index);
    }

    /// Whether the answer to `op` has not come yet.
    pub(crate) fn awaits_answer(&self, op: OpId) -> bool {
        self.index_of(op)
            .is_some_and(|index| matches!(self.slots[index].flight, Some(Flight::Answer { .. })))
    }

    /// Abandons `op`: its result is not needed any more.
    pub(crate) fn abandon(&mut self, op: OpId) {
        if let Some(index) = self.index_of(op)
            && let Some(Flight::Answer { result, .. }) = &mut self.slots[index].flight
        {
            *result = None;
        }
    }

    /// Frees the slot of `op`, if MPI has finished with it.
    pub(crate) fn forget(&mut self, op: OpId) {
        let Some(index) = self.index_of(op) else {
            return;
        };
        let is_over = match &self.slots[index].flight {
            Some(Flight::Put {
                request, behind, ..
            }) => request.is_null() && behind.is_none(),
            _ => false,
        };
        if is_over {
            self.release(index);
        }
    }

    /// Whether `rank` has not answered all atomics.
    pub(crate) fn awaits(&self, rank: u32) -> bool {
        self.unanswered.get(&rank).is_some_and(|n| *n > 0)
    }

    /// Whether any rank has not answered all atomics.
    pub(crate) fn has_any(&self) -> bool {
        self.n_unanswered > 0
    }

    /// The ranks that have not answered all atomics.
    pub(crate) fn awaited(&self) -> Vec<Rank> {
        let open = self.unanswered.iter().filter(|(_, n)| **n > 0);
        let mut ranks: Vec<u32> = open.map(|(rank, _)| *rank).collect();
        ranks.sort_unstable();
        ranks.into_iter().map(Rank::new).collect()
    }

    /// Whether MPI, or the target, has answered the operation in slot `index`.
    pub(crate) fn is_answered(&mut self, mpi: &Mpi, index: usize) -> Result<bool> {
        match self.slots[index].flight.as_mut() {
            None => Ok(true),
            Some(Flight::Answer { .. }) => Ok(false),
            Some(Flight::Put { request, .. } | Flight::Get { request }) => sys::test(mpi, request),
        }
    }

    /// The get that was begun after the put in slot `index`, if there is a put.
    pub(crate) fn behind(&mut self, index: usize) -> Option<&mut Option<Probe>> {
        match &mut self.slots[index].flight {
            Some(Flight::Put { behind, .. }) => Some(behind),
            _ => None,
        }
    }

    /// The target of the put in slot `index`, the number of flushes before it, and whether a get
    /// was begun after it.
    pub(crate) fn put(&self, index: usize) -> Option<(u32, u64, bool)> {
        match &self.slots[index].flight {
            Some(Flight::Put {
                rank,
                n_flushes,
                behind,
                ..
            }) => Some((*rank, *n_flushes, behind.is_some())),
            _ => None,
        }
    }
}

/// A put or get without a request of MPI: its target, and the number of flushes before it, in one
/// id. The highest bit tells it from a slot's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) is_get: bool,
    pub(crate) rank: u32,
    /// Flushes, for a get local ones. Their low bits: the number may come again only if the
    /// operation outlasts 2^38 flushes of its target, and then it is flushed once more.
    pub(crate) n_flushes: u64,
}

impl Plain {
    const MARK: u64 = 1 << 63;
    const GET: u64 = 1 << 62;
    const FLUSH_BITS: u32 = 38;
    const FLUSHES: u64 = (1 << Self::FLUSH_BITS) - 1;

    #[inline]
    pub(crate) fn id(self) -> OpId {
        let kind = if self.is_get { Self::GET } else { 0 };
        let rank = u64::from(self.rank) << Self::FLUSH_BITS;
        OpId(Self::MARK | kind | rank | (self.n_flushes & Self::FLUSHES))
    }

    #[inline]
    pub(crate) fn of(op: OpId) -> Option<Self> {
        let rank = (op.0 & !(Self::MARK | Self::GET)) >> Self::FLUSH_BITS;
        (op.0 & Self::MARK != 0).then_some(Self {
            is_get: op.0 & Self::GET != 0,
            rank: u32::try_from(rank).ok()?,
            n_flushes: op.0 & Self::FLUSHES,
        })
    }

    /// Whether it is complete after `n_flushes` flushes, since one of them came after it.
    pub(crate) fn is_complete(self, n_flushes: u64) -> bool {
        n_flushes & Self::FLUSHES != self.n_flushes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_atomic_that_nobody_asks_for_frees_its_slot_when_it_is_answered() {
        let mut ops = Ops::default();
        let index = ops.reserve().unwrap();
        let op = ops.begin(
            index,
            Flight::Answer {
                from: 1,
                result: None,
            },
        );
        assert!(ops.has_any());
        ops.answered(1, op, 0);
        assert!(!ops.has_any());
        assert_eq!(ops.reserve(), Some(index));
    }

    #[test]
    fn an_answer_counts_once_and_of_the_rank_that_was_asked_alone() {
        let mut ops = Ops::default();
        let mut begin = |from| {
            let index = ops.reserve().unwrap();
            let op = ops.begin(index, Flight::Answer { from, result: None });
            (op, from)
        };
        let begun = [begin(1), begin(1), begin(2)];
        for (i, (op, from)) in begun.into_iter().enumerate() {
            ops.answered(3, op, 0);
            assert!(ops.awaits(from) && ops.awaits_answer(op));
            ops.answered(from, op, 0);
            ops.answered(from, op, 0);
            assert!(!ops.awaits_answer(op));
            assert_eq!(ops.has_any(), i < 2);
        }
        assert_eq!(ops.awaited(), []);
    }

    #[test]
    fn the_table_has_a_limit() {
        let mut ops = Ops::default();
        assert!((0..N_SLOTS).all(|index| ops.reserve() == Some(index)));
        assert_eq!((ops.reserve(), ops.reserve_for_transfer()), (None, None));
        ops.release(5);
        assert_eq!(ops.reserve(), Some(5));
    }

    #[test]
    fn puts_and_gets_that_nobody_waits_for_leave_slots_to_atomics() {
        let mut ops = Ops::default();
        let get = || Flight::Get {
            request: Request::null(),
        };
        for _ in 0..LIMIT {
            let index = ops.reserve_for_transfer().unwrap();
            ops.begin(index, get());
        }
        assert_eq!(ops.reserve_for_transfer(), None);
        for index in LIMIT..N_SLOTS {
            assert_eq!(ops.reserve(), Some(index), "a slot for an atomic");
        }
        ops.release(7);
        assert_eq!(ops.reserve_for_transfer(), Some(7));
        ops.begin(7, get());
        assert_eq!(ops.reserve_for_transfer(), None);
    }

    #[test]
    fn an_operation_without_a_slot_is_known_by_its_target_and_its_flushes() {
        let largest = 1 << 24;
        for (rank, n_flushes) in [(0, 0), (5, 77), (largest - 1, u64::MAX), (3, 1 << 38)] {
            for is_get in [false, true] {
                let plain = Plain {
                    is_get,
                    rank,
                    n_flushes,
                };
                let read = Plain::of(plain.id()).unwrap();
                assert_eq!((read.is_get, read.rank), (is_get, rank));
                assert!(!read.is_complete(n_flushes));
                assert!(read.is_complete(n_flushes.wrapping_add(1)));
            }
        }
        let mut ops = Ops::default();
        let index = ops.reserve().unwrap();
        ops.slots[index].generation = GENERATIONS;
        assert_eq!(Plain::of(ops.id(index)), None);
        ops.release(index);
        assert_eq!(Plain::of(ops.id(index)), None);
    }
}
