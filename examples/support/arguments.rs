//! The command line of an example. One rank reports a mistake, in one line.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::builder::RangedI64ValueParser;
use pgas::config::launch::{Launcher, MAX_RANKS, RANKS_VARIABLE};
use pgas::{Config, World};

pub(crate) use pgas_command_line::parse;

/// The maximum number of ranks in a job.
pub(crate) fn ranks() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(MAX_RANKS))
}

/// The world of the job, with `ranks` ranks if no launcher has started several; or an error
/// message.
pub(crate) fn join(ranks: Option<u32>) -> Result<World, String> {
    let world = config(ranks)?;
    pgas::init_with(&world).map_err(|error| by_option(ranks, &error.to_string()))
}

/// The settings of the environment, with `--ranks` if no launcher has started several.
fn config(ranks: Option<u32>) -> Result<Config, String> {
    let config = Config::from_env().map_err(|error| error.to_string())?;
    let Some(wanted) = ranks else {
        return Ok(config);
    };
    match &config.launcher {
        Launcher::Single | Launcher::SelfLaunch { .. } => {
            let own = |name: &str| (name == RANKS_VARIABLE).then(|| wanted.to_string());
            Config::from_env_over(&own).map_err(|error| by_option(ranks, &error.to_string()))
        }
        started if started.n_ranks() == wanted => Ok(config),
        started => {
            let n_ranks = started.n_ranks();
            Err(format!(
                "--ranks {wanted}: a launcher has started this job with {n_ranks}"
            ))
        }
    }
}

/// The problem with the number of ranks, and the option that set it.
fn by_option(ranks: Option<u32>, error: &str) -> String {
    let told = ranks.and_then(|ranks| {
        let reason = error.strip_prefix(&format!("{RANKS_VARIABLE}={ranks}: "))?;
        Some(format!("--ranks {ranks}: {reason}"))
    });
    told.unwrap_or_else(|| error.to_owned())
}

/// Prints the error that all ranks have, on rank 0, and returns the exit code of every rank.
pub(crate) fn complain(name: &str, code: u8, line: &str) -> ExitCode {
    let rank = Config::from_env().map_or(0, |config| config.launcher.rank());
    if rank == 0 {
        // It may contain file names.
        let shown = pgas_command_line::one_line(line);
        // A failed write cannot be reported.
        writeln!(io::stderr(), "{name}: {shown}").ok();
    }
    ExitCode::from(code)
}
