//! Linux only: `pgas-top`, which watches a job from outside, whatever started it.

#[cfg_attr(not(feature = "terminal"), path = "terminal_disabled.rs")]
mod terminal;

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pgas_core::notice::printable;
use pgas_smp::Observer;

use crate::arguments::seconds;
use crate::watch::find::job_of;
use crate::watch::lines;
use crate::watch::name_of;
use crate::watch::picture::{Looks, Picture, Row, State};

/// Shows what the ranks of a running job do: their states, what each waits for and for how long,
/// their memory, and, with PGAS_STATS=1, operations and bytes a second.
///
/// The job may have been started by pgas-run, mpirun, srun or the program itself; for a job on
/// several hosts the ranks of this one are shown. It is found by the number of any of its
/// processes, and has to be the same user's. Ranks do nothing for it.
#[derive(Debug, Parser)]
#[command(name = "pgas-top", version, after_help = AFTER_HELP)]
struct Arguments {
    /// The number of a process: a rank or its launcher; not needed if only one job runs
    #[arg(value_name = "JOB")]
    job: Option<u32>,

    /// The interval between two looks; without a terminal, by default only one look
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    every: Option<Duration>,
}

const AFTER_HELP: &str = "\
Keys: q ends it; arrows, Page Up, Page Down, Home and End scroll through the ranks; a goes back to
the notable ones, which are shown if there is no room for all.";

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The command line.
#[cfg(test)]
pub(crate) fn command() -> clap::Command {
    <Arguments as clap::CommandFactory>::command()
}

/// Runs `pgas-top`.
pub(crate) fn main() -> ExitCode {
    let arguments: Arguments = match pgas_command_line::parse("pgas-top") {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("pgas-top: {}\n", printable(error));
            // There is nowhere to report a failure of this.
            io::stderr().write_all(text.as_bytes()).ok();
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let looks = Looks::new(find(arguments.job)?, 0);
    let every = arguments.every.map(|every| every.min(LONGEST));
    match terminal::show(looks, every)? {
        Some(looks) => Ok(print(looks, every)?),
        None => Ok(()),
    }
}

/// Prints plain lines: once, or at each interval until the job has ended.
fn print(mut looks: Looks, every: Option<Duration>) -> io::Result<()> {
    const BETWEEN: Duration = Duration::from_millis(200);
    // The first look, from which the second one's rates are computed.
    looks.picture()?;
    std::thread::sleep(BETWEEN);
    loop {
        let picture = picture(&mut looks)?;
        let written = io::stdout().write_all(lines::all(&picture).as_bytes());
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
        match every {
            Some(every) if !is_over(&picture) => std::thread::sleep(every),
            _ => return Ok(()),
        }
    }
}

/// The job as it is now. Ranks that have not joined, or are threads, have no process that tells
/// whether they are there: they are dead if no process has the job any more.
fn picture(looks: &mut Looks) -> io::Result<Picture> {
    let mut picture = looks.picture()?;
    let is_known = picture.rows.iter().any(Row::has_process);
    if !is_known && !is_over(&picture) && !is_held(looks.identity()?)? {
        let rows = picture.rows.iter_mut();
        rows.filter(|row| row.state != State::Left)
            .for_each(Row::die);
        picture.blame();
    }
    Ok(picture)
}

/// Whether a process has the memory of this job, other than those that only look at it, as this one
/// does.
fn is_held(job: (u64, u64)) -> io::Result<bool> {
    let own = env::current_exe()?;
    let mut processes = processes()?;
    Ok(processes.any(|process| {
        let observer = Observer::of_process(process);
        let identity = observer.ok().flatten().map(|it| it.identity());
        let is_held = identity.is_some_and(|identity| identity.is_ok_and(|it| it == job));
        is_held && fs::read_link(format!("/proc/{process}/exe")).ok().as_ref() != Some(&own)
    }))
}

/// The numbers of all processes.
fn processes() -> io::Result<impl Iterator<Item = u32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok()))
}

/// Whether no rank is left. The job's memory is there as long as this program observes it.
fn is_over(picture: &Picture) -> bool {
    let mut states = picture.rows.iter().map(|row| row.state);
    states.all(|state| matches!(state, State::Left | State::Dead))
}

/// The job of this process, or of one that it has started; without a number, the only job.
fn find(job: Option<u32>) -> Result<Observer, Box<dyn Error>> {
    let Some(process) = job else {
        return the_only_one();
    };
    let found = job_of(process);
    let found = found.map_err(|error| format!("process {process} cannot be looked at: {error}"))?;
    found.ok_or_else(|| {
        format!("process {process} is no rank of a job, and none of those it has started").into()
    })
}

fn the_only_one() -> Result<Observer, Box<dyn Error>> {
    let mut jobs = BTreeMap::new();
    for process in processes()? {
        if let Ok(Some(observer)) = Observer::of_process(process)
            && let Ok(identity) = observer.identity()
        {
            jobs.entry(identity).or_insert((process, observer));
        }
    }
    match jobs.len() {
        0 => Err("no job of this user runs on this host".into()),
        1 => Ok(jobs.into_values().next().expect("there is one").1),
        n => {
            let mut text = format!("{n} jobs run here; name one by a process:");
            for (process, observer) in jobs.into_values() {
                let program = name_of(process).unwrap_or_default();
                let n_ranks = observer.n_ranks();
                text += &format!(" {process} ({program}, {n_ranks} ranks)");
            }
            Err(text.into())
        }
    }
}
