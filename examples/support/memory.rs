//! Memory as an option asks for it, which may be more than there is.

use std::process::ExitCode;

use crate::arguments;

/// The exit code for a command line that makes no sense.
const USAGE: u8 = 2;

/// Tells what [`check`] has said.
pub(crate) fn refuse(name: &str, line: &str) -> ExitCode {
    arguments::complain(name, USAGE, line)
}

/// Whether there is room for `n` elements, looked at before there are ranks: the line that says that there is none.
pub(crate) fn check<T>(n: usize, option: &str) -> Result<(), String> {
    let mut room = Vec::<T>::new();
    let reserved = room.try_reserve_exact(n);
    reserved.map_err(|why| format!("{option} {n}: {why}"))
}
