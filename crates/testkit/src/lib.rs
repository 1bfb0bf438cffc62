//! The tools of the tests: deadlines, bounds on the time of a job's end, repeatable random numbers,
//! jobs of processes, the faults of a rank, transports that fail or are as weak as the contract
//! allows, and a checker of histories. The conformance suite is `pgas-conformance`.

pub mod conversation;
mod deadline;
mod example;
pub mod extremes;
pub mod fault;
pub mod faulty;
#[cfg(target_os = "linux")]
mod forked;
pub mod job;
pub mod kills;
pub mod linearizability;
mod random;
mod ranks;
mod setting;
pub mod soon;
pub mod weak;

pub use deadline::Deadline;
pub use example::{example, examples_are_optimized};
#[cfg(target_os = "linux")]
pub use forked::drop_in_child;
pub use pgas_core::process::panic_text;
pub use random::{rng, rng_of};
pub use setting::setting;
