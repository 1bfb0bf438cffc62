//! Analyses a job of `pgas` by the [traces](pgas_core::trace) of its ranks.
//!
//! The program `pgas-report` is a command line around this crate. It [reads](read::read) the files,
//! [aligns](align::align) the clocks, [analyses](analysis::Job::of) the traces, and writes the
//! result as [a page](html::page), for [other viewers](chrome::write) or in [words](words::hints).
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | pages | `html` |
//! | pictures, parts of a page, other viewers' format | `chrome`, `sections`, `timeline` |
//! | tables, words | `table`, `words` |
//! | jobs | `analysis` |
//! | activities by name | `lines` |
//! | activities of a rank, phases of containers | `phases`, `stretches` |
//! | clock alignment, statistics | `align`, `statistics` |
//! | files, shown numbers, common times | `intervals`, `read`, `units` |

pub mod align;
pub mod analysis;
pub mod chrome;
pub mod html;
mod intervals;
pub mod lines;
pub mod phases;
pub mod read;
mod sections;
pub mod statistics;
pub mod stretches;
mod table;
mod timeline;
pub mod units;
pub mod words;
