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
//! | pictures, other viewers' format | `chrome`, `timeline` |
//! | statistics | `statistics` |
//! | words | `words` |
//! | activities and waits | `analysis` |
//! | phases of containers | `phases` |
//! | clock alignment | `align` |
//! | files | `read` |

pub mod align;
pub mod analysis;
pub mod chrome;
pub mod html;
pub mod phases;
pub mod read;
pub mod statistics;
mod timeline;
pub mod words;
