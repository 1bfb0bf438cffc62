//! The roles of this program in the jobs of its tests: a launcher, or a rank.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode};

use pgas::Config;
use pgas_smp::Watcher;
use pgas_smp::launcher::{self, Output, SuperviseOptions};
use pgas_testkit::job;

use crate::memory::{self, JOIN};
use crate::{
    ends, figures, limits, manners, many, messages, progress, stalls, suspended, traces, works,
    worlds,
};

/// Starts a job as `pgas-run` does.
pub(crate) const LAUNCH: &str = "--launch";
/// Starts a job like a launcher that knows nothing of this library and ignores how ranks end.
pub(crate) const LAUNCH_FOREIGN: &str = "--launch-foreign";
/// Starts ranks as threads, each of which uses much of its stack.
pub(crate) const THREADS: &str = "--threads";
/// Plays the next role where a file that is too large is an error, and no signal that kills.
pub(crate) const UNLIMITED: &str = "--unlimited";
/// Is a rank, or starts itself as all ranks.
pub(crate) const RANK: &str = "--rank";

/// Plays the role that the command line names, if it names one.
pub(crate) fn play(args: &[String]) -> Option<ExitCode> {
    let (part, rest) = args.split_first()?;
    match part.as_str() {
        LAUNCH => Some(launch(rest)),
        LAUNCH_FOREIGN => Some(launch_foreign(rest)),
        RANK => {
            rank(rest);
            Some(ExitCode::SUCCESS)
        }
        THREADS => {
            limits::use_stacks();
            Some(ExitCode::SUCCESS)
        }
        UNLIMITED => {
            // A shell's `trap` is how a program without unsafe code has a signal ignored.
            let ignoring = "trap '' XFSZ && exec \"$0\" \"$@\"";
            let mut shell = Command::new("sh");
            shell
                .args(["-c", ignoring])
                .arg(env::current_exe().unwrap());
            let failed = shell.args(rest).exec();
            panic!("{failed}")
        }
        JOIN => {
            let (group, part) = rest.split_first().unwrap();
            memory::join(group);
            play(part)
        }
        _ => None,
    }
}

/// Joins the job, and runs the part that the first argument names.
fn rank(words: &[String]) {
    manners::exit_before_joining(words);
    let world = pgas::init().unwrap();
    let (part, words) = words.split_first().unwrap();
    match part.as_str() {
        "wait" => ends::rank_that_waits(world, words),
        "stay" => ends::rank_that_stays(&world),
        "exhaust" => limits::exhaust(&world).unwrap(),
        "late" => limits::rank_that_is_late(world),
        "devour" => memory::rank_that_devours(world),
        "compute" => progress::compute(&world),
        "leave_meanwhile" => progress::leave_meanwhile(&world),
        "panic_meanwhile" => progress::panic_meanwhile(&world),
        "stray_meanwhile" => progress::stray_meanwhile(&world),
        "stall" => {
            // The outcome is on standard error.
            if let Err(error) = stalls::rank_that_stalls(&world) {
                panic!("{error}");
            }
        }
        "suspended" => suspended::rank_that_waits(&world, &words[0]),
        "orders" => {
            if let Err(error) = stalls::rank_with_an_order_of_its_own(&world) {
                panic!("{error}");
            }
        }
        "guard" => {
            if let Err(error) = stalls::rank_that_holds_a_guard(&world) {
                panic!("{error}");
            }
        }
        "figures" => figures::rank_that_counts(&world, &words[0]),
        "works" => works::rank_that_works(&world, &words[0]),
        "spans" => traces::rank_that_spans(&world, &words[0]),
        "flood" => messages::flood(&world, words[0].parse().unwrap()).unwrap(),
        "inattentive" => messages::inattentive(&world).unwrap(),
        "served" => messages::served(&world).unwrap(),
        "strays" => messages::leave_with_strays(&world).unwrap(),
        "flooded" => messages::leave_in_a_flood(world),
        "handler" => messages::rank_that_fails_in_a_handler(world, words),
        "prepared" => messages::rank_that_fails_before_it_commits(world, words),
        "close" => manners::close_files(&world),
        "exit_alone" => manners::exit_alone(world),
        "exit_unjoined" => world.barrier().unwrap(),
        "forge" => manners::forge(&world),
        "drop_errors" => manners::drop_errors(world),
        "exit_together" => manners::exit_together(&world),
        "print" => manners::print_in_pieces(&world),
        "nested" => worlds::nested(world),
        "many" => many::everything(&world).unwrap(),
        other => panic!("no rank plays {other:?}"),
    }
}

/// The command of `pgas-run`, whose binary is in another package.
fn launch(args: &[String]) -> ExitCode {
    let (n_ranks, command) = args.split_first().unwrap();
    let mut options = SuperviseOptions::new(env::current_exe().unwrap(), n_ranks.parse().unwrap());
    options.args = command.iter().map(Into::into).collect();
    options.output = Output::Forward { prefix: false };
    let memory = pgas_smp::create_job(options.n_ranks, &Config::from_env().unwrap()).unwrap();
    let mut watcher = Watcher::new(&memory).unwrap();
    let outcome = launcher::supervise(&options, &memory, &mut watcher).unwrap();
    outcome.exit_code()
}

/// Starts the ranks as Slurm does if the end of a task must not end the step. A stopped rank is
/// killed after all others have ended.
fn launch_foreign(args: &[String]) -> ExitCode {
    let (n_ranks, command) = args.split_first().unwrap();
    let start = |rank: u32| {
        Command::new(env::current_exe().unwrap())
            .args(command)
            .env("SLURM_JOB_ID", std::process::id().to_string())
            .env("SLURM_STEP_ID", "0")
            .env("SLURM_STEP_NUM_TASKS", n_ranks)
            .env("SLURM_PROCID", rank.to_string())
            .spawn()
            .unwrap()
    };
    let mut ranks: Vec<Child> = (0..n_ranks.parse().unwrap()).map(start).collect();
    job::eventually("all ranks have ended that can", || {
        ranks.retain_mut(|rank| rank.try_wait().unwrap().is_none());
        ranks
            .iter()
            .all(|rank| job::state_of(rank.id()) == Some('T'))
    });
    for rank in &mut ranks {
        rank.kill().unwrap();
        rank.wait().unwrap();
    }
    ExitCode::SUCCESS
}
