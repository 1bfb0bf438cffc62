//! The launcher of the MPI that the tests were built with.

use std::process::Command;

/// Whether this binary was built with Open MPI; else it is MPICH.
pub(crate) fn is_open_mpi() -> bool {
    let library = pgas_mpi::library().expect("the library says what it is");
    library.starts_with("Open MPI")
}

/// The launcher of this binary's MPI, for so many ranks of this host.
pub(crate) fn mpirun(n_ranks: u32) -> Command {
    mpirun_under(&[], n_ranks)
}

/// As [`mpirun`], with each rank run by a program that checks it.
pub(crate) fn mpirun_under(checker: &[&str], n_ranks: u32) -> Command {
    let mut command = launcher();
    command.args(["-n", &n_ranks.to_string()]).args(checker);
    command.arg(std::env::current_exe().expect("this program"));
    command
}

/// The launcher itself.
pub(crate) fn launcher() -> Command {
    if !is_open_mpi() {
        return Command::new("mpiexec.hydra");
    }
    let mut command = Command::new("mpirun.openmpi");
    command.args(["--allow-run-as-root", "--oversubscribe"]);
    command
}
