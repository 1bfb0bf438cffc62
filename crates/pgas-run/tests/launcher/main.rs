//! Linux only: jobs of real processes, started by `pgas-run`, by the program itself, and by foreign
//! launchers.

#![cfg(all(target_os = "linux", not(pgas_portable)))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod exit;
mod extremes;
mod faults;
mod foreign;
mod hosts;
mod job;
mod output;
mod self_launch;
mod signals;
#[cfg(feature = "terminal")]
mod terminal;
mod watch;
