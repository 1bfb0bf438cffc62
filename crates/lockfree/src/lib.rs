//! The lock-free structures of `pgas`: algorithms on words that ranks, and threads of a rank,
//! share.
//!
//! | structure | for |
//! |---|---|
//! | [`mailbox`] | messages from many senders to one receiver |
//! | [`credits`] | the share of a mailbox that a sender may take |
//! | [`payload`] | buffers that senders fill in place |
//! | [`barrier`] | all ranks wait for all |
//! | [`roster`] | the members of a job, and its first failure |
//! | [`doorbell`] | sleeping and waking between processes |
//! | [`tickets`] | queues with many producers and consumers |
//! | [`slots`] | hash tables |
//! | [`pending`] | answers that threads of a rank wait for |
//! | [`message_counts`] | counts of messages, a word a thread, and whether all were served |
//! | [`word`], [`memory`] | single words and larger blocks that all ranks access |
//!
//! They work on borrowed atomic words: no pointers, valid when zero, the same at every address. The
//! caller passes in what depends on the system or the processor: mapped memory, sleeping
//! ([`doorbell::Bell`]), hints ([`machine::Machine`]).
//!
//! # Models
//!
//! Under `--cfg loom` the words are loom's, which runs a model through every interleaving and every
//! value that a weak load may return. The models run the code that ships. `cargo xtask loom` runs
//! them all; `cargo xtask mutants` shows that they notice weaker orderings.
//!
//! # Floors
//!
//! A module imports from the floors below its own; `cargo xtask tidy` checks it.
//!
//! | floor | modules |
//! |---|---|
//! | messages | `mailbox` |
//! | structures of words, and the machine operations of mailboxes | `machine`, `slots`, `tickets` |
//! | independent structures | `barrier`, `credits`, `doorbell`, `payload`, `pending`, `roster`, `message_counts` |
//! | words | `memory`, `word` |
//! | the standard library's atomics, or loom's | `sync` |

#![forbid(unsafe_code)]

#[cfg(test)]
#[cfg(loom)]
mod models;

pub mod barrier;
pub mod credits;
pub mod doorbell;
pub mod machine;
pub mod mailbox;
pub mod memory;
pub mod message_counts;
pub mod payload;
pub mod pending;
pub mod roster;
pub mod slots;
pub mod sync;
pub mod tickets;
pub mod word;
