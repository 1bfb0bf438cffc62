//! Spans of a program's own, in its trace.

use std::fmt;

use crate::trace::{Kind, Trace};
use crate::world::World;

/// A stretch of a program that a trace shows by its name, until this is dropped; from
/// [`World::span`].
#[must_use = "the span ends when this is dropped"]
pub struct Span<'w> {
    trace: Option<(&'w Trace, u16)>,
    #[cfg(feature = "tracing")]
    _entered: tracing::span::EnteredSpan,
}

impl World {
    /// Says that the program does what `name` says until the span is dropped, on the thread that
    /// calls this. Traces (`PGAS_TRACE`) show it; with feature `tracing` it is a span of that
    /// crate, too, called `pgas` with the fields `name` and `rank`, of level `INFO`. Else it is
    /// nothing.
    ///
    /// # Cost
    ///
    /// ℓ; nothing but a branch without traces.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let mut keys = vec![3, 1, 2];
    /// {
    ///     let _span = world.span("sort");
    ///     keys.sort_unstable();
    /// }
    /// # assert_eq!(keys, [1, 2, 3]);
    /// ```
    pub fn span(&self, name: &str) -> Span<'_> {
        let trace = self.trace().map(|trace| (trace, trace.name(name)));
        if let Some((trace, name)) = trace {
            trace.note(Kind::Span, name, None, [0, 0]);
        }
        Span {
            trace,
            #[cfg(feature = "tracing")]
            _entered: tracing::info_span!("pgas", name, rank = self.rank().number()).entered(),
        }
    }
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        if let Some((trace, name)) = self.trace {
            trace.note(Kind::SpanEnd, name, None, [0, 0]);
        }
    }
}

impl fmt::Debug for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Span").finish_non_exhaustive()
    }
}
