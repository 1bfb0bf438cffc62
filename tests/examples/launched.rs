//! Mistakes that each rank of a launcher finds by itself, before it has joined the others.

use std::process::Command;

use pgas_testkit::job;

use crate::program::program;

#[test]
fn a_rank_whose_rank_0_is_late_tells_why_it_ends() {
    let mistakes: [(_, &[&str], _, _); 2] = [
        ("extend_add", &["--matrix", "nope"], 1, "--matrix nope: "),
        (
            "isx",
            &["--keys-per-rank", "99999999999999"],
            2,
            "--keys-per-rank 99999999999999: ",
        ),
    ];
    for (name, arguments, code, told) in mistakes {
        let mut command = Command::new(program(name));
        command.args(arguments).env_remove("PGAS_RANKS");
        // As `srun` starts rank 1 of 3.
        for (name, value) in [
            ("SLURM_JOB_ID", "7"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "3"),
        ] {
            command.env(name, value);
        }
        let ended = job::start(command).end();
        assert_eq!(ended.code(), code, "{ended:?}");
        let line = format!("{name}: {told}");
        assert!(ended.stderr.starts_with(&line), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    }
}
