//! Hosts that share no memory, made of namespaces on one machine, for tests over a real network path.
//!
//! Each host of [`Hosts`] has network interfaces, a name, mounts, System V memory and processes of its own:
//! its own `/tmp`, `/dev/shm`, `/proc`, `/sys` and `/etc/hosts`. All other files are shared, as home folders
//! of a cluster are. A [`Link`] joins the hosts, clean or bad. [`Mpirun`] starts programs on them as MPI
//! libraries do: with the library's own launcher on the first host, which reaches the others through an agent
//! that stands in for `ssh`.
//!
//! Nothing of the hosts outlives the process that made them, however it ends. The first process of each waits
//! for the end of a pipe that only the maker holds open; it is the init process of its PID namespace, so the
//! kernel kills the rest with it; and namespaces without names end with their processes.
//!
//! Making hosts needs root (or a user namespace of one's own: `unshare --map-root-user`), the programs
//! `unshare`, `nsenter` and `mount` of util-linux and `ip` of iproute2. Where something is missing, an
//! [`Error`] says what; tests then fail, and only `PGAS_TEST_HOSTS=off` in the environment leaves them out.
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

/// Why there are no hosts, on one line.
#[derive(Debug, thiserror::Error)]
#[error("cannot make test hosts: {0}")]
pub struct Error(String);

/// Whether tests are to make hosts: not with `PGAS_TEST_HOSTS=off` in the environment.
#[must_use]
pub fn are_wanted() -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "a setting of the tests, not of the library"
    )]
    let setting = std::env::var("PGAS_TEST_HOSTS");
    setting.as_deref() != Ok("off")
}
