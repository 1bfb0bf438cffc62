//! Ranks that are killed at random moments. `PGAS_TEST_KILLS` says how many.

use std::fs;

use pgas_testkit::kills::Kills;
use pgas_testkit::setting;

use crate::{example, launchers, mpirun, sequence};

/// Bases to count the k-mers of; few without the direct path, where each takes several turns of the ranks.
const WAYS: [(&str, usize); 2] = [("1", 30_000), ("0", 1000)];

#[test]
fn whenever_a_rank_is_killed_the_job_fails_at_once_and_leaves_nothing() {
    let [directory, input] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let kills = Kills {
        program: &example("kmer_count"),
        code: None,
        directory: directory.path(),
        // Open MPI's blocks in `PMIx_server_finalize` on a lock of its own if a rank dies while it
        // starts the others; seen with version 4.1.4, with a program that only calls MPI, too.
        launcher_may_hang: launchers()[0][0] == "mpirun.openmpi",
    };
    let n_kills = setting("PGAS_TEST_KILLS", 4);
    for (direct, n_bases) in WAYS {
        let reads = input.path().join("reads.fa");
        fs::write(&reads, format!(">some\n{}\n", sequence(n_bases))).unwrap();
        kills.run(n_kills.div_ceil(2), || {
            let mut command = mpirun(4, "kmer_count");
            command.args(["-k21", "-C"]).arg(&reads);
            command.env("OMPI_MCA_orte_tmpdir_base", directory.path());
            command.env("PGAS_DIRECT", direct);
            command
        });
    }
}
