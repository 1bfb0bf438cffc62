//! Atomics that the provider executes.
#![expect(unsafe_code, reason = "lends libfabric the words of atomics")]

use pgas_core::Result;
use pgas_core::backend::{AtomicCall, AtomicOp, AtomicType};
use pgas_libfabric_sys::bindings::{
    FI_ATOMIC_READ, FI_ATOMIC_WRITE, FI_BAND, FI_BOR, FI_BXOR, FI_CSWAP, FI_DELIVERY_COMPLETE,
    FI_DOUBLE, FI_FLOAT, FI_INT8, FI_INT16, FI_INT32, FI_INT64, FI_MAX, FI_MIN, FI_SUM, FI_UINT8,
    FI_UINT16, FI_UINT32, FI_UINT64, fi_ioc, fi_msg_atomic, fi_rma_ioc,
};
use pgas_libfabric_sys::calls::{
    Kind, fi_compare_atomicmsg, fi_compare_atomicvalid, fi_fetch_atomicmsg, fi_fetch_atomicvalid,
};
use pgas_network::note::Order;

use super::{Begun, Endpoint, Target, begun};
use crate::sys::memory::Context;
use crate::sys::words::{Cell, Words};

impl Endpoint {
    /// Whether the provider says that it has an atomic.
    pub(crate) fn has_atomic(&mut self, step: Order) -> bool {
        let (kind, mut count) = (kind_of(step), 0);
        let code = match step {
            // SAFETY: the endpoint is open, and the place for the count is there.
            Order::Fetch(_) => unsafe { fi_fetch_atomicvalid(self.endpoint, kind, &raw mut count) },
            // SAFETY: as above.
            Order::Swap(_) => unsafe {
                fi_compare_atomicvalid(self.endpoint, kind, &raw mut count)
            },
        };
        code >= 0 && count > 0
    }

    /// Begins an atomic on a peer's word. When it is complete, its result is in the cell.
    ///
    /// A change is complete when all agents at the target see it (`FI_DELIVERY_COMPLETE`), since
    /// some load the word without the provider. Otherwise a card may keep it in a cache of its own.
    ///
    /// # Safety
    ///
    /// The word lies in what the peer has registered, aligned. The cell is one of `words`. No other
    /// operation uses it or the context, and all three live until the completion has come, or the
    /// endpoint is shut.
    pub(crate) unsafe fn begin_atomic(
        &mut self,
        (words, cell): (&Words, &Cell),
        step: Order,
        target: Target,
        context: &Context,
    ) -> Result<Begun> {
        self.check_open()?;
        // SAFETY: as the caller promises.
        let mut local = unsafe { words.set(cell, step) };
        let operand = fi_ioc {
            addr: local.operand.start,
            count: 1,
        };
        let there = fi_rma_ioc {
            addr: target.address,
            count: 1,
            key: target.key,
        };
        let kind = kind_of(step);
        let message = fi_msg_atomic {
            msg_iov: &raw const operand,
            desc: &raw mut local.operand.desc,
            iov_count: 1,
            addr: target.peer,
            rma_iov: &raw const there,
            rma_iov_count: 1,
            datatype: kind.datatype,
            op: kind.op,
            context: context.as_ptr(),
            data: 0,
        };
        let flags = match step {
            Order::Fetch(AtomicCall {
                op: AtomicOp::Load, ..
            }) => 0,
            Order::Fetch(_) | Order::Swap(_) => u64::from(FI_DELIVERY_COMPLETE),
        };
        let (ep, at) = (self.endpoint, &raw const message);
        match step {
            // SAFETY: the endpoint is open, the lists live through the call, and the caller
            // promises the rest.
            Order::Fetch(_) => begun("fi_fetch_atomicmsg", unsafe {
                fi_fetch_atomicmsg(ep, at, local.result, flags)
            }),
            // SAFETY: as above.
            Order::Swap(_) => begun("fi_compare_atomicmsg", unsafe {
                fi_compare_atomicmsg(ep, at, local.compare, local.result, flags)
            }),
        }
    }
}

/// Libfabric's names of an atomic.
fn kind_of(step: Order) -> Kind {
    let datatype = match step.ty() {
        AtomicType::U8 => FI_UINT8,
        AtomicType::I8 => FI_INT8,
        AtomicType::U16 => FI_UINT16,
        AtomicType::I16 => FI_INT16,
        AtomicType::U32 => FI_UINT32,
        AtomicType::I32 => FI_INT32,
        AtomicType::U64 => FI_UINT64,
        AtomicType::I64 => FI_INT64,
        AtomicType::F32 => FI_FLOAT,
        AtomicType::F64 => FI_DOUBLE,
    };
    let op = match step {
        Order::Swap(_) => FI_CSWAP,
        Order::Fetch(call) => match call.op {
            AtomicOp::Load => FI_ATOMIC_READ,
            AtomicOp::Swap => FI_ATOMIC_WRITE,
            AtomicOp::Add => FI_SUM,
            AtomicOp::And => FI_BAND,
            AtomicOp::Or => FI_BOR,
            AtomicOp::Xor => FI_BXOR,
            AtomicOp::Min => FI_MIN,
            AtomicOp::Max => FI_MAX,
        },
    };
    Kind { datatype, op }
}
