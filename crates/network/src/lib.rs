//! What the backends between hosts share: who shares a host, what ranks tell each other besides the program's
//! messages, credits, atomics at their target, limits of waits, how they park, and connections that show which hosts live. It
//! knows no transport.
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
//! | what ranks tell each other | `note` |
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
