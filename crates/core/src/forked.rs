//! Whether this process is a rank, or was forked from one.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How many forks lie between this process and the first that counted them, once `ARE_COUNTED`.
static N_FORKS: AtomicU32 = AtomicU32::new(0);
static ARE_COUNTED: AtomicBool = AtomicBool::new(false);

/// The process that is a rank. A forked child has copies of all that the rank holds, and drops them
/// if it returns or panics. The drop of whatever others depend on asks
/// [`is_forked`](Self::is_forked) first: the child would give away what its parent still has. A child
/// that was made by `clone` instead of `fork` must drop nothing: nobody may tell it from the rank.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    id: u32,
    n_forks: u32,
}

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
        Self {
            id: process::id(),
            n_forks: N_FORKS.load(Ordering::Relaxed),
        }
    }

    /// From here on every child that is forked calls [`note_fork`](Self::note_fork) before anything
    /// else. For transports, which have the system call it.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Examples
    ///
    /// ```
    /// // A transport has told the system, as by `pthread_atfork`.
    /// pgas_core::Process::forks_are_counted();
    /// assert!(!pgas_core::Process::this().is_forked());
    /// ```
    pub fn forks_are_counted() {
        ARE_COUNTED.store(true, Ordering::Relaxed);
    }

    /// Notes that this process has just been forked.
    ///
    /// # Cost
    ///
    /// ℓ. A handler of signals may call it.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::Process;
    ///
    /// Process::forks_are_counted();
    /// let parent = Process::this();
    /// Process::note_fork(); // in the child
    /// assert!(parent.is_forked());
    /// ```
    pub fn note_fork() {
        N_FORKS.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether this process was forked from that one.
    ///
    /// # Cost
    ///
    /// ℓ where forks are counted, as in jobs of processes; else a system call.
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
        // A lock asks at each release: a system call takes as long as that.
        if ARE_COUNTED.load(Ordering::Relaxed) {
            self.n_forks != N_FORKS.load(Ordering::Relaxed)
        } else {
            self.id != process::id()
        }
    }
}
