//! What a job of `pgas` did, from the [traces](pgas_core::trace) of its ranks.
//!
//! The program `pgas-report` is a command line around this crate: [`read`](read::read) the files,
//! [`align`](align::align) the clocks, [`Job::of`](analysis::Job::of) what they say, and write it
//! as [a page](html::page), for [other viewers](chrome::write) or in [words](words::hints).
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | pages | `html` |
//! | pictures, other viewers' format | `chrome`, `timeline` |
//! | words | `words` |
//! | what happened | `analysis` |
//! | one time for all | `align` |
//! | files | `read` |

pub mod align;
pub mod analysis;
pub mod chrome;
pub mod html;
pub mod read;
mod timeline;
pub mod words;
