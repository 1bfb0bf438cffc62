//! Slots behind a network, for operations in flight, whose steps are [recorded](crate::replay).

use std::cell::Cell;
use std::sync::Arc;

use pgas_core::atomics::Atomic;
use pgas_core::backend::{AtomicOp, SignalUpdate};
use pgas_core::{GlobalPtr, Pod, Result};
use pgas_lockfree::slots::state::StateWord;

use super::PartAt;
use super::place::{Place, WordOp};
use crate::object::Heap;
use crate::replay::{Answer, Record};

/// The steps of one operation on slots and on the memory of long keys and values.
pub(in super::super) struct Journal {
    record: Arc<Record>,
    heap: Heap,
    /// Whether the run has come to a step that takes a free slot.
    claims: Cell<bool>,
    /// Whether no rank writes in this phase: then a step reads a whole block.
    is_read_only: bool,
    /// The block that this run has read last, and in which step.
    block: Cell<Option<(GlobalPtr<u8>, usize)>>,
    /// The step at which the present probe began, and the number of blocks that it has passed.
    probe: Cell<(usize, usize)>,
}

impl Journal {
    /// A journal of an operation in a phase in which ranks write, or not.
    pub(in super::super) fn new(heap: &Arc<Heap>, is_read_only: bool) -> Self {
        let record = Arc::default();
        Self {
            heap: Heap::replayed(heap, &record),
            record,
            claims: Cell::new(false),
            is_read_only,
            block: Cell::new(None),
            probe: Cell::default(),
        }
    }

    /// A journal whose operation stops before it changes slots.
    pub(in super::super) fn held(heap: &Arc<Heap>, is_read_only: bool) -> Self {
        let journal = Self::new(heap, is_read_only);
        journal.record.hold(true);
        journal
    }

    /// Lets the operation change slots.
    pub(in super::super) fn let_go(&self) {
        self.record.hold(false);
    }

    /// Begins the next run. Returns `false` if the step in flight is not complete.
    pub(in super::super) fn rewind(&self) -> bool {
        let is_next = self.record.rewind();
        if is_next {
            self.claims.set(false);
            self.block.set(None);
        }
        is_next
    }

    pub(in super::super) fn record(&self) -> &Record {
        &self.record
    }

    /// The memory of long keys and values, as the operation uses it.
    pub(in super::super) fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Whether the operation takes a free slot, which another one may have taken by now.
    pub(in super::super) fn claims(&self) -> bool {
        self.claims.get()
    }

    /// Begins a probe. Returns the number of blocks that it has passed in the runs before.
    pub(super) fn begin_probe(&self) -> usize {
        let first = self.record.n_taken();
        let n_blocks = self.record.merged().unwrap_or(0);
        self.probe.set((first, n_blocks));
        n_blocks
    }

    /// Notes the number of blocks that the probe has passed. Later runs go on there, so that the
    /// time of a long probe does not grow with the square of its length. In a phase without writers
    /// all slots of a block are one step.
    pub(super) fn pass(&self, n_blocks: usize) {
        let (first, n_before) = self.probe.get();
        // A probe that begins again passes the first blocks once more, which are merged already.
        if n_blocks > n_before {
            self.record.merge(first, n_blocks);
            self.probe.set((first, n_blocks));
            self.block.set(None);
        }
    }

    /// Notes that the run has come to a step that takes a free slot.
    pub(super) fn note_claim(&self) {
        self.claims.set(true);
    }
}

/// An operation that is given up before it changes slots, as one before it has failed, leaves no
/// long key or value behind.
impl Drop for Journal {
    fn drop(&mut self) {
        self.heap.release_unused();
    }
}

/// Steps on a slot at a place, as those of [`Access`](super::Access).
impl Journal {
    /// Writes the part, then the state.
    pub(super) fn try_publish<T: Pod>(
        &self,
        place: Place<'_>,
        at: PartAt,
        value: T,
        state: StateWord,
    ) -> Result<()> {
        let (part, world) = (place.part::<T>(at.offset), place.world);
        let offset = at.state.offset;
        if at.state.is_narrow {
            let put = || part.put_nb(world, value);
            self.record.take(true, put, |()| Answer::Written)?;
            self.on_word(place, offset, WordOp::Fetch(AtomicOp::Swap, state.narrow()))?;
            return Ok(());
        }
        let update = SignalUpdate::Set(state.to_bits());
        let put = || part.put_signal_nb(world, vec![value], place.part(offset), update);
        self.record.take(true, put, |_| Answer::Written)?;
        Ok(())
    }

    pub(super) fn get<T: Pod>(&self, place: Place<'_>, offset: usize) -> Result<T> {
        let value = |bytes: &[u8]| T::read_from_bytes(bytes).expect("as many bytes");
        let len = size_of::<T>();
        if !self.is_read_only {
            let begin = || place.part::<u8>(offset).get_vec_nb(place.world, len);
            return Ok(self.record.read(begin, value)?.1);
        }
        let part = |block: &[u8]| value(&block[offset..offset + len]);
        if let Some((block, number)) = self.block.get()
            && block == place.at
        {
            return Ok(self.record.read_again(number, part));
        }
        let begin = || place.at.get_vec_nb(place.world, place.len);
        let (number, value) = self.record.read(begin, part)?;
        self.block.set(Some((place.at, number)));
        Ok(value)
    }

    pub(super) fn on_word<W: Atomic>(
        &self,
        place: Place<'_>,
        offset: usize,
        op: WordOp<W>,
    ) -> Result<W> {
        if self.is_read_only {
            debug_assert!(
                matches!(op, WordOp::Fetch(AtomicOp::Load, _)),
                "nobody writes"
            );
            return self.get(place, offset);
        }
        let (word, world) = (place.part::<W>(offset), place.world);
        let number = match op {
            WordOp::Fetch(op, operand) => {
                let begin = || word.fetch_op_nb(world, op, operand);
                let answer = |former: W| Answer::Word(former.to_bits());
                self.record.take(op != AtomicOp::Load, begin, answer)?
            }
            WordOp::CompareExchange(current, new) => {
                let begin = || word.compare_exchange_nb(world, current, new);
                self.record.take(true, begin, |swapped| {
                    let (Ok(former) | Err(former)) = swapped;
                    Answer::Swapped(W::to_bits(former))
                })?
            }
        };
        Ok(self.record.with(number, |answer| match answer {
            Answer::Word(bits) | Answer::Swapped(bits) => W::from_bits(*bits),
            _ => unreachable!("a run takes the steps of the one before"),
        }))
    }
}
