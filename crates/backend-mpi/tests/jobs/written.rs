//! The statistics and traces of all ranks are written, through the window and by loads and stores.

use crate::figures::{self, Figures};
use crate::{assert_well, ranks, run, world};

const N_RANKS: u32 = 3;

pub(crate) fn written(direct: &str) {
    let mut command = ranks(N_RANKS, "count", "", direct);
    let figures = Figures::of(&mut command, env!("CARGO_TARGET_TMPDIR"));
    assert_well(&run(command));
    let place = if direct == "1" { "near" } else { "remote" };
    figures.check(N_RANKS, place);
}

pub(crate) fn count(_: &str) {
    figures::play(&world());
}
