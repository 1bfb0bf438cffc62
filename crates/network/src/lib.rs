//! Common parts of the backends between hosts: hosts of ranks, notes between ranks, credits,
//! atomics at their target, limits of waits, parking, and connections that show which hosts live.
//! It knows no transport.
//!
//! It is for backends, and changes with them: programs have no use for it.
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | messages and their credits; atomics | `atomics`, `peer` |
//! | messages between libraries | `note` |
//! | all else | `addresses`, `host`, `lifeline`, `limits`, `mix`, `park` |

pub mod addresses;
pub mod atomics;
pub mod host;
pub mod lifeline;
pub mod limits;
pub mod mix;
pub mod note;
pub mod park;
pub mod peer;
