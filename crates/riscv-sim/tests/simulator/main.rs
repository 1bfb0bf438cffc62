//! The simulator from outside: guests on functional and timed machines, beside QEMU and binutils,
//! and the program `rae`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cores;
mod extremes;
mod gdb;
mod guest_c;
mod images;
mod linux;
mod lost_output;
mod memory_model;
mod objdump;
mod outputs;
mod privileged;
mod qemu;
mod remote;
mod timed_cli;
mod timed_guests;
mod traps;
mod workloads;
