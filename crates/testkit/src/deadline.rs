//! Time limits for tests that hang.

use std::io::Write;
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
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
    _alive: Sender<()>,
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
        thread::Builder::new()
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
        Self { _alive: alive }
    }
}
