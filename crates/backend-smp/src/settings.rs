//! Settings that all ranks of a job must have, on Linux: ranks with different ones would wait for
//! each other.

use std::sync::atomic::{Ordering, fence};

use pgas_core::{Config, Error, Result};

use crate::control::Control;

/// The names of the settings, from the lowest bit on, and who has a one by default.
const NAMES: [(&str, &str); 2] = [
    (
        "PGAS_CHECK",
        " (1 is the default of builds with debug assertions)",
    ),
    ("PGAS_DIRECT", ""),
];

/// The settings as bits: whether collectives compare their calls, and whether ranks reach each
/// other's memory.
pub(crate) fn of(config: &Config) -> u32 {
    let check = config.check.unwrap_or(false);
    u32::from(check) | u32::from(config.direct) << 1
}

/// An error if another rank that has joined has other settings than `rank`, which has joined
/// itself. Of two that join at the same time at least one gets it.
pub(crate) fn compare(control: Control<'_>, (rank, n_ranks): (u32, u32), own: u32) -> Result<()> {
    // Each has stored its own settings before, and loads those of others after it.
    fence(Ordering::SeqCst);
    let others = (0..n_ranks).filter(|other| *other != rank);
    for other in others {
        let theirs = control.place(other).settings().unwrap_or(own);
        if theirs != own {
            let bit = (own ^ theirs).trailing_zeros();
            let (name, default) = NAMES[usize::from(bit != 0)];
            let [own, theirs] = [own, theirs].map(|settings| settings >> bit & 1);
            let reason =
                format!("all ranks must have the same, but rank {other} has {theirs}{default}");
            return Err(Error::setting(name, own.to_string(), reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::layout::Layout;
    use crate::segment::Job;

    #[test]
    fn one_of_two_that_join_with_different_settings_finds_the_other() {
        for _ in 0..if cfg!(miri) { 5 } else { 500 } {
            let job = Job::anonymous(Layout {
                n_ranks: 2,
                segment_bytes: 1 << 20,
            })
            .unwrap();
            let control = job.control();
            let join = |rank: u32| {
                control.join(rank, 7, rank);
                compare(control, (rank, 2), rank)
            };
            let found = thread::scope(|scope| {
                let other = scope.spawn(|| join(1));
                [join(0), other.join().unwrap()]
            });
            assert!(found.iter().any(Result::is_err), "{found:?}");
            let told = found.into_iter().filter_map(Result::err);
            assert!(
                told.into_iter()
                    .all(|error| error.to_string().contains("PGAS_CHECK"))
            );
        }
    }
}
