//! What containers and transfers do between hosts over libfabric, each beside what libfabric's own
//! calls take to move the same bytes, in one run.
//!
//! `cargo xtask bench-hosts` runs this beside the same rows over MPI. The program starts itself
//! again under MPICH's launcher, by whose PMI the ranks meet, on two hosts of namespaces that are
//! joined by TCP; nothing of MPI is in the ranks. `PGAS_OFI_PROVIDER` chooses the provider of both.
//!
//! Words choose rows by their names. `--json FILE` also writes the figures to a file.
#![expect(clippy::print_stdout, reason = "a bench reports")]

#[path = "../../../../benches/between_hosts/containers.rs"]
mod containers;
mod floor;
#[path = "../../../../benches/between_hosts/measure.rs"]
mod measure;
#[path = "../../../../benches/between_hosts/parcels.rs"]
mod parcels;
#[path = "../raw_libfabric/raw.rs"]
#[expect(dead_code, reason = "the other bench calls the rest")]
mod raw;
#[path = "../../../../benches/between_hosts/table.rs"]
mod table;
#[path = "../../../../benches/between_hosts/transfers.rs"]
mod transfers;

use std::process::ExitCode;
use std::time::Duration;

use pgas_test_hosts::{Hosts, Launcher, Link};
use serde_json::{Value, json};

use crate::floor::Comm;

/// The argument by which the program is a rank.
const RANK: &str = "--rank-of-two";
/// The maximum time of a job.
const LIMIT: Duration = Duration::from_secs(1200);
/// What every host has.
const PROVIDER: &str = "tcp;ofi_rxm";

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == RANK) {
        measure_two();
        return ExitCode::SUCCESS;
    }
    let json_file = table::take_file(&mut words);
    let provider = asked_provider();
    let library = pgas_libfabric_sys::load().expect("libfabric is installed");
    let library = format!("libfabric {}, {provider}", library.version());
    println!("\n{library}: two hosts of namespaces, joined by TCP");
    let figure = |row| json!({ "library": library, "hosts": "namespaces", "row": row });
    let written = run(&provider, &words).and_then(|rows| {
        table::print(&rows);
        let figures = rows.into_iter().map(figure).collect();
        json_file.map_or(Ok(()), |file| table::write(file, figures))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("failed: {why}");
            ExitCode::FAILURE
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a setting of the library, which the bench passes on"
)]
fn asked_provider() -> String {
    std::env::var("PGAS_OFI_PROVIDER").unwrap_or_else(|_| PROVIDER.to_owned())
}

/// Runs the ranks, and returns their rows.
fn run(provider: &str, words: &[String]) -> Result<Vec<Value>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let hosts = Hosts::new(2, Link::Clean).map_err(|error| error.to_string())?;
    let mpirun = hosts.mpirun(Launcher::Mpich);
    let mut command = mpirun.env("PGAS_OFI_PROVIDER", provider).command(program);
    command.arg(RANK).args(words);
    let ended = hosts.run(command, LIMIT);
    let rows: Vec<Value> = ended.stdout.lines().filter_map(measure::row_of).collect();
    if !ended.in_time || !ended.status.success() || rows.is_empty() {
        return Err(format!("{}\n{}", ended.stdout, ended.stderr));
    }
    Ok(rows)
}

/// Measures as one of two ranks.
fn measure_two() {
    let config = measure::settings();
    let provider = config.ofi_provider.clone();
    let world = pgas_ofi::init(&config).expect("two ranks over libfabric");
    let comm = Comm::open(&world, provider.as_deref().unwrap_or(PROVIDER));
    measure::measure(world, comm.expect("both ranks open an endpoint"));
}
