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
    let config = config(ranks)?;
    let world = pgas::init_with(&config).map_err(|error| by_option(ranks, &error.to_string()))?;
    check(ranks, world.n_ranks())?;
    Ok(world)
}

/// The settings of the environment, with `--ranks` if no launcher has started several.
fn config(ranks: Option<u32>) -> Result<Config, String> {
    let config = Config::from_env().map_err(|error| error.to_string())?;
    let Some(wanted) = ranks else {
        return Ok(config);
    };
    match &config.launcher {
        // It does not tell of how many until the rank has joined.
        Launcher::Pmix => return Ok(config),
        Launcher::SelfLaunch { .. } => {}
        // Under a launcher that has started one process, such as an interactive shell of Slurm, the
        // program starts the ranks.
        found if found.n_ranks() == 1 && !matches!(found, Launcher::Own { .. }) => {}
        started => return check(ranks, started.n_ranks()).map(|()| config),
    }
    let own = |name: &str| (name == RANKS_VARIABLE).then(|| wanted.to_string());
    Config::from_env_over(&own).map_err(|error| by_option(ranks, &error.to_string()))
}

/// Checks the number of ranks that a launcher has started.
fn check(wanted: Option<u32>, started: u32) -> Result<(), String> {
    match wanted {
        Some(wanted) if wanted != started => Err(format!(
            "--ranks {wanted}: a launcher has started this job with {started}"
        )),
        _ => Ok(()),
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
