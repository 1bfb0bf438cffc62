//! Runs a program on its own hosts: `pgas-test-hosts -n 3 --mpi openmpi --
//! target/debug/examples/hello`.
#![expect(
    clippy::print_stderr,
    reason = "a command-line tool talks through its standard streams"
)]

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use pgas_test_hosts::{Conditions, Hosts, Launcher, Link, Mapping};

/// Makes hosts that share no memory on this machine, and runs a program on them. The hosts are
/// called node0, node1 and so on, and end with the program.
#[derive(Debug, Parser)]
#[command(name = "pgas-test-hosts")]
struct Cli {
    /// Number of hosts
    #[arg(short = 'n', long, default_value_t = 2)]
    hosts: u32,
    /// Starts the program as ranks on all hosts with this library's launcher; otherwise it runs
    /// once, on node0
    #[arg(long, value_enum)]
    mpi: Option<Mpi>,
    /// Ranks on each host
    #[arg(short, long, default_value_t = 1, requires = "mpi")]
    ranks_per_host: u32,
    /// Distributes the ranks to the hosts in turn, instead of in blocks
    #[arg(long, requires = "mpi")]
    by_node: bool,
    /// Latency of a frame, in milliseconds
    #[arg(long, value_name = "MS")]
    delay: Option<f64>,
    /// Maximum deviation of the latency, in milliseconds
    #[arg(long, value_name = "MS")]
    jitter: Option<f64>,
    /// Share of lost frames
    #[arg(long, value_name = "PERCENT")]
    loss: Option<f64>,
    /// Sets a variable for every rank
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mpi {
    Openmpi,
    Mpich,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("pgas-test-hosts: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<u8, Box<dyn std::error::Error>> {
    let milliseconds = |time: Option<f64>| Duration::try_from_secs_f64(time.unwrap_or(0.0) / 1e3);
    let link = if cli.delay.or(cli.jitter).or(cli.loss).is_none() {
        Link::Clean
    } else {
        Link::Bad(Conditions {
            delay: milliseconds(cli.delay)?,
            jitter: milliseconds(cli.jitter)?,
            loss_percent: cli.loss.unwrap_or(0.0),
            seed: 1,
        })
    };
    let hosts = Hosts::new(cli.hosts, link)?;
    let (program, args) = cli.command.split_first().ok_or("no program is given")?;
    let mut command = match cli.mpi {
        None => hosts.command(0, program),
        Some(mpi) => {
            let launcher = match mpi {
                Mpi::Openmpi => Launcher::OpenMpi,
                Mpi::Mpich => Launcher::Mpich,
            };
            let mapping = if cli.by_node {
                Mapping::Node
            } else {
                Mapping::Slot
            };
            let mut mpirun = hosts
                .mpirun(launcher)
                .per_host(cli.ranks_per_host)
                .mapping(mapping);
            for setting in &cli.env {
                let (key, value) = setting.split_once('=').ok_or("a setting is NAME=VALUE")?;
                mpirun = mpirun.env(key, value);
            }
            mpirun.command(program)
        }
    };
    let status = command.args(args).status()?;
    let traffic = hosts.traffic();
    if link != Link::Clean {
        eprintln!(
            "frames delivered {}, lost {}",
            traffic.delivered, traffic.lost
        );
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(1))
}
