//! Common parts of the backends between hosts: the ranks of a host and how they are reached,
//! messages that travel together, notes between ranks, credits, atomics at their target, limits of
//! waits, parking, and connections that show which hosts are alive. Nothing here depends on a
//! transport.
//!
//! The crate is for backends, and changes with them: programs have no use for it.
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | sending and receiving of messages; failures; waits | `failure`, `receive`, `send`, `wait` |
//! | messages and their credits; atomics; the ranks of the host | `atomics`, `neighbours`, `peer` |
//! | messages between libraries; their bytes | `bundle`, `note` |
//! | all else | `addresses`, `host`, `introduction`, `lifeline`, `limits`, `mix`, `park`, `questions` |

pub mod addresses;
pub mod atomics;
pub mod bundle;
pub mod failure;
pub mod host;
pub mod introduction;
pub mod lifeline;
pub mod limits;
pub mod mix;
pub mod neighbours;
pub mod note;
pub mod park;
pub mod peer;
pub mod questions;
pub mod receive;
pub mod send;
pub mod wait;
