//! Jobs that Open MPI, MPICH and Slurm start, each with its real launcher if it is installed.

use crate::job::{Ended, start};
use crate::self_launch::{PART, variable};
use pgas_core::config::launch::Launcher;
use pgas_smp::launcher::{self, MeetError};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// The part that [`a_rank_of_a_foreign_job`] plays.
const MEMBER: &str = "member";

/// Runs in the processes that the tests below start through a launcher. Elsewhere it does nothing.
#[test]
fn a_rank_of_a_foreign_job() {
    if variable(PART).as_deref() != Some(MEMBER) {
        return;
    }
    let launcher = Launcher::detect(&variable).unwrap();
    let (kind, place) = match &launcher {
        Launcher::OpenMpi { place, .. } => ("Open MPI", *place),
        Launcher::Pmi { place, .. } => ("PMI", *place),
        Launcher::Slurm { place, .. } => ("Slurm", *place),
        other => panic!("started by {other:?}"),
    };
    let create = |n_ranks: u32| {
        let memory = memfd_create("job", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, n_ranks.into()).unwrap();
        Ok::<_, MeetError>(File::from(memory))
    };
    let memory = launcher::meet(&launcher, PATIENCE, create).unwrap();
    memory
        .write_all_at(&[10 + u8::try_from(place.rank).unwrap()], place.rank.into())
        .unwrap();
    let mut seen = vec![0; place.n_ranks as usize];
    crate::job::eventually("all ranks have written", || {
        memory.read_exact_at(&mut seen, 0).unwrap();
        !seen.contains(&0)
    });
    let line = format!(
        "\n{kind} rank {} of {} sees {seen:?}\n",
        place.rank, place.n_ranks
    );
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// Runs this test program through a launcher, as the ranks of a job.
fn launch(launcher: &[&str]) -> Ended {
    let mut command = Command::new(launcher[0]);
    command
        .args(&launcher[1..])
        .arg(std::env::current_exe().unwrap());
    command
        .args(["--exact", "foreign::a_rank_of_a_foreign_job", "--nocapture"])
        .env(PART, MEMBER);
    // Open MPI keeps a directory of its own for each user and host, also of jobs that were killed.
    command.env("OMPI_MCA_orte_tmpdir_base", std::env::temp_dir());
    start(command).end()
}

/// Runs jobs of several sizes one after another, and two at once.
fn all_ranks_meet(kind: &str, launcher: &[&str]) {
    for n_ranks in [1, 2, 5] {
        assert_meeting(
            kind,
            n_ranks,
            &launch(&[launcher, &["-n", &n_ranks.to_string()]].concat()),
        );
    }
    std::thread::scope(|scope| {
        for n_ranks in [3, 4] {
            scope.spawn(move || {
                let ended = launch(&[launcher, &["-n", &n_ranks.to_string()]].concat());
                assert_meeting(kind, n_ranks, &ended);
            });
        }
    });
}

fn assert_meeting(kind: &str, n_ranks: u8, ended: &Ended) {
    assert_eq!(ended.code(), 0, "{ended:?}");
    let seen: Vec<u8> = (0..n_ranks).map(|rank| 10 + rank).collect();
    for rank in 0..n_ranks {
        let line = format!("{kind} rank {rank} of {n_ranks} sees {seen:?}");
        assert!(
            ended.stdout.lines().any(|found| found == line),
            "no {line:?} in {ended:?}"
        );
    }
}

/// Whether `command` runs and prints `word`. If not, a note on standard error says what is left
/// out.
pub(crate) fn is_there(command: &[&str], word: &str, package: &str) -> bool {
    let output = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .output();
    let there = output.is_ok_and(|output| {
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains(word)
    });
    if !there {
        // Past the test harness, which would keep it to itself.
        let note = format!(
            "note: {} not found, left out (package {package})\n",
            command[0]
        );
        std::io::stderr().write_all(note.as_bytes()).unwrap();
    }
    there
}

#[test]
fn ranks_of_open_mpi_meet() {
    for mpirun in ["mpirun.openmpi", "mpirun"] {
        if is_there(&[mpirun, "--version"], "open-mpi.org", "openmpi-bin") {
            all_ranks_meet(
                "Open MPI",
                &[mpirun, "--allow-run-as-root", "--oversubscribe"],
            );
            return;
        }
    }
}

#[test]
fn ranks_of_mpich_meet() {
    if is_there(&["mpiexec.hydra", "--version"], "HYDRA", "mpich") {
        all_ranks_meet("PMI", &["mpiexec.hydra"]);
    }
}

#[test]
fn ranks_of_slurm_meet() {
    // The command alone is not enough: it needs a cluster, which may be this host alone.
    if is_there(
        &["sinfo", "--noheader", "--states=idle,mixed"],
        "up",
        "slurm-wlm, running",
    ) {
        all_ranks_meet("Slurm", &["srun", "--mpi=none", "--overcommit"]);
        all_ranks_meet("PMI", &["srun", "--mpi=pmi2", "--overcommit"]);
    }
}
