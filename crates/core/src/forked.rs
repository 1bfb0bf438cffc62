//! Whether this process is a rank, or was forked from one.

use std::process;

/// The process that is a rank. A forked child has copies of all that the rank holds, and drops them
/// if it returns or panics. The drop of whatever others depend on asks
/// [`is_forked`](Self::is_forked) first: the child would give away what its parent still has.
#[derive(Clone, Copy, Debug)]
pub struct Process(u32);

impl Process {
    /// This process.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!pgas_core::Process::this().is_forked());
    /// ```
    #[must_use]
    pub fn this() -> Self {
        Self(process::id())
    }

    /// Whether this process was forked from that one.
    ///
    /// # Cost
    ///
    /// A system call.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::Process;
    ///
    /// /// What others see while this rank is at work.
    /// struct AtWork(Process);
    ///
    /// impl Drop for AtWork {
    ///     fn drop(&mut self) {
    ///         if !self.0.is_forked() {
    ///             // Tell them that it has ended.
    ///         }
    ///     }
    /// }
    /// # drop(AtWork(Process::this()));
    /// ```
    #[must_use]
    pub fn is_forked(self) -> bool {
        self.0 != process::id()
    }
}
