//! Statistics: what each rank counts (`PGAS_STATS`), and the table of all of them at the end of the
//! job.
//!
//! A rank counts in the words of its [`Board`], which other processes of its host can read when it
//! is dead.

mod board;
mod counting;
mod figures;
mod report;
#[cfg(test)]
mod tests;

pub use board::Board;
pub(crate) use counting::{Counting, Opening, Origin};
pub use report::Report;
