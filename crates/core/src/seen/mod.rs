//! The spans of the library for the crate `tracing` (feature `tracing`).
//!
//! They show what a trace (`PGAS_TRACE`) shows, with or without one: sections of the program,
//! phases of objects, collectives, waits and handlers. Their target is `pgas`. What the rank is
//! inside of is entered: it begins and ends on one thread, as its stack does. What has no thread of
//! its own is not: phases, collectives that run beside the program, and the program's own waits.
//!
//! A subscriber is code of the program and may call this library. What it calls has no spans, or
//! each would lead to the next one.

use std::cell::Cell;
use std::panic::Location;

use tracing::level_filters::LevelFilter;
use tracing::span::{EnteredSpan, Span};
use tracing::{Level, debug_span, info_span};

use crate::backend::{Message, MessageClass};
use crate::rank::Rank;
use crate::stats::Origin;
use crate::waits::ProgramCall;

#[cfg(test)]
mod tests;

thread_local! {
    /// Whether a subscriber is being told, on this thread.
    static IS_TELLING: Cell<bool> = const { Cell::new(false) };
}

/// A span until it is dropped. `S` is [`EnteredSpan`] or [`Span`].
pub(crate) struct Seen<S>(Option<S>);

impl<S> Drop for Seen<S> {
    fn drop(&mut self) {
        tell(|| drop(self.0.take()));
    }
}

/// Runs `body`, which tells a subscriber; not within another such call.
fn tell<R>(body: impl FnOnce() -> R) -> Option<R> {
    struct Told;
    impl Drop for Told {
        fn drop(&mut self) {
            IS_TELLING.set(false);
        }
    }
    if IS_TELLING.replace(true) {
        return None;
    }
    let _told = Told;
    Some(body())
}

/// Whether some subscriber may want spans of `level`.
#[inline]
pub(crate) fn is_wanted(level: Level) -> bool {
    level <= LevelFilter::current()
}

fn kept(level: Level, span: impl FnOnce() -> Span) -> Seen<Span> {
    let span = is_wanted(level).then(|| tell(span)).flatten();
    Seen(span)
}

fn entered(level: Level, span: impl FnOnce() -> Span) -> Seen<EnteredSpan> {
    let span = is_wanted(level).then(|| tell(|| span().entered()));
    Seen(span.flatten())
}

impl<S> Seen<S> {
    pub(crate) const fn nothing() -> Self {
        Self(None)
    }
}

impl Seen<Span> {
    /// Enters the span on this thread, until the value is dropped.
    pub(crate) fn enter(&self) -> Seen<EnteredSpan> {
        let enter = |span: &Span| tell(|| span.clone().entered());
        Seen(self.0.as_ref().and_then(enter))
    }
}

/// A section of the program.
pub(crate) fn section(rank: Rank, name: &str) -> Seen<EnteredSpan> {
    entered(
        Level::INFO,
        || info_span!(target: "pgas", "pgas", name, rank = rank.number()),
    )
}

/// The phase of an object.
pub(crate) fn phase(
    rank: Rank,
    (object, identity): (&'static str, u64),
    phase: &str,
    at: &'static Location<'static>,
) -> Seen<Span> {
    kept(Level::INFO, || {
        let (rank, at) = (rank.number(), line(at));
        info_span!(target: "pgas", parent: None, "phase", object, phase, at, identity, rank)
    })
}

/// A collective call.
pub(crate) fn collective(rank: Rank, what: &str, call: ProgramCall) -> Seen<Span> {
    let ProgramCall { whole, at, .. } = call;
    kept(Level::DEBUG, || {
        let (at, rank) = (line(at), rank.number());
        debug_span!(target: "pgas", "collective", what, part_of = whole, at, rank)
    })
}

/// A wait.
pub(crate) fn wait(rank: Rank, origin: &Origin) -> Seen<Span> {
    let Origin { what, whole, at } = origin;
    kept(Level::DEBUG, || {
        let (at, rank) = (line(at), rank.number());
        debug_span!(target: "pgas", "wait", what, part_of = whole, at, rank)
    })
}

/// The handler of a message.
pub(crate) fn handler(rank: Rank, message: &Message<'_>) -> Seen<EnteredSpan> {
    entered(Level::DEBUG, || {
        let is_reply = message.class == MessageClass::Reply;
        let (from, bytes) = (message.from.number(), message.payload.len());
        debug_span!(target: "pgas", "handler", from, is_reply, bytes, rank = rank.number())
    })
}

fn line(at: &Location<'_>) -> String {
    format!("{}:{}", at.file(), at.line())
}
