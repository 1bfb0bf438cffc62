//! Time limits for tests that hang.

use std::io::Write;
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::soon::Patience;

/// Ends the process with a message that names the test, unless it is dropped in time. Time is
/// measured by the clock of [`Moment`](crate::soon::Moment).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// let _deadline = pgas_testkit::Deadline::new("a test that ends", Duration::from_secs(10));
/// ```
#[derive(Debug)]
#[must_use = "a deadline ends when it is dropped"]
pub struct Deadline {
    alive: Option<Sender<()>>,
    watchdog: Option<JoinHandle<()>>,
    /// The process that has the watchdog, and not one that was forked from it.
    pid: u32,
}

impl Deadline {
    /// Starts the watchdog: `what` may take `limit`.
    ///
    /// # Panics
    ///
    /// If the system has no thread for the watchdog.
    pub fn new(what: impl Into<String>, limit: Duration) -> Self {
        let (alive, watch) = mpsc::channel();
        let (what, patience) = (what.into(), Patience::new(limit));
        let watchdog = thread::Builder::new()
            .name("deadline".into())
            .spawn(move || {
                if patience.receive(&watch) == Err(RecvTimeoutError::Timeout) {
                    let text =
                        format!("\n{what} took more than {limit:?}: the process is aborted\n");
                    // Nothing can be done if standard error is closed.
                    drop(std::io::stderr().write_all(text.as_bytes()));
                    process::abort();
                }
            })
            .expect("a thread for the watch");
        Self {
            alive: Some(alive),
            watchdog: Some(watchdog),
            pid: process::id(),
        }
    }
}

impl Drop for Deadline {
    /// Waits for the watchdog's end: what a thread still has when the process ends is a leak to who
    /// looks for these.
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Some(watchdog) = self.watchdog.take()
            && process::id() == self.pid
        {
            drop(watchdog.join());
        }
    }
}
