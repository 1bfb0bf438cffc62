//! Counts and traces the operations of a rank.

use std::panic::Location;
use std::time::{Duration, Instant};

use super::World;
use crate::backend::{MessageClass, Sent};
use crate::cost::{CostKind, Costs};
use crate::error::Result;
use crate::rank::Rank;
use crate::stats::{Counting, Operation, Origin, Timed};
use crate::trace::Kind;
use crate::waits::{ProgramCall, program_call};

impl World {
    /// The operations of this rank so far; all zero unless
    /// [`Config::statistics`](crate::Config::statistics) asks for counting.
    #[must_use]
    pub fn costs(&self) -> Costs {
        self.inner
            .counting
            .as_ref()
            .map_or_else(Costs::default, |counting| {
                counting.count_noted(self.label());
                counting.total()
            })
    }

    /// The operations of this rank on `peer` so far, if [`Statistics::PerPeer`](crate::Statistics)
    /// is on.
    ///
    /// # Panics
    ///
    /// If the job has no such rank.
    #[must_use]
    #[track_caller]
    pub fn costs_with(&self, peer: Rank) -> Option<Costs> {
        self.assert_rank(peer);
        self.inner.counting.as_ref()?.peer(peer)
    }

    /// Another handle on the world, whose operations are also counted under `name`, for example
    /// those of a container: the table of `PGAS_STATS` has a line for each name but the empty
    /// one. Names are equal, and counted together, if their first 80 bytes are. A rank keeps up to 64
    /// names; operations under further names are counted for the rank only.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let cells = world.alloc::<u64>(8)?;
    /// cells.put(&world.named("cells"), 7)?; // counted for the rank, and for "cells"
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        let mut world = self.clone();
        if let Some(counting) = self.counting() {
            world.purpose = world.purpose.with_label(counting.label(name));
        }
        world
    }

    /// Counts a call of a container that communicates with no rank (ℓ).
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// world.count_local(); // for example a pop of this rank's own queue
    /// ```
    #[inline]
    pub fn count_local(&self) {
        self.count(CostKind::Local, None, 1, 0);
    }

    /// As [`count_local`](Self::count_local), for an operation with a row in the statistics.
    /// `has_missed` says that it did not succeed, for example a push to a full queue.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::World;
    /// use pgas_core::stats::{Operation, Price};
    ///
    /// static POP: Operation =
    ///     Operation::new("Stack::local_pop", &[Price::new("", [0, 0, 0])], "met an empty stack");
    ///
    /// fn local_pop(world: &World, stack: &mut Vec<u64>) -> Option<u64> {
    ///     world.count_local_as(&POP, stack.is_empty());
    ///     stack.pop()
    /// }
    /// # let world = pgas_core::backend::loopback::world();
    /// # assert_eq!(local_pop(&world, &mut vec![7]), Some(7));
    /// ```
    #[inline]
    pub fn count_local_as(&self, operation: &'static Operation, has_missed: bool) {
        if self.inner.is_observed {
            self.observe_local(operation, has_missed);
        }
    }

    #[cold]
    #[inline(never)]
    fn observe_local(&self, operation: &'static Operation, has_missed: bool) {
        self.count_local();
        if let Some(counting) = self.counting() {
            counting.count_noted(self.label());
            let paid = counting.performs();
            counting.performed(operation, (1, has_missed.into()), paid);
        }
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "one predictable branch when nothing is counted"
    )]
    pub(crate) fn count(&self, kind: CostKind, peer: Option<Rank>, n: u64, bytes: usize) {
        if self.inner.is_observed {
            self.observe(kind, peer, (n, bytes));
        }
    }

    #[cold]
    #[inline(never)]
    fn observe(&self, kind: CostKind, peer: Option<Rank>, (n, bytes): (u64, usize)) {
        // The network may change words of segments that are read and written directly.
        let map = match kind {
            CostKind::Atomic => &self.inner.words,
            _ => &self.inner.memory,
        };
        let is_near = peer.is_none_or(|rank| map.base(rank).is_some());
        let bytes = bytes as u64;
        if let Some(counting) = &self.inner.counting {
            counting.add(kind, (is_near, self.label()), peer, n, bytes);
        }
        let Some(trace) = &self.inner.trace else {
            return;
        };
        let kind = match kind {
            CostKind::Read if !is_near => Kind::Get,
            CostKind::Write if !is_near => Kind::Put,
            CostKind::Atomic if !is_near => Kind::Atomic,
            _ => return,
        };
        trace.note(kind, 0, peer, [bytes, n]);
    }

    /// Notes a call of the collective `what` in the trace, with the bytes of its argument.
    #[track_caller]
    pub(crate) fn trace_collective(&self, what: &'static str, bytes: usize) {
        if let Some(trace) = &self.inner.trace {
            let ProgramCall { whole, at, .. } = program_call(Location::caller());
            let name = trace.name_of_wait(&Origin { what, whole, at });
            trace.note(Kind::Collective, name, None, [bytes as u64, 0]);
        }
    }

    /// Whether operations are timed (`PGAS_STATS=latency`). A layer then reports the times of its
    /// remote calls by [`count_call`](Self::count_call).
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// assert!(!world.are_calls_timed(), "nobody has asked for it");
    /// ```
    #[must_use]
    pub fn are_calls_timed(&self) -> bool {
        self.counting().is_some_and(Counting::is_timing)
    }

    /// Counts a remote call and the time until its answer arrived, if operations are timed.
    ///
    /// # Cost
    ///
    /// An atomic instruction; nothing but a branch if they are not.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Instant;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let began = Instant::now();
    /// // a question, and the wait for its answer
    /// world.count_call(began.elapsed());
    /// ```
    pub fn count_call(&self, took: Duration) {
        if let Some(counting) = self.counting() {
            counting.record(Timed::Call, took);
        }
    }

    /// Calls `send`, which offers a message to the transport. One that was taken is counted and
    /// noted in the trace, and so is one that was not: once, however often it is offered.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "one predictable branch when nothing is counted"
    )]
    #[track_caller]
    pub(crate) fn count_sent(
        &self,
        (to, class): (Rank, MessageClass),
        bytes: impl FnOnce() -> usize,
        send: impl FnOnce() -> Result<Sent>,
    ) -> Result<Sent> {
        if !self.inner.is_observed {
            return send();
        }
        // The receiver may note it before this rank goes on.
        let began = Instant::now();
        let sent = send()?;
        self.observe_sent((to, class), bytes(), sent, (began, Location::caller()));
        Ok(sent)
    }

    #[cold]
    #[inline(never)]
    fn observe_sent(
        &self,
        (to, class): (Rank, MessageClass),
        bytes: usize,
        sent: Sent,
        (began, from): (Instant, &'static Location<'static>),
    ) {
        let (counting, trace) = (&self.inner.counting, &self.inner.trace);
        if sent == Sent::BackPressure {
            if !self.inner.full.refuse(to, class) {
                if let Some(counting) = counting {
                    counting.add(CostKind::Refusal, (true, self.label()), None, 1, 0);
                }
                if let Some(trace) = trace {
                    trace.note(Kind::Refusal, 0, Some(to), [0, 0]);
                }
            }
            return;
        }
        self.inner.full.accept(to, class);
        let bytes = bytes as u64;
        if let Some(counting) = counting {
            let place = (self.inner.memory.base(to).is_some(), self.label());
            counting.add(CostKind::Message, place, Some(to), 1, bytes);
        }
        if let Some(trace) = trace {
            let from = program_call(from).at;
            trace.sent(to, class == MessageClass::Reply, bytes, (began, Some(from)));
        }
    }
}
