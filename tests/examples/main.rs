//! The examples of remote calls and active messages, as their users start them.

#![expect(clippy::unwrap_used, reason = "what cannot be started fails the test")]

mod dht_rpc;
mod extend_add;
mod kernels;
mod run;
#[cfg(feature = "tokio")]
mod tokio;
