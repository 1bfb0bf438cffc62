//! No views on terminals: this program was built without feature `terminal`, and a job is shown in
//! plain lines.

use std::time::Duration;

use pgas_smp::launcher::{self, Sink, Stream};

use super::lines;
use super::picture::Picture;

/// Where a job is shown: in plain lines.
#[derive(Clone, Debug)]
pub(crate) struct View;

#[expect(clippy::unused_self, reason = "as with feature `terminal`")]
impl View {
    pub(crate) fn new() -> Self {
        Self
    }

    /// No view: what the launcher tells is all that there is.
    pub(crate) fn none() -> Self {
        Self
    }

    /// How long nothing new is shown.
    pub(crate) fn usual_pause(&self) -> Duration {
        Duration::from_secs(5)
    }

    pub(crate) fn show(&self, picture: &Picture) {
        super::tell_lines(&lines::summary(picture));
    }

    /// Tells a line of the launcher's.
    pub(crate) fn tell(&self, line: &str) {
        launcher::tell(line);
    }

    /// Nothing: what is written stays.
    pub(crate) fn hide(&self, _: bool) {}

    /// None: output goes where it goes without a view.
    pub(crate) fn sink(&self, _: Stream) -> Option<Sink> {
        None
    }
}
