//! Progress of the long stages.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use pgas::prelude::*;

/// A progress bar, drawn by rank 0 alone and only on a terminal.
pub(super) fn progress_bar(world: &World, what: &'static str, n: u64) -> ProgressBar {
    if world.rank() != Rank::ZERO {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:>9} {wide_bar} {percent}% {eta}");
    ProgressBar::new(n)
        .with_style(style.expect("the template is right"))
        .with_finish(ProgressFinish::AndClear)
        .with_message(what)
}
