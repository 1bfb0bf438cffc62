//! `pgas-run -n 4 PROGRAM ARGS...`: starts the ranks of a program on this host, or on several.
#![doc = include_str!("../README.md")]

#[cfg(all(target_os = "linux", not(pgas_portable)))]
mod code;
#[cfg(all(target_os = "linux", not(pgas_portable)))]
mod hosts;
#[cfg_attr(any(pgas_portable, not(target_os = "linux")), path = "elsewhere.rs")]
mod linux;

use std::process::ExitCode;

fn main() -> ExitCode {
    linux::main()
}
