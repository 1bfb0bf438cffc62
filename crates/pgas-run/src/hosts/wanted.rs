//! What the user wants of a job over hosts.

use std::ffi::OsString;
use std::net::IpAddr;
use std::time::Duration;

use super::list::Host;

/// A job, as the command line has it.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) hosts: Vec<Host>,
    /// What starts something on a host, whose name and words follow.
    pub(crate) agent: Vec<OsString>,
    /// Where to listen; where this host is reached from others if it is not told.
    pub(crate) bind: Vec<IpAddr>,
    /// How long hosts may take to connect.
    pub(crate) patience: Duration,
    pub(crate) silence: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) prefix: bool,
    /// Whether to show what the ranks do, and how often if that was said.
    #[expect(
        clippy::option_option,
        reason = "given or not, with a value or without"
    )]
    pub(crate) watch: Option<Option<Duration>>,
    pub(crate) command: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
}
