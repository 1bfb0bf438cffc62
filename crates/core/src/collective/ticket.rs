//! The order in which a team's collectives begin, if the transport performs them.
//!
//! All members must begin a group's operations in the same order. The calls of a team's collectives
//! have such an order. But the steps before the operation (the meeting of a window, the comparison
//! of arguments) may take longer for one call than for the next, and another thread may drive them.
//! So every call that the transport performs takes a ticket, and operations begin in the order of
//! tickets.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use super::{Kind, Signature};
use crate::backend::{Collective, Elements};
use crate::error::{Error, Result};
use crate::members::{Native, Shared};

/// The value of [`Native::turn`] after a collective was given up before it began.
const GIVEN_UP: u64 = u64::MAX;

/// The place of a call in the order in which a team's collectives begin at the transport.
pub(super) struct Ticket {
    pub(super) team: Arc<Shared>,
    number: u64,
    /// The collective to begin; `None` for a split of the group.
    pub(super) collective: Option<Collective>,
    has_passed: AtomicBool,
}

impl Ticket {
    /// A ticket for the call with `signature`, if the transport performs it.
    pub(super) fn take(team: &Arc<Shared>, signature: &Signature) -> Option<Self> {
        let native = team.native()?;
        let collective = if signature.kind == Kind::Split {
            None
        } else {
            let collective = signature.collective(team.n_ranks())?;
            Some(Some(collective).filter(|call| native.group.offers(call))?)
        };
        Some(Self {
            team: Arc::clone(team),
            // A count. One thread at a time calls a team's collectives.
            number: native.tickets.fetch_add(1, Ordering::Relaxed),
            collective,
            has_passed: AtomicBool::new(false),
        })
    }

    pub(super) fn native(&self) -> &Native {
        self.team
            .native()
            .expect("only a team with a group gives tickets")
    }

    /// Waits until all earlier calls have begun.
    pub(super) async fn turn(&self) -> Result<()> {
        poll_fn(|_| {
            // Pairs with `pass`: what began before, has begun.
            match self.native().turn.load(Ordering::Acquire) {
                turn if turn == self.number => Poll::Ready(Ok(())),
                GIVEN_UP => Poll::Ready(Err(given_up())),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Allows the next call to begin.
    pub(super) fn pass(&self) {
        // Only this thread reads it until it is dropped.
        self.has_passed.store(true, Ordering::Relaxed);
        let turn = &self.native().turn;
        let next = self.number + 1;
        // Pairs with `turn`. The exchange fails if a call was given up meanwhile; that state stays.
        let passed = turn.compare_exchange(self.number, next, Ordering::Release, Ordering::Relaxed);
        debug_assert!(
            passed.is_ok_and(|_| true) || passed == Err(GIVEN_UP),
            "whose turn it is passes it on"
        );
    }
}

impl Drop for Ticket {
    /// A call that ends before it began, by an error of its own or of the wait around it, leaves
    /// this rank out of step with the other members: later ones must not begin in its place.
    fn drop(&mut self) {
        if !*self.has_passed.get_mut() {
            self.native().turn.store(GIVEN_UP, Ordering::Release);
        }
    }
}

#[cold]
fn given_up() -> Error {
    let text = "an earlier collective of the team failed on this rank, so that its members are out of step";
    Error::backend("collective", 0, text)
}

impl Signature {
    /// The collective as a transport is asked for it; `None` if it has to be core's own.
    fn collective(&self, n_ranks: u32) -> Option<Collective> {
        let Self { root, len, .. } = *self;
        let bytes = len.checked_mul(self.element_bytes)?;
        if bytes == 0 && !matches!(self.kind, Kind::Barrier | Kind::BarrierNb) {
            return None;
        }
        let elements = || {
            Some(Elements {
                ty: self.integer?,
                len,
                op: self.op?,
            })
        };
        Some(match self.kind {
            Kind::Barrier | Kind::BarrierNb => Collective::Barrier,
            Kind::Broadcast => Collective::Broadcast { root, bytes },
            Kind::Reduce => Collective::Reduce {
                root,
                elements: elements()?,
            },
            Kind::Allreduce => Collective::Allreduce(elements()?),
            Kind::Gather => Collective::Gather { root, bytes },
            Kind::Allgather => Collective::Allgather { bytes },
            Kind::AllToAll => Collective::AllToAll {
                bytes: bytes / n_ranks as usize,
            },
            Kind::ScanInclusive => Collective::ScanInclusive(elements()?),
            Kind::ScanExclusive => Collective::ScanExclusive(elements()?),
            Kind::GatherVarying
            | Kind::AllgatherVarying
            | Kind::AllToAllVarying
            | Kind::Scatter
            | Kind::ScatterVarying
            | Kind::Split
            | Kind::Agreement
            | Kind::BroadcastValue
            | Kind::ScatterValues
            | Kind::ReduceValues
            | Kind::AllreduceValues
            | Kind::ScanValues
            | Kind::ScanExclusiveValues => return None,
        })
    }
}
