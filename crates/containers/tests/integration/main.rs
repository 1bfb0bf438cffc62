//! Programs of several ranks on containers, from outside.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

mod collectives;
mod deep_stack;
mod documented;
mod figures;
mod further_slots;
mod outcomes;
mod prices;
mod traced_phases;
mod unchanged;
mod weak_network;
