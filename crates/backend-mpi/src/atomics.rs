//! Atomics: all by MPI, or all by the CPU of the rank that has the word.
//!
//! **By MPI** (`PGAS_DIRECT=0`) every atomic, also one on a rank's own words, is
//! `MPI_Fetch_and_op`, `MPI_Accumulate` or `MPI_Compare_and_swap`. The standard defines concurrent
//! ones on one location only for equal operations and `MPI_NO_OP`, so that the
//! [window](crate::window) has hints by which the libraries themselves define any mixture. Both are
//! so without hints, too: Open MPI's `pt2pt` and MPICH execute each one in the target's progress
//! engine, `sm`, `rdma` and `ucx` under a lock of the target. The tests hammer one word with
//! different operations, and read back what became of the hints.
//!
//! **At the target** (with the direct path, and without it where MPI's compare-and-swap is not to
//! be trusted) it is a note with the operation, which the target executes with a CPU atomic when it
//! makes progress, and a note with the former bits. Several may be on their way; a flush waits for
//! the answers.
#![expect(
    unsafe_code,
    reason = "lends words to MPI, and names those that other ranks order atomics on"
)]

use pgas_core::backend::{
    Atomic, AtomicCall, AtomicOp, AtomicType, Backend, Former, OpId, Operand, RemoteAddr, Stage,
    SwapCall,
};
use pgas_core::raw::word;
use pgas_core::{Error, Rank, Result};

use crate::limits::Awaited;
use crate::network::{Network, State};
use crate::note::{Note, Order};
use crate::ops::{Flight, pack, unpack};
use crate::sys::{self, Datatype, Mode, Mpi, Op, Probe};

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

/// An atomic that its target executes.
#[derive(Clone, Copy, Debug)]
enum Remote {
    Fetch(Atomic),
    Swap(Atomic<SwapCall>),
}

impl Remote {
    fn target(&self) -> RemoteAddr {
        match self {
            Self::Fetch(atomic) => atomic.target(),
            Self::Swap(swap) => swap.target(),
        }
    }

    fn rank(&self) -> Rank {
        self.target().rank
    }

    /// What the target is told of it, besides the place.
    fn told(&self) -> Order {
        match self {
            Self::Fetch(atomic) => Order::Fetch(atomic.call()),
            Self::Swap(swap) => Order::Swap(swap.call()),
        }
    }
}

/// The type of the word that it is on.
fn ty_of(order: Order) -> AtomicType {
    match order {
        Order::Fetch(call) => call.ty,
        Order::Swap(call) => call.ty,
    }
}

impl Network {
    pub(crate) fn update(&self, atomic: Atomic) -> Result<()> {
        if self.at_target {
            return self.send_order(Remote::Fetch(atomic));
        }
        let call = atomic.call();
        let Some((op, ty)) = mpi_op(call, self.compares_unsigned) else {
            return self.fetch(atomic).map(drop);
        };
        if op == Op::Nothing {
            // Accumulating knows no such operation, and there is nothing to do.
            return Ok(());
        }
        if self.is_polite {
            return self.fetch(atomic).map(drop);
        }
        let (operand, rank) = (pack(call.operand, call.ty.bytes()), atomic.rank().number());
        let mut mpi = sys::enter()?;
        self.turn_to(&mut mpi, rank)?;
        // SAFETY: the operand outlives the local completion below.
        unsafe { sys::accumulate(&mpi, &self.window, (op, ty), &atomic, &raw const operand) }?;
        self.flushes.get(&mut mpi).begin(rank);
        self.flush_here(&mut mpi, rank)
    }

    pub(crate) fn fetch(&self, atomic: Atomic) -> Result<u64> {
        if self.at_target {
            return self.order(Remote::Fetch(atomic));
        }
        if self.is_polite {
            let mut former = 0;
            // SAFETY: `former` is written by this operation alone until this returns, which is
            // after `wait_politely` has seen that the operation is complete, or has failed and is
            // over.
            let place = unsafe { Former::new(&raw mut former) };
            let begun = self.begin_fetch(atomic, place)?;
            self.wait_politely(begun, Stage::Operation)?;
            return Ok(former);
        }
        self.fetch_inside(atomic)
    }

    /// As [`fetch`](Self::fetch) by MPI, waiting inside of it.
    fn fetch_inside(&self, atomic: Atomic) -> Result<u64> {
        let call = atomic.call();
        let Some((op, ty)) = mpi_op(call, self.compares_unsigned) else {
            return self.fetch_by_swaps(atomic);
        };
        let bytes = call.ty.bytes();
        let operand = pack(call.operand, bytes);
        let mut former = 0;
        let mut mpi = sys::enter()?;
        let words = (&raw const operand, &raw mut former);
        self.turn_to(&mut mpi, atomic.rank().number())?;
        // SAFETY: both words outlive the local completion below.
        unsafe { sys::fetch_and_op(&mpi, &self.window, (op, ty), &atomic, words) }?;
        self.note_atomic(&mut mpi, op, atomic.rank());
        self.flush_here(&mut mpi, atomic.rank().number())?;
        Ok(unpack(former, bytes))
    }

    /// An atomic has begun, which a flush has to complete unless it only reads.
    fn note_atomic(&self, mpi: &mut Mpi, op: Op, rank: Rank) {
        if op != Op::Nothing {
            self.flushes.get(mpi).begin(rank.number());
        }
    }

    /// What MPI has no operation for: tries to replace what was seen by what should be there then.
    fn fetch_by_swaps(&self, atomic: Atomic) -> Result<u64> {
        let call = atomic.call();
        let ty = call.ty;
        let load = AtomicCall {
            op: AtomicOp::Load,
            ..call
        };
        let mut expected = self.fetch(atomic.with(load))?;
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
            let former = self.swap(atomic.with(swap))?;
            if former == expected {
                return Ok(former);
            }
            expected = former;
        }
    }

    pub(crate) fn swap(&self, swap: Atomic<SwapCall>) -> Result<u64> {
        if self.at_target {
            return self.order(Remote::Swap(swap));
        }
        let (call, rank) = (swap.call(), swap.rank());
        let bytes = call.ty.bytes();
        let (expected, desired) = (pack(call.expected, bytes), pack(call.desired, bytes));
        let mut former = 0;
        let mut mpi = sys::enter()?;
        let (from, to) = ((&raw const expected, &raw const desired), &raw mut former);
        let ty = bits_of(call.ty);
        self.turn_to(&mut mpi, rank.number())?;
        // SAFETY: the words outlive the local completion below.
        unsafe { sys::compare_and_swap(&mpi, &self.window, ty, &swap, from, to) }?;
        self.flushes.get(&mut mpi).begin(rank.number());
        if self.is_polite {
            drop(mpi);
            let approached = self.approach(&[rank]);
            mpi = sys::enter()?;
            self.flush_here(&mut mpi, rank.number())?;
            approached?;
        } else {
            self.flush_here(&mut mpi, rank.number())?;
        }
        Ok(unpack(former, bytes))
    }

    /// Begins to read the first word of `rank`, in a way that its progress answers, after what was
    /// begun before.
    pub(crate) fn begin_probe(&self, mpi: &Mpi, rank: u32) -> Result<Probe> {
        Probe::begin(mpi, &self.window, Rank::new(rank), self.at_target)
    }

    pub(crate) fn begin_fetch(&self, atomic: Atomic, former: Former) -> Result<OpId> {
        if self.at_target {
            return self.begin_order(Remote::Fetch(atomic), former);
        }
        let call = atomic.call();
        let mut state = self.state();
        let slot =
            mpi_op(call, self.compares_unsigned).and_then(|by| Some((by, state.ops.reserve()?)));
        let Some((by, index)) = slot else {
            drop(state);
            former.set(self.fetch_inside(atomic)?);
            return Ok(OpId::DONE);
        };
        let bytes = call.ty.bytes();
        let words = state.ops.lend_words(index, pack(call.operand, bytes));
        let mut mpi = sys::enter()?;
        if let Err(error) = self.turn_to(&mut mpi, atomic.rank().number()) {
            state.ops.release(index);
            return Err(error);
        }
        // SAFETY: the slot's words are its operation's until that is complete, or for ever.
        let begun = unsafe { sys::rget_accumulate(&mpi, &self.window, by, &atomic, words) };
        match begun {
            Ok(request) => {
                self.note_atomic(&mut mpi, by.0, atomic.rank());
                let flight = Flight::Fetch {
                    request,
                    bytes,
                    result: former,
                };
                Ok(state.ops.begin(index, flight))
            }
            Err(error) => {
                state.ops.release(index);
                Err(error)
            }
        }
    }

    pub(crate) fn begin_swap(&self, swap: Atomic<SwapCall>, former: Former) -> Result<OpId> {
        if self.at_target {
            return self.begin_order(Remote::Swap(swap), former);
        }
        // MPI has no compare-and-swap with a request.
        former.set(self.swap(swap)?);
        Ok(OpId::DONE)
    }

    /// An atomic at its target, with the result.
    fn order(&self, order: Remote) -> Result<u64> {
        let mut former = 0;
        // SAFETY: `former` is written by this operation alone until this returns, which is after
        // the answer, or after `abandon`, which sees to it that the answer is not written.
        let place = unsafe { Former::new(&raw mut former) };
        let op = self.begin_order(order, place)?;
        if op != OpId::DONE {
            let missing = || vec![order.rank()];
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
    fn send_order(&self, order: Remote) -> Result<()> {
        if self.execute_nearby(order).is_some() {
            return Ok(());
        }
        self.begin_note(order, None).map(drop)
    }

    fn begin_order(&self, order: Remote, former: Former) -> Result<OpId> {
        if let Some(bits) = self.execute_nearby(order) {
            former.set(bits);
            return Ok(OpId::DONE);
        }
        self.begin_note(order, Some(former))
    }

    /// Tells the target; waits for answers to earlier atomics if too many are on their way.
    fn begin_note(&self, order: Remote, mut former: Option<Former>) -> Result<OpId> {
        let from = order.rank().number();
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
                offset: order.target().offset,
                order: order.told(),
            };
            if let Err(error) = state.post.tell(mpi, from, &note, Mode::Plain) {
                state.ops.release(index);
                return Err(error);
            }
            let result = former.take();
            op = state.ops.begin(index, Flight::Answer { from, result });
            Ok(true)
        })?;
        Ok(op)
    }

    /// Executes an atomic that another rank has ordered, on the word at `offset` of this rank's own
    /// segment.
    pub(crate) fn execute(&self, offset: u64, order: Order) -> Result<u64> {
        let rank = Rank::new(self.host.index());
        let at = RemoteAddr { rank, offset };
        let bytes = ty_of(order).bytes() as u64;
        let last = self.member.segment_bytes().saturating_sub(bytes);
        if !offset.is_multiple_of(bytes) || offset > last {
            let text = format!("a rank ordered an atomic of {bytes} bytes at {at}");
            return Err(Error::backend("an atomic at its target", 0, text));
        }
        match order {
            Order::Fetch(call) => {
                // SAFETY: the word is aligned, and lies in the segment, as was just compared.
                self.member.fetch_atomic(unsafe { Atomic::new(at, call) })
            }
            Order::Swap(call) => {
                // SAFETY: as for a fetch.
                self.member.compare_swap(unsafe { Atomic::new(at, call) })
            }
        }
    }

    /// Executes an atomic whose word is on this host, and gives the former bits.
    fn execute_nearby(&self, order: Remote) -> Option<u64> {
        let done = match order {
            Remote::Fetch(atomic) => self.member.fetch_atomic(self.near_word(atomic)?),
            Remote::Swap(swap) => self.member.compare_swap(self.near_word(swap)?),
        };
        Some(done.expect("a CPU atomic on mapped memory cannot fail"))
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
    use crate::ops::Ops;

    #[test]
    fn slots_of_answers_are_used_again_under_other_ids() {
        let mut ops = Ops::default();
        let mut former = 0;
        let mut ids = Vec::new();
        for bits in 1..10 {
            let index = ops.reserve().unwrap();
            // SAFETY: `former` lives as long as the table.
            let place = unsafe { Former::new(&raw mut former) };
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
