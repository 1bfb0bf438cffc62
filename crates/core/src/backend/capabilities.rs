//! The capabilities of a transport, and its demands on ranks.

/// The abilities of a transport and its demands on ranks; the same on every rank of a job.
///
/// # Examples
///
/// A rank that computes for long makes progress if others need it:
///
/// ```
/// # let world = pgas_core::backend::loopback::world();
/// let capabilities = world.capabilities();
/// let is_needed = capabilities.ranks_serve_atomics() || capabilities.needs_target.get;
/// for _part in 0..100 {
///     // ... compute ...
///     if is_needed {
///         world.progress()?;
///     }
/// }
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The executor of atomics that go through the backend.
    pub atomics: AtomicsBy,
    /// Which operations wait for the target to call into the library.
    pub needs_target: NeedsTarget,
    /// The longest payload that travels in a message's first packet, in bytes.
    pub max_short: usize,
    /// The longest payload of one message, in bytes, to any rank; at least 512.
    pub max_medium: usize,
    /// The most bytes that the backend takes in one put or get, contiguous, strided or in
    /// fragments; core cuts longer ones.
    pub max_transfer: u64,
    /// Whether the transport starts one program file on all ranks, so that layers need not compare
    /// the ranks' programs.
    pub starts_one_program: bool,
}

impl Capabilities {
    /// Whether each rank executes the atomics on its own words, by its CPU, when it calls into the
    /// library. An atomic of a rank that has not mapped the word is then a message, and an answer.
    /// So a layer can also send several atomics that belong together in one message.
    #[must_use]
    pub fn ranks_serve_atomics(&self) -> bool {
        self.atomics == AtomicsBy::Cpu && self.needs_target.atomics
    }
}

/// The executor of atomics that go through the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicsBy {
    /// A CPU, with its atomic instructions: coherent with the direct path's.
    Cpu,
    /// The network or its library: not coherent with CPU atomics on the same word, so core then
    /// sends every atomic through the backend, a rank's own words included, unless every rank is
    /// mapped.
    Network,
}

/// Which operations complete only when the target calls into the library (`progress`, a wait, a
/// barrier). A program that computes for long asks this to know whether its peers stall meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedsTarget {
    /// Puts, and the flush behind them.
    pub put: bool,
    /// Gets.
    pub get: bool,
    /// Atomics.
    pub atomics: bool,
}

impl NeedsTarget {
    /// Nothing waits for the target.
    pub const NOTHING: Self = Self {
        put: false,
        get: false,
        atomics: false,
    };
    /// Everything waits for the target.
    pub const EVERYTHING: Self = Self {
        put: true,
        get: true,
        atomics: true,
    };
}
