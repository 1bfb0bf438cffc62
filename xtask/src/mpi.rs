//! The MPI backend's checks, once with each MPI library. Each library has its own build folder:
//! cargo does not notice that bindings to the other library are needed, and examples with and
//! without MPI have the same names. So neither builds anew what another step has built.

use std::process::Command;

use anyhow::Result;

use crate::ci::{self, EXAMPLES_BUILT};
use crate::process::{self, Outcome, command};

/// An MPI library: its compiler wrapper, and where programs for it are built.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    mpicc: &'static str,
    target: &'static str,
}

pub(crate) const OPEN_MPI: Library = Library {
    mpicc: "mpicc.openmpi",
    target: "target/open-mpi",
};
pub(crate) const MPICH: Library = Library {
    mpicc: "mpicc.mpich",
    target: "target/mpich",
};

/// The packages that are built with an MPI library, the hosts of namespaces for their tests, and
/// the package that gives dependencies the same features as in other steps.
#[rustfmt::skip]
const PACKAGES: &[&str] = &[
    "-p", "pgas-mpi", "-p", "pgas-test-hosts", "-p", "pgas", "-p", "pgas-examples",
    "-p", "pgas-test-features",
];

/// The features by which the facade and the examples use MPI.
pub(crate) const FEATURES: [&str; 2] = ["--features", "pgas/mpi,pgas-examples/mpi"];

/// The tests that concern MPI.
#[rustfmt::skip]
const TESTS: &[&str] = &[
    "collectives", "hosts", "jobs", "launchers", "suite", "mpirun",
];

impl Library {
    /// Tests, of all packages.
    fn test(self, targets: &[&str]) -> Command {
        let mut cargo = self.build(&["test", "--no-fail-fast"]);
        cargo.args(targets);
        // See `test` below.
        cargo.env(EXAMPLES_BUILT, "1");
        cargo
    }

    /// The tests of all packages but the examples in their documentation.
    pub(crate) fn tests(self) -> Command {
        let mut tests = self.test(&["--lib", "--bins"]);
        for name in TESTS {
            tests.args(["--test", name]);
        }
        tests
    }

    /// Always builds all packages, with the features of the other steps: cargo rebuilds shared
    /// packages for each choice of features.
    fn build(self, args: &[&str]) -> Command {
        let mut cargo = self.cargo(args);
        cargo.args(PACKAGES).args(ci::FEATURES).args(FEATURES);
        cargo
    }

    pub(crate) fn cargo(self, args: &[&str]) -> Command {
        let mut cargo = command("cargo", args);
        cargo.env("MPICC", self.mpicc);
        cargo.env("CARGO_TARGET_DIR", self.target);
        cargo
    }
}

/// The compiler wrapper for what only reads the backend's source: the libraries' headers differ too
/// little to do it twice.
pub(crate) const MPICC: &str = OPEN_MPI.mpicc;

/// Cargo for what only reads the backend's source.
pub(crate) fn for_lints(args: &[&str]) -> Command {
    let mut cargo = command("cargo", args);
    cargo.env("MPICC", MPICC);
    cargo
}

/// Tests with Open MPI, and the benches once, so that they do not rot.
pub(crate) fn open_mpi() -> Result<Outcome> {
    test(OPEN_MPI)?;
    process::run(
        OPEN_MPI
            .test(&["--bench", "raw_mpi", "--bench", "between_hosts"])
            .args(["--", "--test"]),
    )
}

/// Tests with MPICH.
pub(crate) fn mpich() -> Result<Outcome> {
    test(MPICH)
}

/// Copies the builds of other steps for a library without any, except those that depend on another
/// library.
fn inherit(heir: Library) -> Result<()> {
    let (old, new) = (
        process::root().join("target/debug"),
        process::root().join(heir.target),
    );
    if new.exists() || !old.exists() {
        return Ok(());
    }
    // All but linked programs. Modification times are kept: cargo rebuilds by these.
    let new = new.join("debug");
    std::fs::create_dir_all(&new)?;
    let copy = "(find .fingerprint build -type f; find deps -name '*.*') | tar --format=posix -cf - -T - | tar -xf - -C \"$0\"";
    let mut copy = command("sh", ["-c", copy]);
    process::run(copy.arg(new).current_dir(old))?;
    let mut clean = heir.cargo(&["clean"]);
    process::run(clean.args(["-p", "mpi-sys", "-p", "mpi", "-p", "pgas-mpi"])).map(drop)
}

/// The tests of the backend and of the hosts, and those of the examples.
fn test(library: Library) -> Result<Outcome> {
    inherit(library)?;
    process::run(&mut library.build(&["build", "--examples"]))?;
    process::run(&mut library.tests())?;
    // Not the doc tests of the users' library, which the step `tests` has run.
    process::run(library.test(&["--doc"]).args(["--", "crates/"]))
}
