//! Operations in flight: a table whose places are used again.
#![expect(
    unsafe_code,
    reason = "writes results where their owner waits for them"
)]

use std::collections::HashMap;
use std::thread;

use pgas_core::backend::{OpId, Stage};
use pgas_core::{Rank, Result};

use crate::network::{Network, State};
use crate::session::c_rank;
use crate::sys::{self, Mpi, Request};

/// Operations that may be in flight; the next one is complete when it has begun.
const LIMIT: usize = 4096;

/// Where a result goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(*mut u64);

// SAFETY: the place is written by whichever thread finds the operation complete, while its owner waits.
unsafe impl Send for Place {}

impl Place {
    /// # Safety
    ///
    /// `at` may be written until the operation that it belongs to is reported complete.
    pub(crate) unsafe fn new(at: *mut u64) -> Self {
        Self(at)
    }

    fn set(self, bits: u64) {
        // SAFETY: whoever made the place promised that it may be written until the operation is reported
        // complete, which comes after this.
        unsafe { self.0.write(bits) };
    }
}

/// What an operation waits for.
#[derive(Debug)]
pub(crate) enum Flight {
    /// A put: its request, then a flush of `rank` that was begun after it.
    Put { request: Request, rank: Rank },
    /// A get: its request.
    Get { request: Request },
    /// An atomic by MPI: its request, then the result is copied. The operand and the former bits are the slot's words.
    Fetch {
        request: Request,
        bytes: usize,
        result: Place,
    },
    /// An atomic at the target: the answer. Without a place nobody asks for it, and it is only counted.
    Answer { from: u32, result: Option<Place> },
    /// Nothing any more.
    Done,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    /// When it began, in the order of the rank's operations.
    number: u64,
    /// `None` if the slot is free.
    flight: Option<Flight>,
    /// An operand and a result, which MPI reads and writes.
    words: Vec<u64>,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Operations begun.
    n_begun: u64,
    /// For each target, the number of operations begun when it was last flushed.
    flushed: HashMap<u32, u64>,
    /// Atomics that their targets have not answered yet.
    unanswered: HashMap<u32, u32>,
}

impl Ops {
    /// A free slot, if there may be one more operation.
    pub(crate) fn reserve(&mut self) -> Option<usize> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        if self.slots.len() == LIMIT {
            return None;
        }
        self.slots.push(Slot {
            generation: 0,
            number: 0,
            flight: None,
            words: vec![0; 2],
        });
        Some(self.slots.len() - 1)
    }

    /// Gives back what [`reserve`](Self::reserve) gave.
    pub(crate) fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.flight = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
    }

    /// The words of a slot: operand and result.
    pub(crate) fn words(&mut self, index: usize) -> *mut u64 {
        self.slots[index].words.as_mut_ptr()
    }

    /// The id that the operation in slot `index` has.
    pub(crate) fn id(&self, index: usize) -> OpId {
        let generation = u64::from(self.slots[index].generation);
        OpId(generation << 32 | (index as u64 + 1))
    }

    /// The operation in slot `index` has begun.
    pub(crate) fn begin(&mut self, index: usize, flight: Flight) -> OpId {
        self.n_begun += 1;
        if let Flight::Answer { from, .. } = flight {
            *self.unanswered.entry(from).or_default() += 1;
        }
        let slot = &mut self.slots[index];
        slot.number = self.n_begun;
        slot.flight = Some(flight);
        self.id(index)
    }

    fn index_of(&self, op: OpId) -> Option<usize> {
        let index = usize::try_from(op.0 & 0xffff_ffff).ok()?.checked_sub(1)?;
        let slot = self.slots.get(index)?;
        (op.0 >> 32 == u64::from(slot.generation) && slot.flight.is_some()).then_some(index)
    }

    /// The answer of an atomic's target.
    pub(crate) fn answered(&mut self, from: u32, op: OpId, bits: u64) {
        let Some(index) = self.index_of(op) else {
            return;
        };
        if let Some(n) = self.unanswered.get_mut(&from) {
            *n = n.saturating_sub(1);
        }
        let slot = &mut self.slots[index];
        match slot.flight.replace(Flight::Done) {
            Some(Flight::Answer { result: None, .. }) => self.release(index),
            Some(Flight::Answer {
                result: Some(place),
                ..
            }) => place.set(bits),
            other => slot.flight = other,
        }
    }

    /// Whether the answer to `op` has not come yet.
    pub(crate) fn awaits_answer(&self, op: OpId) -> bool {
        self.index_of(op)
            .is_some_and(|index| matches!(self.slots[index].flight, Some(Flight::Answer { .. })))
    }

    /// Nobody waits for the result of `op` any more.
    pub(crate) fn abandon(&mut self, op: OpId) {
        if let Some(index) = self.index_of(op)
            && let Some(Flight::Answer { result, .. }) = &mut self.slots[index].flight
        {
            *result = None;
        }
    }

    /// Gives up the slot of `op`, if MPI does nothing with it any more.
    pub(crate) fn forget(&mut self, op: OpId) {
        let Some(index) = self.index_of(op) else {
            return;
        };
        let is_over = match &self.slots[index].flight {
            Some(Flight::Done) => true,
            Some(Flight::Put { request, .. }) => request.is_null(),
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

    /// Whether any rank has not.
    pub(crate) fn has_any(&self) -> bool {
        self.unanswered.values().any(|n| *n > 0)
    }

    /// Whether `op` has reached `stage`; a complete operation gives up its slot.
    fn test(
        &mut self,
        mpi: &Mpi,
        op: OpId,
        stage: Stage,
        flush: impl FnOnce(&Mpi, Rank) -> Result<()>,
    ) -> Result<bool> {
        let Some(index) = self.index_of(op) else {
            return Ok(true);
        };
        let n_begun = self.n_begun;
        let slot = &mut self.slots[index];
        let tested = match slot.flight.as_mut() {
            None | Some(Flight::Done) => Ok(true),
            Some(Flight::Answer { .. }) => return Ok(false),
            Some(
                Flight::Put { request, .. }
                | Flight::Get { request }
                | Flight::Fetch { request, .. },
            ) => sys::test(mpi, request),
        };
        if let Ok(false) = tested {
            return Ok(false);
        }
        if stage == Stage::Source && tested.is_ok() {
            return Ok(true);
        }
        let over = tested.and_then(|_| match slot.flight.as_ref() {
            Some(Flight::Put { rank, .. }) => {
                let flushed = self.flushed.entry(rank.number()).or_default();
                if *flushed >= slot.number {
                    return Ok(());
                }
                flush(mpi, *rank)?;
                *flushed = n_begun;
                Ok(())
            }
            Some(Flight::Fetch { bytes, result, .. }) => {
                result.set(unpack(slot.words[1], *bytes));
                Ok(())
            }
            _ => Ok(()),
        });
        self.release(index);
        over.map(|()| true)
    }
}

impl Network {
    pub(crate) fn has_reached(&self, op: OpId, stage: Stage) -> Result<bool> {
        let mut state = self.state();
        let mpi = sys::enter()?;
        self.test_op(&mut state, &mpi, op, stage)
    }

    fn test_op(&self, state: &mut State, mpi: &Mpi, op: OpId, stage: Stage) -> Result<bool> {
        state.ops.test(mpi, op, stage, |mpi, rank| {
            sys::flush(mpi, &self.window, c_rank(rank.number()))
        })
    }

    /// Waits until `op` has reached `stage`, outside of MPI, so that others get the processor meanwhile; the
    /// operation is given up. As MPI's own waits, it does not look at the job's health: until the end of the
    /// operation its buffers are MPI's.
    pub(crate) fn wait_politely(&self, op: OpId, stage: Stage) -> Result<()> {
        if op == OpId::DONE {
            return Ok(());
        }
        loop {
            {
                let mut state = self.state();
                let mpi = sys::enter()?;
                let tested = self.test_op(&mut state, &mpi, op, stage);
                if !matches!(tested, Ok(false)) {
                    state.ops.forget(op);
                    return tested.map(drop);
                }
            }
            thread::yield_now();
        }
    }
}

/// The word that has the low `bytes` bytes of `bits` at its beginning.
pub(crate) fn pack(bits: u64, bytes: usize) -> u64 {
    if bytes == 8 || cfg!(target_endian = "little") {
        bits
    } else {
        bits << 32
    }
}

/// The number in the first `bytes` bytes of `word`.
pub(crate) fn unpack(word: u64, bytes: usize) -> u64 {
    match (bytes, cfg!(target_endian = "little")) {
        (4, true) => word & 0xffff_ffff,
        (4, false) => word >> 32,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_under_other_ids() {
        let mut ops = Ops::default();
        let mut former = 0;
        let mut ids = Vec::new();
        for bits in 1..10 {
            let index = ops.reserve().unwrap();
            // SAFETY: `former` lives as long as the table.
            let place = unsafe { Place::new(&raw mut former) };
            let op = ops.begin(
                index,
                Flight::Answer {
                    from: 3,
                    result: Some(place),
                },
            );
            assert!(ops.awaits(3) && !ops.awaits(2));
            ops.answered(3, op, bits);
            assert!(!ops.awaits(3));
            assert_eq!(former, bits);
            assert_eq!(index, 0, "the only slot");
            ops.release(index);
            assert!(ops.index_of(op).is_none());
            ids.push(op);
        }
        ids.dedup();
        assert_eq!(ids.len(), 9);
    }

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
    fn the_table_has_a_limit() {
        let mut ops = Ops::default();
        assert!((0..LIMIT).all(|index| ops.reserve() == Some(index)));
        assert_eq!(ops.reserve(), None);
        ops.release(5);
        assert_eq!(ops.reserve(), Some(5));
    }

    #[test]
    fn words_of_four_bytes_survive_packing() {
        assert_eq!(unpack(pack(0xdead_beef, 4), 4), 0xdead_beef);
        assert_eq!(unpack(pack(u64::MAX, 8), 8), u64::MAX);
        assert_eq!(unpack(u64::MAX, 4), 0xffff_ffff);
    }
}
