//! Named spans of the program, in its trace.

use std::fmt;

use crate::trace::{Kind, Trace};
use crate::world::World;

/// A named section of the program in its trace, which ends when this is dropped; from
/// [`World::span`].
#[must_use = "the span ends when this is dropped"]
pub struct Span<'w> {
    trace: Option<(&'w Trace, u16)>,
    #[cfg(feature = "tracing")]
    _entered: tracing::span::EnteredSpan,
}

impl World {
    /// Begins a section of the program called `name`, on this thread, until the span is dropped.
    /// Traces (`PGAS_TRACE`) show it. With feature `tracing` it is also a span of that crate,
    /// called `pgas`, with the fields `name` and `rank` and level `INFO`. Without both it has no
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

#[cfg(all(test, feature = "tracing"))]
mod tests {
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use crate::backend::loopback;

    /// A subscriber that records its calls.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);

    impl Log {
        fn note(&self, text: String) {
            self.0.lock().expect("nobody panicked").push(text);
        }
    }

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            *self.0 += &format!(" {}={value:?}", field.name());
        }
    }

    impl Subscriber for Log {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::INFO
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut text = span.metadata().name().to_owned();
            span.record(&mut Fields(&mut text));
            self.note(text);
            Id::from_u64(1)
        }

        fn enter(&self, _: &Id) {
            self.note("enter".to_owned());
        }

        fn exit(&self, _: &Id) {
            self.note("exit".to_owned());
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {}
    }

    #[test]
    fn a_subscriber_sees_the_spans_of_the_program_without_any_trace() {
        let log = Log::default();
        tracing::subscriber::with_default(log.clone(), || {
            let world = loopback::world();
            assert!(world.trace().is_none());
            drop(world.span("sort"));
        });
        let told = log.0.lock().unwrap().clone();
        assert_eq!(told, ["pgas name=\"sort\" rank=0", "enter", "exit"]);
    }
}
