//! What containers and transfers do between hosts, each beside what MPI alone takes to move the
//! same bytes, in one run.
//!
//! `cargo xtask bench-hosts` runs this with each MPI library. The program starts itself again under
//! the library's launcher, with a rank on each of two hosts, in each of the [`ways`](Way) to have
//! two hosts on one machine. Both ranks work at once. A figure is the median of several rounds. In
//! each round floor and library run one after the other.
//!
//! Words choose rows by their names. `--json FILE` also writes the figures to a file.
#![expect(clippy::print_stdout, reason = "a bench reports")]

#[path = "../../../../benches/between_hosts/containers.rs"]
mod containers;
mod crowds;
mod floor;
#[path = "../../../../benches/between_hosts/measure.rs"]
mod measure;
#[path = "../../../../benches/between_hosts/parcels.rs"]
mod parcels;
#[path = "../raw_mpi/raw.rs"]
#[expect(dead_code, reason = "the other bench calls the rest")]
mod raw;
#[path = "../../../../benches/between_hosts/table.rs"]
mod table;
#[path = "../../../../benches/between_hosts/transfers.rs"]
mod transfers;

use std::process::{Command, ExitCode};
use std::time::Duration;

use mpi::Threading;
use pgas_test_hosts::{Hosts, Launcher, Link};
use serde_json::{Value, json};

use crate::floor::Comm;

/// The argument by which the program is a rank.
const RANK: &str = "--rank-of-two";
/// The argument by which the program is a rank of a job of any size.
const RANK_OF_MANY: &str = "--rank-of-many";

/// The maximum time of a job.
const LIMIT: Duration = Duration::from_secs(1200);

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == RANK) {
        measure_two();
        return ExitCode::SUCCESS;
    }
    if words.iter().any(|word| word == RANK_OF_MANY) {
        words.retain(|word| !word.starts_with("--"));
        crowds::measure(&words);
        return ExitCode::SUCCESS;
    }
    let json_file = table::take_file(&mut words);
    let library = pgas_mpi::library().expect("the library says what it is");
    let (mut figures, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for way in ways(&library) {
        for is_crowd in [false, true] {
            let rows = match is_crowd {
                false => {
                    println!("\n{library}: {}", way.about);
                    way.run(&words)
                }
                true if way.on_one_host.is_some() => {
                    println!("\n{library}: {}, more and more of them", way.about);
                    way.run_crowds(&words)
                }
                true => continue,
            };
            match rows {
                Ok(rows) => figures.extend(rows.into_iter().map(|row| {
                    let (library, way) = (&library, way.name);
                    json!({ "library": library, "hosts": way, "row": row })
                })),
                Err(why) => {
                    println!("failed: {why}");
                    code = ExitCode::FAILURE;
                }
            }
        }
    }
    if let Some(file) = json_file
        && let Err(why) = table::write(file, figures)
    {
        println!("{why}");
        return ExitCode::FAILURE;
    }
    code
}

/// Measures as one of two ranks.
fn measure_two() {
    let (universe, _) = mpi::initialize_with_threading(Threading::Serialized)
        .expect("the first in this process to start MPI");
    let comm = universe.world();
    let world = raw::world_of(&comm, &measure::settings()).expect("two ranks over MPI");
    measure::measure(world, Comm(comm));
}

/// A way to have two ranks on two hosts.
struct Way {
    name: &'static str,
    about: &'static str,
    launcher: Launcher,
    /// Settings that make one host two for the MPI library. None with hosts of namespaces.
    on_one_host: Option<&'static [(&'static str, &'static str)]>,
}

/// Namespaces that are joined by TCP show what a network costs. An MPI library that is told that
/// its ranks share no memory spends less time in the network, so the other costs are seen better.
/// Open MPI cannot be told so. But this library can: without its direct path, it reaches no segment
/// by shared memory.
fn ways(library: &str) -> Vec<Way> {
    let launcher = if library.starts_with("Open MPI") {
        Launcher::OpenMpi
    } else {
        Launcher::Mpich
    };
    let mut ways = vec![Way {
        name: "namespaces",
        about: "two hosts of namespaces, joined by TCP",
        launcher,
        on_one_host: None,
    }];
    ways.push(match launcher {
        Launcher::Mpich => Way {
            name: "one host, no shared memory",
            about: "one host, and ranks that share no memory",
            launcher,
            on_one_host: Some(&[("MPIR_CVAR_NOLOCAL", "1")]),
        },
        Launcher::OpenMpi => Way {
            name: "one host, others' memory by MPI",
            about: "one host, and the other rank's memory by MPI",
            launcher,
            on_one_host: Some(&[
                ("OMPI_MCA_btl", "self,tcp"),
                ("OMPI_MCA_btl_tcp_if_include", "lo"),
                ("OMPI_MCA_osc", "pt2pt"),
                ("PGAS_DIRECT", "0"),
            ]),
        },
    });
    ways
}

impl Way {
    /// Runs the ranks, prints their table, and returns its rows.
    fn run(&self, words: &[String]) -> Result<Vec<Value>, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let (text, complaints, is_well) = match self.on_one_host {
            Some(settings) => {
                let mut command = self.on_one_host(settings, 2);
                output_of(command.arg(program).arg(RANK).args(words))?
            }
            None => {
                let hosts = Hosts::new(2, Link::Clean).map_err(|error| error.to_string())?;
                // The bench starts MPI, so this library cannot make this setting in time.
                let mpirun = hosts.mpirun(self.launcher);
                let mut command = mpirun.env("OMPI_MCA_osc", "sm,pt2pt").command(program);
                command.arg(RANK).args(words);
                let ended = hosts.run(command, LIMIT);
                let is_well = ended.in_time && ended.status.success();
                (ended.stdout, ended.stderr, is_well)
            }
        };
        let rows: Vec<Value> = text.lines().filter_map(measure::row_of).collect();
        if !is_well || rows.is_empty() {
            return Err(format!("{text}\n{complaints}"));
        }
        table::print(&rows);
        Ok(rows)
    }

    /// Runs jobs of more and more ranks on one host, and prints the table of all of them.
    fn run_crowds(&self, words: &[String]) -> Result<Vec<Value>, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let settings = self.on_one_host.unwrap_or_default();
        let (mut first, mut all) = (Vec::new(), Vec::new());
        for &n_ranks in crowds::sizes() {
            let mut command = self.on_one_host(settings, n_ranks);
            let (text, complaints, is_well) =
                output_of(command.arg(&program).arg(RANK_OF_MANY).args(words))?;
            if !is_well {
                return Err(format!("{n_ranks} ranks: {text}\n{complaints}"));
            }
            let mut rows: Vec<Value> = text.lines().filter_map(measure::row_of).collect();
            if first.is_empty() {
                first.clone_from(&rows);
            }
            crowds::beside(&first, &mut rows);
            all.append(&mut rows);
        }
        table::print(&all);
        Ok(all)
    }

    fn on_one_host(&self, settings: &[(&str, &str)], n_ranks: u32) -> Command {
        let mut command = match self.launcher {
            Launcher::OpenMpi => {
                let mut command = Command::new("mpirun.openmpi");
                command.args(["--allow-run-as-root", "--oversubscribe"]);
                command
            }
            Launcher::Mpich => Command::new("mpiexec.hydra"),
        };
        command.arg("-n").arg(n_ranks.to_string());
        command.envs(settings.iter().copied());
        command
    }
}

/// The standard output and standard error of a program, and whether it succeeded.
fn output_of(command: &mut Command) -> Result<(String, String, bool), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let is_well = output.status.success();
    Ok((text(&output.stdout), text(&output.stderr), is_well))
}
