//! What the backends between hosts share: who shares a host, what ranks tell each other besides the program's
//! messages, credits, limits of waits, and connections that show which hosts live. It knows no transport.
//!
//! It is for backends, and changes with them: programs have no use for it.
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | all | `addresses`, `host`, `lifeline`, `limits`, `note`, `peer` |

pub mod addresses;
pub mod host;
pub mod lifeline;
pub mod limits;
pub mod note;
pub mod peer;
