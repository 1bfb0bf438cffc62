//! Ranks that are killed at random moments. `PGAS_TEST_KILLS` sets the number of jobs.

use pgas_testkit::kills::Kills;
use pgas_testkit::{job, setting};

use super::run::kmer_count;
use crate::program::{LAMBDA, program};

#[test]
fn whenever_a_rank_is_killed_the_job_fails_at_once_and_leaves_nothing() {
    if !job::ARE_POSSIBLE {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let kills = Kills {
        program: &program("kmer_count"),
        code: Some(128 + 9),
        directory: directory.path(),
        launcher_may_hang: false,
    };
    kills.run(setting("PGAS_TEST_KILLS", 5), || {
        let mut command = kmer_count(["-k31", "-C", LAMBDA]);
        command.env("PGAS_RANKS", "4");
        command
    });
}
