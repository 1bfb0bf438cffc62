//! Project automation: `cargo xtask <verb>`.
//!
//! Only cargo is needed to run it. The steps of the project's test command are the table
//! [`ci::STEPS`]; [`setup`] alone lists what the tests need from the system; [`tidy`] has the rules
//! of the house that no compiler checks.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks through its standard streams"
)]

mod bench_hosts;
mod bindings;
mod ci;
mod dependencies;
mod memory;
mod mpi;
mod mutants;
mod plots;
mod process;
mod publish;
mod setup;
mod sim;
#[cfg(test)]
mod test_names;
mod tidy;
mod toolchains;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::bench_hosts::Over;
use crate::process::{Outcome, cargo};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Project automation of pgas")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Runs every step of the test command in order, or only the steps that are named
    #[command(visible_alias = "ci")]
    Test {
        /// Names of steps, as `--list` prints them
        steps: Vec<String>,
        /// Prints the steps and runs none
        #[arg(long)]
        list: bool,
        /// Runs the inner loop instead, which needs neither root nor installed packages
        #[arg(long, conflicts_with = "steps")]
        quick: bool,
    },
    /// Installs missing requirements of the tests: system packages, targets and the oldest Rust
    Setup,
    /// Checks the rules of the house beyond the compiler's, and reports long files and functions
    Tidy,
    /// Runs the lock-free structures under loom, which tries all interleavings
    Loom,
    /// Changes lines of the lock-free code and of what completes operations for the worse, one at a
    /// time, and checks that a model or a test notices
    Mutants {
        /// Only those with one of these in their path or text
        filters: Vec<String>,
    },
    /// Runs the tests under AddressSanitizer
    Asan,
    /// Runs unit tests that go through unsafe code under Miri (needs a nightly toolchain with the
    /// components miri and rust-src)
    Miri,
    /// Checks licences, versions and sources of the dependencies
    Dependencies,
    /// Packs the published crates, and builds and runs a new crate that uses them
    Publish,
    /// Builds the documentation, with warnings as errors
    Doc {
        /// Opens it in a browser
        #[arg(long)]
        open: bool,
    },
    /// Runs the benches
    Bench {
        /// Draws the tables of docs/PERFORMANCE.md as pictures instead
        #[arg(long, conflicts_with = "args")]
        plots: bool,
        /// Passed on to criterion: a filter, or `--test` to run each bench once
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Runs an example of the repository on simulated RISC-V nodes, or the conformance suite
    Sim {
        /// Number of nodes
        #[arg(short, default_value_t = 2)]
        nodes: u32,
        /// The example
        #[arg(long, required_unless_present_any = ["suite", "containers"])]
        example: Option<String>,
        /// Another folder that the example may read. It may always read the repository, and read
        /// and write the current folder
        #[arg(long)]
        files: Vec<PathBuf>,
        /// Runs the conformance suite instead
        #[arg(long, conflicts_with_all = ["example", "args"])]
        suite: bool,
        /// Runs the part of the suite that the test command runs, with nodes of its own choice
        #[arg(long, requires = "suite", conflicts_with = "nodes")]
        part: bool,
        /// Shows what operations of containers take with atomics by hardware and by software, and
        /// how they scale
        #[arg(long, conflicts_with_all = ["example", "suite"])]
        containers: bool,
        /// Arguments of the example, or options of `rae containers`
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Generates the bindings to libfabric from the installed headers (needs `bindgen` and
    /// libclang)
    Bindings,
    /// Runs a program on hosts that share no memory, made of namespaces on this machine (needs
    /// root)
    Hosts {
        /// Options of `pgas-test-hosts`, then the program; `--help` prints them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measures containers and transfers between two hosts, over each MPI library and over
    /// libfabric, and compares each with the library alone (needs root)
    BenchHosts {
        /// Only with this library
        #[arg(long)]
        over: Option<Over>,
        /// Writes the figures to this file, too
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Only rows with one of these words in their name
        rows: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().verb) {
        Ok(Outcome::Passed) => ExitCode::SUCCESS,
        Ok(Outcome::NotRun(why)) => {
            eprintln!("xtask: not run: {why}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<Outcome> {
    match verb {
        Verb::Test { list: true, .. } => {
            ci::list();
            Ok(Outcome::Passed)
        }
        Verb::Test { quick: true, .. } => ci::run_quick(),
        Verb::Test { steps, .. } => ci::run(&steps),
        Verb::Setup => setup::run(),
        Verb::Tidy => tidy::run(),
        Verb::Loom => memory::loom(),
        Verb::Mutants { filters } => mutants::run(&filters),
        Verb::Asan => memory::asan(),
        Verb::Miri => memory::miri(),
        Verb::Dependencies => dependencies::run(),
        Verb::Publish => publish::run(),
        Verb::Doc { open } => ci::doc(open),
        Verb::Sim {
            nodes,
            example: Some(name),
            files,
            args,
            ..
        } => sim::example(nodes, &name, &files, &args),
        Verb::Sim {
            containers: true,
            args,
            ..
        } => sim::containers(&args),
        Verb::Sim { part: true, .. } => sim::facade_and_part_of_suite(),
        Verb::Sim { nodes, .. } => sim::suite(nodes),
        Verb::Bench { plots: true, .. } => plots::run(),
        Verb::Bench { args, .. } => process::run(ci::bench().args(args)),
        Verb::Bindings => bindings::make(),
        Verb::Hosts { args } => {
            let hosts = ["run", "--quiet", "--package", "pgas-test-hosts", "--"];
            let args = args.iter().map(String::as_str);
            cargo(hosts.into_iter().chain(args))
        }
        Verb::BenchHosts { over, json, rows } => bench_hosts::run(over, json.as_deref(), &rows),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::CommandFactory as _;

    use super::Cli;
    use crate::process::root;

    fn page(path: &str) -> String {
        fs::read_to_string(root().join(path)).unwrap()
    }

    #[test]
    fn contributing_names_every_command() {
        let page = page("CONTRIBUTING.md");
        for command in Cli::command().get_subcommands() {
            let name = format!("`{}`", command.get_name());
            assert!(page.contains(&name), "CONTRIBUTING.md lacks {name}");
        }
    }

    #[test]
    fn the_guide_and_the_documentation_name_every_setting() {
        let source = page("crates/core/src/config/names.rs");
        let names = source.lines().map(str::trim).filter_map(|line| {
            let name = line.strip_prefix('"')?.strip_suffix("\",")?;
            name.starts_with("PGAS_").then_some(name)
        });
        let names: Vec<_> = names.collect();
        assert!(names.contains(&"PGAS_RANKS"), "{names:?}");
        for path in ["docs/guide/clusters.md", "crates/core/src/config/mod.rs"] {
            let page = page(path);
            for name in &names {
                assert!(page.contains(&format!("`{name}`")), "{path} lacks {name}");
            }
        }
    }
}
