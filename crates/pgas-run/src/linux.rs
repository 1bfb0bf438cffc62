//! Linux only: the command line of `pgas-run`, around the launcher of `pgas-smp`.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::builder::{OsStringValueParser, TypedValueParser};
use pgas_core::Config;
use pgas_core::config::launch::{MAX_RANKS, RANKS_VARIABLE};
use pgas_core::notice::printable;
use pgas_smp::launcher::{self, Output, SuperviseError, SuperviseOptions};
use pgas_smp::{Watcher, create_job, warn_of_size};

use crate::usage;

/// The exit codes that shells use for a program that cannot be started.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Starts the ranks of a pgas program on this host and stays with them until all have ended.
///
/// Rank 0 reads standard input. What the ranks print is passed on line by line. When a rank fails,
/// one line says which, how and when, and the other ranks are ended; pgas-run then exits with the
/// failed rank's exit code, or 128 and the number of the signal that killed it.
#[derive(Debug, Parser)]
#[command(name = "pgas-run", version, after_help = AFTER_HELP)]
struct Arguments {
    /// The number of ranks
    #[arg(short, long = "ranks", value_name = "RANKS", value_parser = number_of_ranks)]
    n: u32,

    /// Begin each line of output with the rank that printed it, as in `[3] text`
    #[arg(short, long)]
    prefix: bool,

    /// Leave the output to the ranks: a terminal stays a terminal, but their lines may mix
    #[arg(long, conflicts_with = "prefix")]
    inherit: bool,

    /// End the job after this time, with exit code 124
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Set an environment variable for the ranks; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = variable())]
    env: Vec<(OsString, OsString)>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Examples:
  pgas-run -n 4 ./my_program input.txt
  pgas-run -n 2 --prefix --timeout 60 -- cargo test --test ring

Signals to pgas-run are passed on to the ranks; a second SIGINT or SIGTERM kills the job.
Memory of a job has no name in any file system, and nothing is left behind however the job ends.";

pub(crate) fn main() -> ExitCode {
    let arguments = match usage::parse("pgas-run") {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            complain(&told(&*error));
            ExitCode::from(code_of(&*error))
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let mut command = arguments.command.into_iter();
    let program = command.next().unwrap_or_default();
    let mut options = SuperviseOptions::new(program, arguments.n);
    options.args = command.collect();
    options.env = arguments.env;
    options.timeout = arguments.timeout;
    options.output = match arguments {
        Arguments { inherit: true, .. } => Output::Inherit,
        Arguments { prefix, .. } => Output::Forward { prefix },
    };
    let config = Config::from_env_over(&|name| {
        let set = options.env.iter().rev().find(|(key, _)| key == name);
        set.map(|(_, value)| value.to_string_lossy().into_owned())
    })?;
    warn_of_size(options.n_ranks, &config);
    let memory = create_job(options.n_ranks, &config)?;
    let outcome = launcher::supervise(&options, &memory, &mut Watcher::new(&memory)?)?;
    Ok(outcome.exit_code())
}

fn complain(message: &str) {
    // There is nobody left to tell about a failure of this.
    io::stderr()
        .write_all(format!("pgas-run: {}\n", printable(message)).as_bytes())
        .ok();
}

/// What is wrong, by the name of the option that says it.
fn told(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(pgas_core::Error::Setting(setting)) if setting.name == RANKS_VARIABLE => {
            format!("--ranks {}: {}", setting.value, setting.reason)
        }
        _ => error.to_string(),
    }
}

fn code_of(error: &(dyn Error + 'static)) -> u8 {
    match error.downcast_ref() {
        Some(SuperviseError::Start { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            NOT_FOUND
        }
        Some(SuperviseError::Start { .. }) => NOT_EXECUTABLE,
        _ => 1,
    }
}

fn number_of_ranks(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n_ranks @ 1..=MAX_RANKS) => Ok(n_ranks),
        _ => Err(format!("a job has 1 to {MAX_RANKS} ranks")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "a number of seconds above 0, such as 30 or 0.5, is needed".to_owned())
}

/// A variable may hold any bytes.
fn variable() -> impl TypedValueParser<Value = (OsString, OsString)> {
    OsStringValueParser::new().try_map(|text| {
        let bytes = text.into_vec();
        match bytes.iter().position(|&byte| byte == b'=') {
            None | Some(0) => Err("it has to be KEY=VALUE"),
            Some(end) => {
                let [key, value] = [&bytes[..end], &bytes[end + 1..]];
                Ok([key, value]
                    .map(|part| OsString::from_vec(part.to_vec()))
                    .into())
            }
        }
    })
}
