//! Ranks that are killed at random moments. `PGAS_TEST_KILLS` sets the number of jobs.

use std::fs;

use pgas_testkit::kills::Kills;
use pgas_testkit::setting;

use crate::{example, launchers, mpirun, sequence};

/// Bases whose k-mers are counted. Few without the direct path, where each k-mer takes several
/// context switches.
const WAYS: [(&str, usize); 2] = [("1", 30_000), ("0", 1000)];

#[test]
fn whenever_a_rank_is_killed_the_job_fails_at_once_and_leaves_nothing() {
    let [directory, input] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let kills = Kills {
        program: &example("kmer_count"),
        code: None,
        directory: directory.path(),
        // Open MPI blocks in `PMIx_server_finalize` on its own lock if a rank dies while it starts
        // the others. This was seen with version 4.1.4, also with a program that only calls MPI.
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
