//! Phases of objects, in traces.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

#[cfg(feature = "tracing")]
use crate::rank::Rank;
#[cfg(feature = "tracing")]
use crate::seen::{self, Seen};
use crate::trace::{Kind, Trace};
use crate::waits::program_call;
use crate::world::World;

/// The phase of an object, in traces, until a [change](Self::change) or until this is dropped; from
/// [`World::phase`].
#[must_use = "the phase ends when this is dropped"]
#[derive(Default)]
pub struct InPhase {
    noted: Option<Noted>,
    #[cfg(feature = "tracing")]
    seen: Option<SeenPhase>,
}

struct Noted {
    trace: Arc<Trace>,
    object: &'static str,
    identity: u64,
    /// The number of the phase's name.
    name: u16,
}

/// The phase for a subscriber of the crate `tracing`.
#[cfg(feature = "tracing")]
struct SeenPhase {
    rank: Rank,
    object: (&'static str, u64),
    seen: Seen<tracing::Span>,
}

impl World {
    /// Records that an object, such as a `hash map`, is in the phase called `phase`. Traces
    /// (`PGAS_TRACE`) show it, with the line of the program. With feature `tracing` it is also a
    /// span of that crate, called `phase`, of level `INFO`, which is never entered. `identity` is a
    /// number of this object alone, the same on all ranks, such as the address of its memory on the
    /// first rank.
    ///
    /// # Cost
    ///
    /// ℓ; nothing but a branch without traces.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::{InPhase, Result, Symmetric, World};
    ///
    /// struct Table {
    ///     words: Symmetric<u64>,
    ///     phase: InPhase,
    /// }
    ///
    /// impl Table {
    ///     fn new(world: &World) -> Result<Self> {
    ///         let words = world.alloc_symmetric(10)?;
    ///         let phase = world.phase("table", words.member(0).to_bits(), "writing");
    ///         Ok(Self { words, phase })
    ///     }
    ///
    ///     fn end_writing(&mut self) -> Result<()> {
    ///         self.words.world().barrier()?;
    ///         self.phase.change("reading");
    ///         Ok(())
    ///     }
    /// }
    /// # Table::new(&pgas_core::backend::loopback::world())?.end_writing()?;
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn phase(&self, object: &'static str, identity: u64, phase: &str) -> InPhase {
        let noted = self.shared_trace().map(|trace| Noted {
            trace: Arc::clone(trace),
            object,
            identity,
            name: 0,
        });
        let mut this = InPhase {
            noted,
            #[cfg(feature = "tracing")]
            seen: Some(SeenPhase {
                rank: self.rank(),
                object: (object, identity),
                seen: Seen::nothing(),
            }),
        };
        this.begin(phase);
        this
    }
}

impl InPhase {
    /// Records that the object is in the phase called `phase` from now on.
    ///
    /// # Cost
    ///
    /// ℓ; nothing but a branch without traces.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let words = world.alloc_symmetric::<u64>(10)?;
    /// let mut phase = world.phase("table", words.member(0).to_bits(), "writing");
    /// words.here().put(&world, 1)?;
    /// world.barrier()?;
    /// phase.change("reading");
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn change(&mut self, phase: &str) {
        if let Some(noted) = &self.noted {
            noted.note(Kind::PhaseEnd);
        }
        self.begin(phase);
    }

    #[track_caller]
    fn begin(&mut self, phase: &str) {
        let at = Location::caller();
        if let Some(noted) = &mut self.noted {
            noted.begin(phase, at);
        }
        #[cfg(feature = "tracing")]
        if let Some(SeenPhase { rank, object, seen }) = &mut self.seen {
            // The span of the former phase ends first.
            *seen = Seen::nothing();
            *seen = seen::phase(*rank, *object, phase, program_call(at).at);
        }
    }
}

impl Noted {
    fn begin(&mut self, phase: &str, from: &'static Location<'static>) {
        let at = program_call(from).at;
        let (object, file, line) = (self.object, at.file(), at.line());
        let name = format!("{object}: {phase}@{file}:{line}");
        self.name = self.trace.name(&name);
        self.note(Kind::Phase);
    }

    fn note(&self, kind: Kind) {
        self.trace.note(kind, self.name, None, [self.identity, 0]);
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.note(Kind::PhaseEnd);
    }
}

impl fmt::Debug for InPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.noted.as_ref().map(|noted| noted.object);
        f.debug_tuple("InPhase").field(&object).finish()
    }
}
