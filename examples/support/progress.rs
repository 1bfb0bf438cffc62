//! The progress bar of the examples.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use pgas::{Rank, World};

/// A progress bar, drawn by rank 0 alone, if it is to `show` it, and only on a terminal.
pub(crate) fn progress_bar(world: &World, what: &str, n: u64, show: bool) -> ProgressBar {
    if !show || world.rank() != Rank::ZERO {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:>10} {wide_bar} {percent}% {eta}");
    ProgressBar::new(n)
        .with_style(style.expect("the template is right"))
        .with_finish(ProgressFinish::AndClear)
        .with_message(what.to_owned())
}
