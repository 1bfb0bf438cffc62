//! Linux only: the command line of `pgas-run`, around the launcher of `pgas-smp`.

use std::env;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _, Write};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pgas_core::Config;
use pgas_core::config::launch::{JOB_FD_VARIABLE, JOB_ID_VARIABLE, RANK_VARIABLE, RANKS_VARIABLE};
use pgas_core::notice::printable;
use pgas_smp::launcher::{self, Output, SuperviseOptions};
use pgas_smp::{Observer, Watcher, create_job, warn_of_size};

use crate::arguments::{number_of_ranks, seconds, variable};
use crate::code::code_of;
use crate::hosts::{self, Wanted};
use crate::watch::Watching;

/// Starts the ranks of a pgas program on this host, or on several, and stays with them until all
/// have ended.
///
/// Rank 0 reads standard input, if the job is on this host. The output of the ranks is passed on
/// line by line; lines of more than 64 KiB may be broken. When a rank fails, one line says which,
/// how and when, and the other ranks are ended; pgas-run then exits with the failed rank's exit
/// code, or with 128 plus the number of the signal that killed it.
#[derive(Debug, Parser)]
#[command(name = "pgas-run", version, override_usage = USAGE, after_help = AFTER_HELP)]
struct Arguments {
    /// The number of ranks; with hosts, by default as many as they take
    #[arg(short, long = "ranks", value_name = "RANKS", value_parser = number_of_ranks)]
    #[arg(required_unless_present_any = ["hosts", "hostfile", "serve_host"])]
    n: Option<u32>,

    /// The hosts, each with the number of its ranks (by default 1); the first are filled first
    #[arg(long, value_name = "HOST[:RANKS],...", conflicts_with = "hostfile")]
    hosts: Option<OsString>,

    /// A file with the hosts, one a line: `name`, `name:4` or `name slots=4 max_slots=8`
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,

    /// The command that starts a program on a host; the host's name and the program follow it
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    agent: OsString,

    /// The address at which the others reach this host; by default all its addresses
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<IpAddr>,

    /// The time in which all hosts must connect, and then all ranks join, once one waits for them
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    start_timeout: Duration,

    /// Begin each line of output with the rank that printed it, as in `[3] text`
    #[arg(short, long)]
    prefix: bool,

    /// Let the ranks write to this program's output: a terminal stays one, but lines may mix
    #[arg(long, conflicts_with = "prefix")]
    inherit: bool,

    /// Show what the ranks do while they run: below their output on a terminal, else in lines
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    #[arg(num_args = 0..=1, require_equals = true, conflicts_with = "inherit")]
    #[expect(
        clippy::option_option,
        reason = "given or not, with a value or without"
    )]
    watch: Option<Option<Duration>>,

    /// End the ranks after this time, with exit code 124; the rest of their output has no limit
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Set an environment variable for the ranks; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = variable())]
    env: Vec<(OsString, OsString)>,

    /// Run as the agent of a host, which gets all else by standard input
    #[arg(long, hide = true, exclusive = true)]
    serve_host: bool,

    /// The program and its arguments
    #[arg(
        required_unless_present = "serve_host",
        trailing_var_arg = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

const USAGE: &str = "\
pgas-run [OPTIONS] --ranks <RANKS> <PROGRAM>...
       pgas-run [OPTIONS] --hosts <HOST[:RANKS],...> <PROGRAM>...";

const AFTER_HELP: &str = "\
Examples:
  pgas-run -n 4 ./my_program input.txt
  pgas-run -n 2 --prefix --timeout 60 -- cargo test --test ring
  pgas-run -n 8 --watch ./my_program input.txt
  pgas-run --hosts node1:4,node2:4 ./my_program input.txt

Signals to pgas-run are passed on to the ranks; a second SIGINT, SIGTERM, SIGHUP or SIGQUIT kills
the job. A rank gets a signal twice that a program sends to the whole process group.
Memory of a job has no name in any file system, and nothing is left behind however the job ends.

Hosts have pgas-run and the program at the same paths, and the program is built with the feature
`ofi` of pgas. Variables called PGAS_* and FI_*, LD_LIBRARY_PATH and RUST_BACKTRACE go to all ranks,
others by --env. A host of which nothing is heard for PGAS_SILENCE seconds (20) ends the job.";

/// The command line.
#[cfg(test)]
pub(crate) fn command() -> clap::Command {
    <Arguments as clap::CommandFactory>::command()
}

pub(crate) fn main() -> ExitCode {
    let arguments = match pgas_command_line::parse("pgas-run") {
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
    if arguments.serve_host {
        return hosts::serve();
    }
    let Some(n_ranks) = arguments.n.filter(|_| !arguments.has_hosts()) else {
        return on_hosts(arguments);
    };
    let mut command = arguments.command.into_iter();
    let program = command.next().unwrap_or_default();
    let mut options = SuperviseOptions::new(program, n_ranks);
    options.args = command.collect();
    options.env = arguments.env;
    options.timeout = arguments.timeout;
    options.output = match arguments {
        Arguments { inherit: true, .. } => Output::Inherit,
        Arguments { prefix, .. } => Output::Forward { prefix },
    };
    let config = config_over(&options.env)?;
    warn_of_size(options.n_ranks, &config);
    let memory = create_job(options.n_ranks, &config)?;
    let mut watcher = Watcher::new(&memory)?;
    let outcome = match arguments.watch {
        None => launcher::supervise(&options, &memory, &mut watcher)?,
        Some(every) => {
            let mut watching = Watching::new(watcher, Observer::new(&memory)?, every);
            launcher::supervise(&options, &memory, &mut watching)?
        }
    };
    Ok(outcome.exit_code())
}

/// The text of a list of hosts, which may come from a pipe, and of which there is an end.
fn read_list(path: &Path) -> io::Result<String> {
    const MOST: u64 = 64 << 20;
    let mut text = String::new();
    let file = fs::File::open(path)?;
    if file.take(MOST + 1).read_to_string(&mut text)? as u64 > MOST {
        return Err(io::Error::other("a list of hosts has at most 64 MiB"));
    }
    Ok(text)
}

/// A job on the hosts that the user names.
fn on_hosts(arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let (option, named) = match (&arguments.hosts, &arguments.hostfile) {
        (Some(list), _) => {
            let option = format!("--hosts {}", pgas_command_line::shown(list));
            (
                option,
                list.to_str().map_or_else(not_text, hosts::from_list),
            )
        }
        (None, file) => {
            let file = file.clone().unwrap_or_default();
            let text = read_list(&file).map_err(|error| error.to_string());
            let option = format!("--hostfile {}", pgas_command_line::shown(file.as_os_str()));
            (option, text.and_then(|text| hosts::from_file(&text)))
        }
    };
    let placed = named.and_then(|named| hosts::place(named, arguments.n));
    let hosts = placed.map_err(|error| format!("{option}: {error}"))?;
    if arguments.inherit {
        return Err("--inherit: the output of other hosts can only be passed on".into());
    }
    let config = config_over(&arguments.env)?;
    let mut env: Vec<_> = env::vars_os()
        .filter(|(key, _)| is_passed_on(key))
        .collect();
    if config.backend.is_none() {
        env.push(("PGAS_BACKEND".into(), "ofi".into()));
    }
    env.extend(arguments.env);
    hosts::run(&Wanted {
        hosts,
        agent: words(&arguments.agent),
        bind: arguments.bind,
        patience: arguments.start_timeout,
        silence: config.silence,
        timeout: arguments.timeout,
        prefix: arguments.prefix,
        watch: arguments.watch,
        command: arguments.command,
        env,
    })
}

fn not_text<T>() -> Result<T, String> {
    Err("is not UTF-8".to_owned())
}

/// The words of a command, between blanks.
fn words(command: &OsStr) -> Vec<OsString> {
    let words = command.as_bytes().split(u8::is_ascii_whitespace);
    let words = words.filter(|word| !word.is_empty());
    words
        .map(|word| OsStr::from_bytes(word).to_owned())
        .collect()
}

impl Arguments {
    fn has_hosts(&self) -> bool {
        self.hosts.is_some() || self.hostfile.is_some()
    }
}

/// Whether a variable of this process is passed to ranks on other hosts: those of this library and
/// of libfabric, and what programs need to find libraries and to explain errors. Not those that
/// identify a process, which differ.
fn is_passed_on(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let is_own = [
        RANK_VARIABLE,
        RANKS_VARIABLE,
        JOB_FD_VARIABLE,
        JOB_ID_VARIABLE,
    ];
    let is_setting = name.starts_with("PGAS_") || name.starts_with("FI_");
    let is_needed = ["LD_LIBRARY_PATH", "RUST_BACKTRACE"].contains(&&*name);
    (is_setting || is_needed) && !is_own.contains(&&*name)
}

/// The settings of this process, overridden by those in `env`.
fn config_over(env: &[(OsString, OsString)]) -> pgas_core::Result<Config> {
    Config::from_env_over(&|name| {
        let set = env.iter().rev().find(|(key, _)| key == name);
        set.map(|(_, value)| value.to_string_lossy().into_owned())
    })
}

fn complain(message: &str) {
    // There is nowhere to report a failure of this.
    io::stderr()
        .write_all(format!("pgas-run: {}\n", printable(message)).as_bytes())
        .ok();
}

/// The text of an error, with the name of the option to change.
fn told(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(pgas_core::Error::Setting(setting)) if setting.name == RANKS_VARIABLE => {
            format!("--ranks {}: {}", setting.value, setting.reason)
        }
        _ => error.to_string(),
    }
}
