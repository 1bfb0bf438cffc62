//! Atomics: all by MPI, or all by the CPU of the rank that has the word.
//!
//! **By MPI** (`PGAS_DIRECT=0`) every atomic, also one on a rank's own words, is `MPI_Fetch_and_op`,
//! `MPI_Accumulate` or `MPI_Compare_and_swap`. The standard defines concurrent ones on one location only for equal
//! operations and `MPI_NO_OP`, so that the [window](crate::window) has hints by which the libraries themselves define any
//! mixture. Both are so without hints, too: Open MPI's `pt2pt` and MPICH execute each one in the target's progress engine,
//! `sm`, `rdma` and `ucx` under a lock of the target. The tests hammer one word with different operations, and read back
//! what became of the hints.
//!
//! **At the target** (with the direct path, and without it where MPI's compare-and-swap is not to be trusted) it is a note with the operation, which the target executes with a
//! CPU atomic when it makes progress, and a note with the former bits. Several may be on their way; a flush waits
//! for the answers.
#![expect(
    unsafe_code,
    reason = "calls MPI and CPU atomics on words that core has checked"
)]

use pgas_core::backend::{
    AtomicCall, AtomicOp, AtomicType, Backend, OpId, RemoteAddr, SignalUpdate, Stage, SwapCall,
};
use pgas_core::raw::word;
use pgas_core::{Rank, Result};

use crate::limits::Awaited;
use crate::network::{Network, State};
use crate::note::{Note, Order};
use crate::ops::{Flight, Place, pack, unpack};
use crate::session::c_rank;
use crate::sys::{self, Datatype, Layout, Mode, Mpi, Op, Request, Target};

/// The atomic that a signal is.
pub(crate) fn call_of(update: SignalUpdate) -> AtomicCall {
    let (op, operand) = match update {
        SignalUpdate::Set(value) => (AtomicOp::Swap, value),
        SignalUpdate::Add(value) => (AtomicOp::Add, value),
    };
    AtomicCall {
        op,
        ty: AtomicType::U64,
        operand,
    }
}

/// How MPI does an atomic in one call, if it does.
fn mpi_op(call: AtomicCall, compares_unsigned: bool) -> Option<(Op, &'static Datatype)> {
    let op = match call.op {
        AtomicOp::Load => Op::Nothing,
        AtomicOp::Swap => Op::Replace,
        AtomicOp::Add => Op::Sum,
        AtomicOp::And => Op::And,
        AtomicOp::Or => Op::Or,
        AtomicOp::Xor => Op::Xor,
        // MPI does not say what becomes of NaN.
        AtomicOp::Min | AtomicOp::Max if matches!(call.ty, AtomicType::F32 | AtomicType::F64) => {
            return None;
        }
        AtomicOp::Min | AtomicOp::Max
            if matches!(call.ty, AtomicType::U32 | AtomicType::U64) && !compares_unsigned =>
        {
            return None;
        }
        AtomicOp::Min => Op::Min,
        AtomicOp::Max => Op::Max,
    };
    let is_number = matches!(op, Op::Sum | Op::Min | Op::Max);
    let ty = match (call.ty, is_number) {
        // Adding wraps around only for unsigned integers.
        (AtomicType::I32, true) if op != Op::Sum => Datatype::int32(),
        (AtomicType::I64, true) if op != Op::Sum => Datatype::int64(),
        (AtomicType::F32, true) => Datatype::float(),
        (AtomicType::F64, true) => Datatype::double(),
        (ty, _) => bits_of(ty),
    };
    Some((op, ty))
}

/// The unsigned integer as wide as `ty`.
fn bits_of(ty: AtomicType) -> &'static Datatype {
    if ty.bytes() == 4 {
        Datatype::uint32()
    } else {
        Datatype::uint64()
    }
}

fn target_of(at: RemoteAddr) -> Target {
    Target {
        rank: c_rank(at.rank.number()),
        offset: at.offset,
    }
}

impl Network {
    /// # Safety
    ///
    /// As [`Backend::atomic`].
    pub(crate) unsafe fn update(&self, target: RemoteAddr, call: AtomicCall) -> Result<()> {
        if self.at_target {
            // SAFETY: `send_order` asks, as this function, for an aligned word of the call's type
            // in a segment.
            return unsafe { self.send_order(target, Order::Fetch(call)) };
        }
        let Some((op, ty)) = mpi_op(call, self.compares_unsigned) else {
            // SAFETY: `fetch` asks, as this function, for an aligned word of the call's type in a
            // segment.
            return unsafe { self.fetch(target, call) }.map(drop);
        };
        if op == Op::Nothing {
            // Accumulating knows no such operation, and there is nothing to do.
            return Ok(());
        }
        if self.is_polite {
            // SAFETY: `fetch` asks, as this function, for an aligned word of the call's type in a
            // segment.
            return unsafe { self.fetch(target, call) }.map(drop);
        }
        let operand = pack(call.operand, call.ty.bytes());
        let mut mpi = sys::enter()?;
        let place = target_of(target);
        self.turn_to(&mut mpi, target.rank.number())?;
        // SAFETY: the caller promises the target; the operand outlives the local completion below.
        unsafe { sys::accumulate(&mpi, &self.window, (op, ty), place, &raw const operand) }?;
        self.flushes.get(&mut mpi).begin(target.rank.number());
        self.flush_here(&mut mpi, target.rank.number())
    }

    /// # Safety
    ///
    /// As [`Backend::fetch_atomic`].
    pub(crate) unsafe fn fetch(&self, target: RemoteAddr, call: AtomicCall) -> Result<u64> {
        if self.at_target {
            // SAFETY: `order` asks, as this function, for an aligned word of the call's type in a
            // segment.
            return unsafe { self.order(target, Order::Fetch(call)) };
        }
        if self.is_polite {
            let mut former = 0;
            // SAFETY: the caller promises the word. `former` can be written until this returns,
            // which is after `wait_politely` has seen that the operation is complete.
            let begun = unsafe { self.begin_fetch(target, call, &raw mut former) }?;
            self.wait_politely(begun, Stage::Operation)?;
            return Ok(former);
        }
        // SAFETY: `fetch_inside` asks, as this function, for an aligned word of the call's type in
        // a segment.
        unsafe { self.fetch_inside(target, call) }
    }

    /// As [`fetch`](Self::fetch) by MPI, waiting inside of it.
    ///
    /// # Safety
    ///
    /// As [`Backend::fetch_atomic`].
    unsafe fn fetch_inside(&self, target: RemoteAddr, call: AtomicCall) -> Result<u64> {
        let Some((op, ty)) = mpi_op(call, self.compares_unsigned) else {
            // SAFETY: `fetch_by_swaps` asks, as this function, for an aligned word of the call's
            // type in a segment.
            return unsafe { self.fetch_by_swaps(target, call) };
        };
        let bytes = call.ty.bytes();
        let operand = pack(call.operand, bytes);
        let mut former = 0;
        let mut mpi = sys::enter()?;
        let place = target_of(target);
        let (from, to) = (&raw const operand, &raw mut former);
        self.turn_to(&mut mpi, target.rank.number())?;
        // SAFETY: the caller promises the target; both words outlive the local completion below.
        unsafe { sys::fetch_and_op(&mpi, &self.window, (op, ty), place, from, to) }?;
        self.note_atomic(&mut mpi, op, target.rank);
        self.flush_here(&mut mpi, target.rank.number())?;
        Ok(unpack(former, bytes))
    }

    /// An atomic has begun, which a flush has to complete unless it only reads.
    fn note_atomic(&self, mpi: &mut Mpi, op: Op, rank: Rank) {
        if op != Op::Nothing {
            self.flushes.get(mpi).begin(rank.number());
        }
    }

    /// What MPI has no operation for: tries to replace what was seen by what should be there then.
    ///
    /// # Safety
    ///
    /// As [`Backend::fetch_atomic`].
    unsafe fn fetch_by_swaps(&self, target: RemoteAddr, call: AtomicCall) -> Result<u64> {
        let ty = call.ty;
        let load = AtomicCall {
            op: AtomicOp::Load,
            ..call
        };
        // SAFETY: `fetch` asks, as this function, for an aligned word of the call's type in a
        // segment.
        let mut expected = unsafe { self.fetch(target, load) }?;
        loop {
            let desired = word::apply(expected, call);
            if desired == expected {
                return Ok(expected);
            }
            let swap = SwapCall {
                ty,
                expected,
                desired,
            };
            // SAFETY: `swap` asks, as this function, for an aligned word of the call's type in a
            // segment.
            let former = unsafe { self.swap(target, swap) }?;
            if former == expected {
                return Ok(former);
            }
            expected = former;
        }
    }

    /// # Safety
    ///
    /// As [`Backend::compare_swap`].
    pub(crate) unsafe fn swap(&self, target: RemoteAddr, call: SwapCall) -> Result<u64> {
        if self.at_target {
            // SAFETY: `order` asks, as this function, for an aligned word of the call's type in a
            // segment.
            return unsafe { self.order(target, Order::Swap(call)) };
        }
        let bytes = call.ty.bytes();
        let (expected, desired) = (pack(call.expected, bytes), pack(call.desired, bytes));
        let mut former = 0;
        let mut mpi = sys::enter()?;
        let place = target_of(target);
        let (from, to) = ((&raw const expected, &raw const desired), &raw mut former);
        let ty = bits_of(call.ty);
        self.turn_to(&mut mpi, target.rank.number())?;
        // SAFETY: the caller promises the target; the words outlive the local completion below.
        unsafe { sys::compare_and_swap(&mpi, &self.window, ty, place, from, to) }?;
        self.flushes.get(&mut mpi).begin(target.rank.number());
        if self.is_polite {
            drop(mpi);
            let approached = self.approach(&[target.rank]);
            mpi = sys::enter()?;
            self.flush_here(&mut mpi, target.rank.number())?;
            approached?;
        } else {
            self.flush_here(&mut mpi, target.rank.number())?;
        }
        Ok(unpack(former, bytes))
    }

    /// Begins to read the first word of `rank`, in a way that its progress answers, after what was begun before.
    ///
    /// # Safety
    ///
    /// Two words are writable at `words` until the request is complete.
    pub(crate) unsafe fn begin_probe(
        &self,
        mpi: &Mpi,
        rank: u32,
        words: *mut u64,
    ) -> Result<Request> {
        let first = Target {
            rank: c_rank(rank),
            offset: 0,
        };
        if self.at_target {
            let byte = Datatype::byte();
            let word = Layout { count: 8, ty: byte };
            // SAFETY: every segment has a first word, and the caller promises the other place.
            return unsafe { sys::rget(mpi, &self.window, words.cast(), first, word) };
        }
        // A get may be done by this process's CPU alone, where MPI has the target's memory.
        let by = (Op::Nothing, Datatype::uint64());
        // SAFETY: the caller promises two words.
        let former = unsafe { words.add(1) };
        // SAFETY: every segment has a first word, which is aligned, and the caller promises both
        // words until the request is complete.
        unsafe { sys::rget_accumulate(mpi, &self.window, by, first, words, former) }
    }

    /// # Safety
    ///
    /// As [`Backend::fetch_atomic_nb`].
    pub(crate) unsafe fn begin_fetch(
        &self,
        target: RemoteAddr,
        call: AtomicCall,
        result: *mut u64,
    ) -> Result<OpId> {
        if self.at_target {
            // SAFETY: `begin_order` asks, as this function, for an aligned word in a segment, and a
            // result that can be written until the operation is reported.
            return unsafe { self.begin_order(target, Order::Fetch(call), result) };
        }
        let mut state = self.state();
        let slot =
            mpi_op(call, self.compares_unsigned).and_then(|by| Some((by, state.ops.reserve()?)));
        let Some(((op, ty), index)) = slot else {
            drop(state);
            // SAFETY: `fetch_inside` asks, as this function, for an aligned word of the call's type
            // in a segment.
            let former = unsafe { self.fetch_inside(target, call) }?;
            // SAFETY: the caller promises that `result` may be written.
            unsafe { result.write(former) };
            return Ok(OpId::DONE);
        };
        let bytes = call.ty.bytes();
        let operand = state.ops.words(index);
        // SAFETY: the slot has two words, which are its operation's from here on.
        unsafe { operand.write(pack(call.operand, bytes)) };
        // SAFETY: the second of the two.
        let former = unsafe { operand.add(1) };
        let mut mpi = sys::enter()?;
        let (by, place) = ((op, ty), target_of(target));
        if let Err(error) = self.turn_to(&mut mpi, target.rank.number()) {
            state.ops.release(index);
            return Err(error);
        }
        // SAFETY: the caller promises the target; the slot's words stay until the operation is complete.
        let begun = unsafe { sys::rget_accumulate(&mpi, &self.window, by, place, operand, former) };
        match begun {
            Ok(request) => {
                self.note_atomic(&mut mpi, op, target.rank);
                // SAFETY: the caller promises that `result` may be written until completion.
                let result = unsafe { Place::new(result) };
                let flight = Flight::Fetch {
                    request,
                    bytes,
                    result,
                };
                Ok(state.ops.begin(index, flight))
            }
            Err(error) => {
                state.ops.release(index);
                Err(error)
            }
        }
    }

    /// # Safety
    ///
    /// As [`Backend::compare_swap_nb`].
    pub(crate) unsafe fn begin_swap(
        &self,
        target: RemoteAddr,
        call: SwapCall,
        result: *mut u64,
    ) -> Result<OpId> {
        if self.at_target {
            // SAFETY: `begin_order` asks, as this function, for an aligned word in a segment, and a
            // result that can be written until the operation is reported.
            return unsafe { self.begin_order(target, Order::Swap(call), result) };
        }
        // MPI has no compare-and-swap with a request.
        // SAFETY: `swap` asks, as this function, for an aligned word of the call's type in a
        // segment.
        let former = unsafe { self.swap(target, call) }?;
        // SAFETY: the caller promises that `result` may be written.
        unsafe { result.write(former) };
        Ok(OpId::DONE)
    }

    /// An atomic at its target, with the result.
    ///
    /// # Safety
    ///
    /// The word at `target` is aligned and lies in a segment of the job.
    unsafe fn order(&self, target: RemoteAddr, order: Order) -> Result<u64> {
        let mut former = 0;
        // SAFETY: the caller promises the word. `former` can be written until this returns, which
        // is after the answer, or after `abandon`, which sees to it that the answer is not written.
        let op = unsafe { self.begin_order(target, order, &raw mut former) }?;
        if op != OpId::DONE {
            let missing = || vec![target.rank];
            let awaited = Awaited {
                what: "the answer to an atomic",
                missing: &missing,
            };
            let answered = self.wait(awaited, |state, _| Ok(!state.ops.awaits_answer(op)));
            let mut state = self.state();
            if answered.is_err() {
                state.ops.abandon(op);
            }
            state.ops.forget(op);
            answered?;
        }
        Ok(former)
    }

    /// An atomic at its target, without a result: the next flush waits for it.
    ///
    /// # Safety
    ///
    /// As [`order`](Self::order).
    unsafe fn send_order(&self, target: RemoteAddr, order: Order) -> Result<()> {
        if let Some(near) = self.near_word(target) {
            // SAFETY: the caller promises the word.
            unsafe { self.execute_near(near, order) };
            return Ok(());
        }
        self.begin_note(target, order, None).map(drop)
    }

    /// # Safety
    ///
    /// As [`order`](Self::order), and `result` may be written until the operation is complete.
    unsafe fn begin_order(
        &self,
        target: RemoteAddr,
        order: Order,
        result: *mut u64,
    ) -> Result<OpId> {
        if let Some(near) = self.near_word(target) {
            // SAFETY: the caller promises the word.
            let former = unsafe { self.execute_near(near, order) };
            // SAFETY: the caller promises that `result` may be written.
            unsafe { result.write(former) };
            return Ok(OpId::DONE);
        }
        // SAFETY: the caller promises that `result` may be written until completion.
        let place = unsafe { Place::new(result) };
        self.begin_note(target, order, Some(place))
    }

    /// Tells the target; waits for answers to earlier atomics if too many are on their way.
    fn begin_note(&self, target: RemoteAddr, order: Order, result: Option<Place>) -> Result<OpId> {
        let from = target.rank.number();
        let mut op = OpId::DONE;
        let missing = || self.state().ops.awaited();
        let awaited = Awaited {
            what: "answers to earlier atomics",
            missing: &missing,
        };
        self.wait(awaited, |state, mpi| {
            let Some(index) = state.ops.reserve() else {
                return Ok(false);
            };
            let note = Note::Execute {
                id: state.ops.id(index).0,
                offset: target.offset,
                order,
            };
            if let Err(error) = state.post.tell(mpi, from, &note, Mode::Plain) {
                state.ops.release(index);
                return Err(error);
            }
            op = state.ops.begin(index, Flight::Answer { from, result });
            Ok(true)
        })?;
        Ok(op)
    }

    /// Executes an atomic that another rank has ordered, on this rank's own segment.
    ///
    /// # Safety
    ///
    /// The word at `offset` is aligned and lies in this rank's segment.
    pub(crate) unsafe fn execute(&self, offset: u64, order: Order) -> u64 {
        let rank = Rank::new(self.host.index());
        // SAFETY: the caller promises the word.
        unsafe { self.execute_near(RemoteAddr { rank, offset }, order) }
    }

    /// # Safety
    ///
    /// `near` is an aligned word in a segment of this host.
    unsafe fn execute_near(&self, near: RemoteAddr, order: Order) -> u64 {
        let done = match order {
            // SAFETY: the caller promises the word.
            Order::Fetch(call) => unsafe { self.member.fetch_atomic(near, call) },
            // SAFETY: the caller promises the word.
            Order::Swap(call) => unsafe { self.member.compare_swap(near, call) },
        };
        done.expect("a CPU atomic on mapped memory cannot fail")
    }

    /// Waits until `rank` has answered all atomics.
    pub(crate) fn await_answers(&self, rank: Option<u32>) -> Result<()> {
        if !self.at_target {
            return Ok(());
        }
        let is_open = |state: &State| match rank {
            Some(rank) => state.ops.awaits(rank),
            None => state.ops.has_any(),
        };
        if !is_open(&self.state()) {
            return Ok(());
        }
        let missing = || match rank {
            Some(rank) => vec![Rank::new(rank)],
            None => self.state().ops.awaited(),
        };
        let awaited = Awaited {
            what: "answers to atomics",
            missing: &missing,
        };
        self.wait(awaited, |state, _: &Mpi| Ok(!is_open(state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_compared_by_swaps_and_integers_are_added_unsigned() {
        let call = |op, ty| AtomicCall { op, ty, operand: 0 };
        assert!(mpi_op(call(AtomicOp::Min, AtomicType::F64), true).is_none());
        assert!(mpi_op(call(AtomicOp::Max, AtomicType::F32), true).is_none());
        assert!(mpi_op(call(AtomicOp::Max, AtomicType::U32), false).is_none());
        for (op, ty, by, as_ty) in [
            (AtomicOp::Add, AtomicType::I64, Op::Sum, Datatype::uint64()),
            (AtomicOp::Min, AtomicType::I64, Op::Min, Datatype::int64()),
            (AtomicOp::Max, AtomicType::U32, Op::Max, Datatype::uint32()),
            (AtomicOp::Add, AtomicType::F32, Op::Sum, Datatype::float()),
            (
                AtomicOp::Swap,
                AtomicType::F64,
                Op::Replace,
                Datatype::uint64(),
            ),
            (
                AtomicOp::Load,
                AtomicType::I32,
                Op::Nothing,
                Datatype::uint32(),
            ),
        ] {
            let (op, ty) = mpi_op(call(op, ty), true).unwrap();
            assert_eq!((op, ty), (by, as_ty));
        }
    }
}
