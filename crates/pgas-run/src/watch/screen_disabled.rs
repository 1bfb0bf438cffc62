//! No views on terminals: this program was built without feature `terminal`, and a job is shown in
//! plain lines.

use std::time::Duration;

use pgas_smp::launcher::{self, Sink, Stream};

use super::lines;
use super::picture::Picture;

/// The view of a job: in plain lines.
#[derive(Clone, Debug)]
pub(crate) struct View;

#[expect(clippy::unused_self, reason = "as with feature `terminal`")]
impl View {
    pub(crate) fn new() -> Self {
        Self
    }

    /// No view: only the launcher's own lines are printed.
    pub(crate) fn none() -> Self {
        Self
    }

    /// The default interval between two pictures.
    pub(crate) fn usual_pause(&self) -> Duration {
        Duration::from_secs(5)
    }

    pub(crate) fn show(&self, picture: &Picture) {
        super::tell_lines(&lines::summary(picture));
    }

    /// Prints a line of the launcher's own.
    pub(crate) fn tell(&self, line: &str) {
        launcher::tell(line);
    }

    /// Does nothing: there is nothing to hide.
    pub(crate) fn hide(&self, _: bool) {}

    /// None: output has its usual destination.
    pub(crate) fn sink(&self, _: Stream) -> Option<Sink> {
        None
    }
}
