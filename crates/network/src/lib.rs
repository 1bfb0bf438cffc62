//! What the backends between hosts share: who shares a host, what ranks tell each other besides the program's
//! messages, credits, and limits of waits. It knows no transport.
//!
//! It is for backends, and changes with them: programs have no use for it.
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | all | `host`, `limits`, `note`, `peer` |

pub mod host;
pub mod limits;
pub mod note;
pub mod peer;
