//! The options of a job over several hosts.

use std::ffi::OsString;
use std::net::IpAddr;
use std::time::Duration;

use super::list::Host;

/// A job, as the command line has it.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) hosts: Vec<Host>,
    /// The command that starts a program on a host; the host's name and the program's words follow.
    pub(crate) agent: Vec<OsString>,
    /// The addresses to listen at; if there are none, all addresses of this host.
    pub(crate) bind: Vec<IpAddr>,
    /// The time in which all hosts must connect.
    pub(crate) patience: Duration,
    pub(crate) silence: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) prefix: bool,
    /// Whether to show what the ranks do, and the interval if one is given.
    #[expect(
        clippy::option_option,
        reason = "given or not, with a value or without"
    )]
    pub(crate) watch: Option<Option<Duration>>,
    pub(crate) command: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
}
