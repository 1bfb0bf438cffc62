//! The command line of an example. One rank reports a mistake, in one line.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::builder::RangedI64ValueParser;
use pgas::config::launch::{Launcher, MAX_RANKS, RANKS_VARIABLE};
use pgas::{Config, Rank, World};

pub(crate) use pgas_command_line::parse;

/// How long the other ranks leave it to rank 0 to print a mistake.
const HEAD_START: Duration = Duration::from_secs(1);

/// The maximum number of ranks in a job.
pub(crate) fn ranks() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(MAX_RANKS))
}

/// The world of the job, with `ranks` ranks if no launcher has started several. An error is
/// printed; the program ends with the exit code.
pub(crate) fn join(name: &str, ranks: Option<u32>) -> Result<World, ExitCode> {
    let config = config(ranks).map_err(|line| complain(name, 1, &line))?;
    let world = pgas::init_with(&config).map_err(|error| {
        let line = by_option(ranks, &error.to_string());
        fail(name, None, &error, &line)
    })?;
    check(ranks, world.n_ranks()).map_err(|line| complain_together(name, &world, &line))?;
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

/// Prints a mistake that all ranks find before they have a world, and returns the exit code of
/// every rank. The end of one ends the others. So rank 0 prints at once, and the others only if they
/// are still there after a second: it may not have begun.
pub(crate) fn complain(name: &str, code: u8, line: &str) -> ExitCode {
    if Config::from_env().map_or(0, |config| config.launcher.rank()) != 0 {
        thread::sleep(HEAD_START);
    }
    print(name, line);
    ExitCode::from(code)
}

/// Prints a mistake that all ranks of `world` have found, on rank 0, and returns the exit code of
/// every rank. The others wait for that, since the end of one rank ends the others.
pub(crate) fn complain_together(name: &str, world: &World, line: &str) -> ExitCode {
    if world.rank() == Rank::ZERO {
        print(name, line);
    }
    // It fails if a rank is gone.
    world.barrier().ok();
    ExitCode::FAILURE
}

/// Prints `line` about the error that ends this rank, and returns the exit code. An error that all
/// ranks of `world` have is printed by rank 0. A rank without a world cannot know what the others
/// have.
pub(crate) fn fail(
    name: &str,
    world: Option<&World>,
    error: &(dyn Error + 'static),
    line: &str,
) -> ExitCode {
    let Some(world) = world.filter(|_| is_of_all(error)) else {
        print(name, line);
        return ExitCode::FAILURE;
    };
    // The rank that has failed itself prints why.
    if matches!(error.downcast_ref(), Some(pgas::Error::Elsewhere(_))) {
        world.barrier().ok();
        return ExitCode::FAILURE;
    }
    complain_together(name, world, line)
}

/// Whether every rank has this error, or one that tells of it.
fn is_of_all(error: &(dyn Error + 'static)) -> bool {
    match error.downcast_ref() {
        Some(pgas::Error::Exhausted(request)) => request.heap == "symmetric",
        Some(pgas::Error::Elsewhere(_)) => true,
        _ => false,
    }
}

fn print(name: &str, line: &str) {
    // It may contain file names.
    let shown = pgas_command_line::one_line(line);
    // A failed write cannot be reported.
    writeln!(io::stderr(), "{name}: {shown}").ok();
}
