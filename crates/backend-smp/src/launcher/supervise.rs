//! Starting the ranks of a job and staying with them until the last has ended.

use std::env;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::Memory;
use super::descriptors::{DescriptorLimit, allow_descriptors};
use super::job::{JobHooks, Output, Part, SuperviseError, SuperviseOptions};
use super::orphans::Orphans;
use super::outcome::Outcome;
use super::ranks::{Bond, Ranks};
use super::signals::SignalWatch;
use super::sys::Inheritance;
use super::watch::Watch;

/// Starts the ranks of a job and stays until all of them have ended.
///
/// Rank 0 has this process's standard input, the others have none. Each rank finds its number, the
/// number of ranks and the descriptor of `memory` in its environment. Signals to this process are
/// passed on to the ranks; a second request to end within one job kills it.
///
/// When a rank fails, or exits with code 0 although `hooks` still counts it as a member, one line
/// on standard error names it; the others are given time to end by themselves, then SIGTERM, then
/// SIGKILL. Processes that the ranks left behind are killed at the end in any case.
///
/// To do so this process becomes the reaper of its descendants' orphans. It should do nothing else:
/// children that it starts elsewhere in the meantime count as the job's.
///
/// # Errors
///
/// [`SuperviseError::Start`] if the program cannot be run: no rank is left running then. The other
/// variants tell of failures of this process's own system calls, after which no rank is left
/// either.
///
/// # Panics
///
/// If `options.n_ranks` is 0.
#[track_caller]
pub fn supervise(
    options: &SuperviseOptions,
    memory: &impl Memory,
    hooks: &mut dyn JobHooks,
) -> Result<Outcome, SuperviseError> {
    let descriptors = allow_descriptors(3 * u64::from(options.n_ranks))?;
    let bond = Bond::Memory(memory.descriptor());
    stay_with(options, (bond, Vec::new()), descriptors, hooks)
}

/// As [`supervise`], for the ranks of a job that are on this host, which have no standard input.
///
/// The caller brings them together with the ranks of other hosts, and reports the outcome to the
/// user: nothing is printed here.
///
/// # Errors
///
/// As for [`supervise`].
///
/// # Panics
///
/// If `options.n_ranks` is 0.
#[track_caller]
pub fn supervise_part(
    options: &SuperviseOptions,
    part: Part,
    hooks: &mut dyn JobHooks,
) -> Result<Outcome, SuperviseError> {
    // For each rank: a process, pipes for its output and its errors, and two ends of a socket.
    let descriptors = allow_descriptors(5 * u64::from(options.n_ranks))?;
    let (mut sockets, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..options.n_ranks {
        let (rank, here) = UnixStream::pair()?;
        sockets.push(rank);
        ends.push(here);
    }
    let bond = Bond::Part { part, sockets };
    stay_with(options, (bond, ends), descriptors, hooks)
}

#[track_caller]
fn stay_with(
    options: &SuperviseOptions,
    (bond, ends): (Bond<'_>, Vec<UnixStream>),
    descriptors: DescriptorLimit,
    hooks: &mut dyn JobHooks,
) -> Result<Outcome, SuperviseError> {
    assert!(options.n_ranks > 0, "a job has at least one rank");
    let started = Instant::now();
    let signals = SignalWatch::start()?;
    // Before the ranks, so that on an error these are dropped first.
    let orphans = Orphans::adopt()?;
    let inheritance = Inheritance {
        mask: signals.previous_mask(),
        descriptors: descriptors.0,
    };
    let mut ranks = Ranks::start(options, &bond, inheritance)?;
    let forwarders = ranks.forward(options.output, &bond, hooks)?;
    let tells = matches!(bond, Bond::Memory(_));
    // The ranks alone have their ends of the sockets, which so show when they are gone.
    drop(bond);
    let mut watch = Watch::new(options, started, &signals, &orphans, hooks, tells);
    watch.until_all_have_ended(&mut ranks, ends)?;
    orphans.kill();
    watch.until_all_is_written(forwarders)
}

/// Starts this very program `n_ranks` times, with the same arguments, as the ranks of a job.
///
/// For a program that was started without any launcher. Afterwards it should exit with the
/// outcome's [`code`](Outcome::code).
///
/// # Errors
///
/// As for [`supervise`].
///
/// # Panics
///
/// If `n_ranks` is 0.
#[track_caller]
pub fn self_launch(
    n_ranks: u32,
    memory: &impl Memory,
    hooks: &mut dyn JobHooks,
) -> Result<Outcome, SuperviseError> {
    let mut options = SuperviseOptions::new("/proc/self/exe", n_ranks);
    let mut args = env::args_os();
    options.arg0 = args.next();
    options.args = args.collect();
    // As under `pgas-run`: lines of several ranks do not mix.
    options.output = Output::Forward { prefix: false };
    supervise(&options, memory, hooks)
}
