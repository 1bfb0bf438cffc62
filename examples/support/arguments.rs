//! The command line of an example: a mistake in it is told in one line, by one rank.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::builder::RangedI64ValueParser;
use pgas::config::launch::{Launcher, MAX_RANKS, RANKS_VARIABLE};
use pgas::{Config, World};

pub(crate) use pgas_command_line::parse;

/// How many ranks a job can have.
pub(crate) fn ranks() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(MAX_RANKS))
}

/// The world of the job, of `ranks` ranks if nothing else has started several; or why there is none.
pub(crate) fn join(ranks: Option<u32>) -> Result<World, String> {
    let world = config(ranks)?;
    pgas::init_with(&world).map_err(|error| by_option(ranks, &error.to_string()))
}

/// The settings of the environment, with `--ranks` where nothing else has started several.
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

/// What is wrong with the number of ranks, by the name of the option that has given it.
fn by_option(ranks: Option<u32>, error: &str) -> String {
    let told = ranks.and_then(|ranks| {
        let reason = error.strip_prefix(&format!("{RANKS_VARIABLE}={ranks}: "))?;
        Some(format!("--ranks {ranks}: {reason}"))
    });
    told.unwrap_or_else(|| error.to_owned())
}

/// Says on rank 0 what is wrong on all of them, and gives the exit code of every rank.
pub(crate) fn complain(name: &str, code: u8, line: &str) -> ExitCode {
    let rank = Config::from_env().map_or(0, |config| config.launcher.rank());
    if rank == 0 {
        // File names may be in it.
        let shown = pgas_command_line::one_line(line);
        // There is nobody left to tell about a failure of this.
        writeln!(io::stderr(), "{name}: {shown}").ok();
    }
    ExitCode::from(code)
}
