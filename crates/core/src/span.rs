//! Named spans of the program, in its trace.

use std::fmt;
use std::marker::PhantomData;

#[cfg(feature = "tracing")]
use tracing::span::EnteredSpan;

#[cfg(feature = "tracing")]
use crate::seen::{self, Seen};
use crate::trace::{Kind, Trace};
use crate::world::World;

/// A named section of the program in its trace, which ends when this is dropped; from
/// [`World::span`]. It cannot be sent to another thread:
///
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
///
/// # let world = pgas_core::backend::loopback::world();
/// send(world.span("sort"));
/// ```
#[must_use = "the span ends when this is dropped"]
pub struct Span<'w> {
    trace: Option<(&'w Trace, u16)>,
    #[cfg(feature = "tracing")]
    _seen: Seen<EnteredSpan>,
    /// It belongs to its thread, with that feature and without.
    _thread: PhantomData<*const ()>,
}

impl World {
    /// Begins a section of the program called `name`, on this thread, until the span is dropped.
    /// Traces (`PGAS_TRACE`) show it. With feature `tracing` it is also a span of that crate,
    /// called `pgas`, with the fields `name` and `rank` and level `INFO`, beside those of the
    /// library: its target is `pgas`, as theirs is. Without both it has no
    /// effect.
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
            _seen: seen::section(self.rank(), name),
            _thread: PhantomData,
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
