//! Checks of the memory that options ask for.

use std::process::ExitCode;

use crate::arguments;

/// The exit code for a bad command line.
const USAGE: u8 = 2;

/// Prints the message of [`check`].
pub(crate) fn refuse(name: &str, line: &str) -> ExitCode {
    arguments::complain(name, USAGE, line)
}

/// Checks that there is memory for `n` elements, before the ranks start. Returns the error message
/// if there is not.
pub(crate) fn check<T>(n: usize, option: &str) -> Result<(), String> {
    let mut room = Vec::<T>::new();
    let reserved = room.try_reserve_exact(n);
    reserved.map_err(|why| format!("{option} {n}: {why}"))
}
