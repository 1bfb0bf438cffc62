//! Statistics: the counters of each rank (`PGAS_STATS`), and the table of all ranks at the end of
//! the job.
//!
//! A rank counts in the words of its [`Board`], which other processes of its host can read when it
//! is dead.

mod board;
mod counters;
mod counting;
mod figures;
mod first_set;
mod json;
mod latency;
mod live;
mod operations;
mod report;
pub(crate) mod steps;
#[cfg(test)]
mod tests;
mod works;

pub use board::Board;
pub(crate) use board::LONGEST_PATH;
pub(crate) use counting::{Counting, Opening, Origin};
pub(crate) use first_set::{FirstSet, Purpose};
pub(crate) use latency::Timed;
pub use live::{Counted, HEAD_BYTES, Live, LiveWait, LiveWork, Unit};
pub(crate) use live::{Now, Waiting};
pub(crate) use operations::Paid;
pub use operations::{Operation, Price};
pub use report::{Report, count, size, time};
pub(crate) use works::Works;
