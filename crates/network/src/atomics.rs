//! Atomics at the target: their encoding, and how the rank that holds the word executes them.
#![expect(
    unsafe_code,
    reason = "makes operands of words that ranks order atomics on, and places for their former bits"
)]

use pgas_core::backend::{Atomic, AtomicOp, Backend, Call, Former, OpId, RemoteAddr, SwapCall};
use pgas_core::{Error, Result};

use crate::limits::Awaited;
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

    fn changes_the_word(&self) -> bool {
        match self {
            Self::Fetch(atomic) => atomic.call().op != AtomicOp::Load,
            Self::Swap(_) => true,
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

/// A rank whose atomics on words of other hosts are executed by their targets: the part that does
/// not depend on the transport.
///
/// # Safety
///
/// The transport writes the former bits of an atomic at most until it was answered, or until
/// [`await_answer`](Self::await_answer) returns an error for it.
pub unsafe trait Orders {
    /// The transport of the ranks of this host.
    type Member: Backend;

    /// This rank, as one of its host's.
    fn member(&self) -> &Self::Member;

    /// The word for the member, if this rank changes it by CPU atomics.
    fn nearby<C: Call>(&self, word: Atomic<C>) -> Option<Atomic<C>>;

    /// Sends an atomic to its target, which is not [nearby](Self::nearby).
    ///
    /// # Errors
    ///
    /// Those of the transport. Then the former bits are not written.
    fn send(&self, order: Remote, former: Option<Former>) -> Result<OpId>;

    /// Waits for the answer of an atomic.
    ///
    /// # Errors
    ///
    /// Those of the transport.
    fn await_answer(&self, op: OpId, awaited: Awaited<'_>) -> Result<()>;

    /// Fails the job, with this rank as the one that failed.
    fn fail(&self, cause: &str);

    /// Performs an atomic, and returns the former bits.
    ///
    /// # Errors
    ///
    /// Those of the transport. If the limit of the wait is over, the job fails, too: the target may
    /// still carry the atomic out, and nobody would give back what that has taken, such as a lock.
    fn order(&self, order: Remote) -> Result<u64> {
        let mut former = 0;
        // SAFETY: `former` is written by this operation alone until this returns, which is after
        // the answer or after an error, as the implementor promises.
        let place = unsafe { Former::new(&raw mut former) };
        let op = self.begin_order(order, place)?;
        if op != OpId::DONE {
            let missing = || vec![order.target().rank];
            let awaited = Awaited {
                what: "the answer to an atomic",
                missing: &missing,
            };
            let answered = self.await_answer(op, awaited);
            if let Err(error @ Error::Timeout(_)) = &answered
                && order.changes_the_word()
            {
                self.fail(&format!(
                    "gave up an atomic, which may be carried out later: {error}"
                ));
            }
            answered?;
        }
        Ok(former)
    }

    /// Performs an atomic without a result: the next flush waits for it.
    ///
    /// # Errors
    ///
    /// Those of the transport.
    fn send_order(&self, order: Remote) -> Result<()> {
        if self.execute_nearby(order).is_some() {
            return Ok(());
        }
        self.send(order, None).map(drop)
    }

    /// Begins an atomic with its result.
    ///
    /// # Errors
    ///
    /// Those of the transport.
    fn begin_order(&self, order: Remote, former: Former) -> Result<OpId> {
        if let Some(bits) = self.execute_nearby(order) {
            former.set(bits);
            return Ok(OpId::DONE);
        }
        self.send(order, Some(former))
    }

    /// Executes an atomic whose word is [nearby](Self::nearby), and returns the former bits.
    fn execute_nearby(&self, order: Remote) -> Option<u64> {
        let done = match order {
            Remote::Fetch(atomic) => self.member().fetch_atomic(self.nearby(atomic)?),
            Remote::Swap(swap) => self.member().compare_swap(self.nearby(swap)?),
        };
        Some(done.expect("a CPU atomic on mapped memory cannot fail"))
    }

    /// Executes an atomic that another rank has ordered, on the word at `offset` of this rank's own
    /// segment, and returns the former bits.
    ///
    /// # Errors
    ///
    /// If there is no such word.
    fn execute(&self, offset: u64, order: Order) -> Result<u64> {
        let rank = self.member().rank();
        execute(self.member(), RemoteAddr { rank, offset }, order)
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
