//! The limit of open descriptors, of which a large job takes many.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};

/// Descriptors that a process needs besides those for its ranks or hosts: its own, its output and
/// its errors.
const SPARE: u64 = 64;

/// The former limit of a process, which its children keep.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorLimit(pub(super) Rlimit);

/// Raises this process's limit so that it may have `n_needed` open descriptors, as far as the
/// system allows, and returns the former limit.
///
/// # Errors
///
/// Errors of the system.
pub fn allow_descriptors(n_needed: u64) -> io::Result<DescriptorLimit> {
    let before = rustix::process::getrlimit(Resource::Nofile);
    let needed = n_needed + SPARE;
    if before.current.is_some_and(|current| current < needed) {
        let current = before.maximum.map_or(needed, |maximum| maximum.min(needed));
        let raised = Rlimit {
            current: Some(current),
            ..before
        };
        rustix::process::setrlimit(Resource::Nofile, raised)?;
    }
    Ok(DescriptorLimit(before))
}

/// What the user may do about an error of a process that has as many open descriptors as it may.
pub(super) fn limit_behind(error: &io::Error) -> &'static str {
    if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) {
        ": each rank takes some, and no more are allowed; raise `ulimit -Hn`, or start fewer ranks"
    } else {
        ""
    }
}
