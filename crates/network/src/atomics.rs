//! Atomics at the target: their encoding, and how the rank that holds the word executes them.
#![expect(
    unsafe_code,
    reason = "makes operands of words that other ranks order atomics on"
)]

use pgas_core::backend::{Atomic, Backend, RemoteAddr, SwapCall};
use pgas_core::{Error, Result};

use crate::note::Order;

/// An atomic that its target executes.
#[derive(Clone, Copy, Debug)]
pub enum Remote {
    /// An atomic that may return the former bits.
    Fetch(Atomic),
    /// A compare-and-swap.
    Swap(Atomic<SwapCall>),
}

impl Remote {
    /// The word.
    #[must_use]
    pub fn target(&self) -> RemoteAddr {
        match self {
            Self::Fetch(atomic) => atomic.target(),
            Self::Swap(swap) => swap.target(),
        }
    }

    /// Its encoding for the target, without the address of the word.
    #[must_use]
    pub fn told(&self) -> Order {
        match self {
            Self::Fetch(atomic) => Order::Fetch(atomic.call()),
            Self::Swap(swap) => Order::Swap(swap.call()),
        }
    }
}

/// Executes an atomic that another rank has ordered, on the word `at` of a segment that `memory`
/// reaches by CPU atomics, and returns the former bits.
///
/// # Errors
///
/// If there is no such word.
pub fn execute(memory: &impl Backend, at: RemoteAddr, order: Order) -> Result<u64> {
    let bytes = order.ty().bytes() as u64;
    let last = memory.segment_bytes().saturating_sub(bytes);
    let is_there = at.rank.number() < memory.n_ranks() && at.offset <= last;
    if !is_there || !at.offset.is_multiple_of(bytes) {
        let text = format!("a rank ordered an atomic of {bytes} bytes at {at}");
        return Err(Error::backend("an atomic at its target", 0, text));
    }
    match order {
        Order::Fetch(call) => {
            // SAFETY: the word is aligned, and lies in the segment, as was just compared.
            memory.fetch_atomic(unsafe { Atomic::new(at, call) })
        }
        Order::Swap(call) => {
            // SAFETY: as for a fetch.
            memory.compare_swap(unsafe { Atomic::new(at, call) })
        }
    }
}
