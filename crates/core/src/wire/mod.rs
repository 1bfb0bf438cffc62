//! Sends and receives the messages of collectives.

mod inbox;

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Instant;

use zerocopy::IntoBytes;

use crate::backend::{Backend, HandlerId, Message, MessageClass, Sent};
use crate::config::Config;
use crate::cost::CostKind;
use crate::error::{Error, Result};
use crate::forked::Process;
use crate::rank::Rank;
use crate::stats::Counting;
use crate::trace::{Kind, Trace};
use inbox::Inbox;

pub(crate) use inbox::{Header, Key, Payload};

/// The part of a world that collectives use. They do not hold the world itself, which the program
/// may drop while collectives are in flight.
pub(crate) struct Wire {
    pub(crate) backend: Arc<dyn Backend>,
    counting: Option<Arc<Counting>>,
    trace: Option<Arc<Trace>>,
    /// The ranks whose segments are accessed directly, if they are mapped.
    direct: Range<u32>,
    inbox: Inbox,
    pub(crate) check: bool,
    /// The process that is the rank.
    process: Process,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl Wire {
    pub(crate) fn new(
        backend: &Arc<dyn Backend>,
        (counting, trace): (Option<&Arc<Counting>>, Option<&Arc<Trace>>),
        (config, direct): (&Config, &Range<u32>),
    ) -> Self {
        Self {
            backend: Arc::clone(backend),
            counting: counting.map(Arc::clone),
            trace: trace.map(Arc::clone),
            direct: direct.clone(),
            inbox: Inbox::default(),
            check: config.check.unwrap_or(false),
            process: Process::this(),
        }
    }

    /// Whether this process was forked from the one that is the rank.
    pub(crate) fn is_forked(&self) -> bool {
        self.process.is_forked()
    }

    /// Takes a message for [`HandlerId::COLLECTIVE`]. If it cannot be stored, the job fails: the
    /// collective that it belongs to would wait for it for ever.
    pub(crate) fn deliver(&self, message: Message<'_>) -> Result<()> {
        let stored = self.inbox.deliver(message.from, message.payload);
        stored.map_err(|error| self.give_up("a collective", error))
    }

    /// Takes arrived messages of collectives, on a rank that is leaving. It serves no other
    /// messages; `late` gets these.
    pub(crate) fn receive(&self, late: &mut dyn FnMut(Message<'_>)) -> Result<()> {
        let mut delivered = Ok(());
        let mut sink = |message: Message<'_>| {
            if message.handler != HandlerId::COLLECTIVE {
                late(message);
            } else if delivered.is_ok() {
                delivered = self.deliver(message);
            }
        };
        for class in [MessageClass::Reply, MessageClass::Request] {
            self.backend.poll(class, usize::MAX, &mut sink)?;
        }
        delivered
    }

    /// Takes the payload at `key`, if it has arrived. An error if it cannot arrive any more.
    pub(crate) fn take(&self, key: &Key, what: &str) -> Option<Result<Payload>> {
        if let Some(payload) = self.inbox.take(key) {
            return Some(Ok(payload));
        }
        if !self.backend.has_left(key.from) {
            return None;
        }
        // The payload may have arrived between the two checks. None can arrive after this one.
        let late = self.inbox.take(key);
        Some(late.ok_or_else(|| self.deserted(key.from, what)))
    }

    /// The failure of a rank that has left the job although a collective needs it. Other members
    /// may wait for this rank in turn, so the whole job fails.
    #[cold]
    pub(crate) fn deserted(&self, rank: Rank, what: &str) -> Error {
        let cause = format!("has left the job while others wait for it in {what}");
        self.backend.blame(rank, &cause)
    }

    /// Reports an `error` that ends a collective, or a part of one, on this rank alone. Other ranks
    /// may wait for this one, so it becomes the failure of the job, which tells them.
    #[cold]
    pub(crate) fn give_up(&self, what: &str, error: Error) -> Error {
        if !self.is_forked() && self.backend.health().is_ok() {
            let cause = format!("failed in {what}: {error}");
            // Another rank's failure may be recorded already; the next wait reports it.
            drop(self.backend.blame(self.backend.rank(), &cause));
        }
        error
    }

    /// Says that others wait for this rank, until the value is dropped. If it panics meanwhile, the
    /// job fails, since the others may wait for ever if the program catches the panic.
    #[inline]
    pub(crate) fn in_step<'a>(&'a self, what: &'a str) -> InStep<'a> {
        InStep {
            wire: self,
            what,
            was_panicking: thread::panicking(),
        }
    }

    /// Whether `rank` has left the job, and nothing more will come of it.
    pub(crate) fn has_left(&self, rank: Rank) -> bool {
        self.backend.has_left(rank)
    }

    /// The number of payloads that have arrived and were not taken.
    #[cfg(test)]
    pub(crate) fn n_waiting(&self) -> usize {
        self.inbox.len()
    }

    /// Sends one message; ready when the transport has taken it.
    pub(crate) async fn send(
        &self,
        to: Rank,
        what: &str,
        header: &Header,
        piece: &[u8],
    ) -> Result<()> {
        let parts = [header.as_bytes(), piece];
        let (mut began, mut was_refused) = (None, false);
        poll_fn(|_| {
            // The receiver may note it before this rank goes on.
            began = self.trace.as_ref().map(|trace| (trace, Instant::now()));
            let sent =
                self.backend
                    .try_send(to, MessageClass::Request, HandlerId::COLLECTIVE, &parts)?;
            match sent {
                Sent::Accepted => Poll::Ready(Ok(())),
                Sent::BackPressure if self.backend.has_left(to) => {
                    Poll::Ready(Err(self.deserted(to, what)))
                }
                Sent::BackPressure => {
                    if !mem::replace(&mut was_refused, true) {
                        self.count_refusal(to);
                    }
                    Poll::Pending
                }
            }
        })
        .await?;
        if let Some(counting) = &self.counting {
            let bytes = size_of::<Header>() + piece.len();
            let is_direct = self.direct.contains(&to.number());
            let is_near = is_direct && self.backend.mapped(to).is_some();
            let kind = CostKind::Message;
            counting.add(kind, (is_near, 0), Some(to), 1, bytes as u64);
        }
        if let Some((trace, began)) = began {
            let bytes = size_of::<Header>() + piece.len();
            trace.sent(to, false, bytes as u64, (began, None));
        }
        Ok(())
    }

    #[cold]
    fn count_refusal(&self, to: Rank) {
        if let Some(counting) = &self.counting {
            counting.add(CostKind::Refusal, (true, 0), None, 1, 0);
        }
        if let Some(trace) = &self.trace {
            trace.note(Kind::Refusal, 0, Some(to), [0, 0]);
        }
    }
}

/// While this lives, others wait for this rank. They are told if it panics. From
/// [`World::in_step`](crate::World::in_step).
#[must_use = "a panic is told only while this lives"]
pub struct InStep<'a> {
    wire: &'a Wire,
    what: &'a str,
    /// Whether it began while a panic unwinds already, as in a drop.
    was_panicking: bool,
}

impl Drop for InStep<'_> {
    #[inline]
    fn drop(&mut self) {
        if thread::panicking() && !self.was_panicking {
            self.tell();
        }
    }
}

impl fmt::Debug for InStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InStep").field(&self.what).finish()
    }
}

impl InStep<'_> {
    #[cold]
    fn tell(&self) {
        let backend = &self.wire.backend;
        if !self.wire.is_forked() && backend.health().is_ok() {
            let cause = format!("panicked in {}", self.what);
            drop(backend.blame(backend.rank(), &cause));
        }
    }
}
