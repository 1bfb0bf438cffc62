//! Common parts of the examples of remote calls: start and end, measurements and output.

mod progress;

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use pgas::collective::op::Sum;
use pgas::{Rank, World};

use crate::arguments;

pub(crate) use progress::progress_bar;

/// What ends a program: an error of the library, or of its output.
pub(crate) type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Runs `program` as a rank of the job. Its result says whether its results were right. Errors are
/// reported in one line.
pub(crate) fn start(
    name: &str,
    ranks: Option<u32>,
    program: impl FnOnce(&World) -> Result<bool>,
) -> ExitCode {
    let world = match arguments::join(name, ranks) {
        Ok(world) => world,
        Err(code) => return code,
    };
    match program(&world) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => arguments::fail(name, Some(&world), &*error, &error.to_string()),
    }
}

/// Whether `is_right` holds on every rank. Collective.
pub(crate) fn all(world: &World, is_right: bool) -> pgas::Result<bool> {
    Ok(world.allreduce(u64::from(!is_right), Sum)? == 0)
}

/// Prints the result, on rank 0 alone.
pub(crate) fn print(world: &World, text: impl Display) -> io::Result<()> {
    if world.rank() != Rank::ZERO {
        return Ok(());
    }
    let printed = writeln!(io::stdout(), "{text}");
    printed.map_err(|error| io::Error::new(error.kind(), format!("standard output: {error}")))
}

/// A number that looks random, for each `n` (the last step of SplitMix64).
pub(crate) fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
