//! Hosts that share no memory, made of namespaces on one machine, for tests over a real network
//! stack.
//!
//! Each host of [`Hosts`] has its own network interfaces, name, mounts, System V memory and
//! processes, with its own `/tmp`, `/dev/shm`, `/proc`, `/sys` and `/etc/hosts`. All other files
//! are shared, like home folders of a cluster. A [`Link`] joins the hosts, clean or bad. [`Mpirun`]
//! starts programs on them with the MPI library's own launcher. The launcher runs on the first
//! host, and reaches the others through an agent that replaces `ssh`.
//!
//! Hosts end with the process that made them, however it ends. The first process of each host waits
//! for the end of a pipe that only the maker holds open. It is the init process of its PID
//! namespace, so the kernel kills all others with it. Namespaces without names end with their
//! processes.
//!
//! Making hosts needs root (or a user namespace: `unshare --map-root-user`), the programs
//! `unshare`, `nsenter` and `mount` of util-linux, and `ip` of iproute2. If something is missing,
//! an [`Error`] says what, and tests fail. Only `PGAS_TEST_HOSTS=off` in the environment leaves
//! them out.
//!
//! ```no_run
//! use pgas_test_hosts::{Hosts, Launcher, Link};
//!
//! let hosts = Hosts::new(2, Link::Clean)?;
//! let mut ranks = hosts.mpirun(Launcher::OpenMpi).per_host(2).command("target/debug/examples/hello");
//! assert!(ranks.status()?.success());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod hosts;
mod link;
mod mpirun;
mod run;
mod tap;

pub use hosts::Hosts;
pub use link::{Conditions, Link, Traffic};
pub use mpirun::{Launcher, Mapping, Mpirun};
pub use run::{Ended, Running};

/// The reason why hosts cannot be made, in one line.
#[derive(Debug, thiserror::Error)]
#[error("cannot make test hosts: {0}")]
pub struct Error(String);

/// Whether tests use hosts: not with `PGAS_TEST_HOSTS=off` in the environment.
#[must_use]
pub fn are_wanted() -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "a setting of the tests, not of the library"
    )]
    let setting = std::env::var("PGAS_TEST_HOSTS");
    setting.as_deref() != Ok("off")
}
