//! The MPI backend's checks, once with each MPI library. Each build has a target folder of its own, because cargo does not
//! notice that bindings to the other library are needed.

use std::process::Command;

use anyhow::Result;

use crate::ci;
use crate::process::{self, Outcome, command};

/// An MPI library: its compiler wrapper, and where programs for it are built.
#[derive(Clone, Copy)]
struct Library {
    mpicc: &'static str,
    target: &'static str,
}

const OPEN_MPI: Library = Library {
    mpicc: "mpicc.openmpi",
    target: "target/openmpi",
};
const MPICH: Library = Library {
    mpicc: "mpicc.mpich",
    target: "target/mpich",
};

/// What is built with an MPI library, and the hosts of namespaces that its tests run on.
#[rustfmt::skip]
const PACKAGES: &[&str] = &[
    "-p", "pgas-mpi", "-p", "pgas-test-hosts", "-p", "pgas", "--features", "pgas/mpi",
];

impl Library {
    fn cargo(self, args: &[&str]) -> Command {
        self.of(command("cargo", args))
    }

    fn of(self, mut cargo: Command) -> Command {
        cargo.env("MPICC", self.mpicc);
        cargo.env("CARGO_TARGET_DIR", self.target);
        cargo
    }
}

/// Lints and documentation; the libraries' differences are too small to do it twice.
pub(crate) fn lint() -> Result<Outcome> {
    let mut clippy = OPEN_MPI.cargo(&["clippy"]);
    clippy.args(PACKAGES);
    process::run(clippy.args(["--all-targets", "--", "-D", "warnings"]))?;
    let mut doc = OPEN_MPI.cargo(&["doc", "-p", "pgas-mpi", "--no-deps"]);
    process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Tests with Open MPI, those of the test hosts, and the bench once, so that it does not rot.
pub(crate) fn open_mpi() -> Result<Outcome> {
    process::run(&mut OPEN_MPI.cargo(&["test", "-p", "pgas-test-hosts"]))?;
    test(OPEN_MPI)?;
    let bench = ["bench", "-p", "pgas-mpi", "--bench", "*", "--", "--test"];
    process::run(&mut OPEN_MPI.of(ci::optimized(&bench)))
}

/// Tests with MPICH.
pub(crate) fn mpich() -> Result<Outcome> {
    test(MPICH)
}

fn test(library: Library) -> Result<Outcome> {
    process::run(&mut library.cargo(&["test", "-p", "pgas-mpi"]))?;
    process::run(&mut library.cargo(&["test", "--features", "mpi", "--test", "mpirun"]))
}
