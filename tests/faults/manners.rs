//! Behaviour that must not harm a job, and behaviour that is an error or is blamed: closing files,
//! ending by `exit`, printing in pieces, limits of the process.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use pgas::World;
use pgas_testkit::fault::Fault;
use pgas_testkit::job::{self, END_OF_JOB, JOB_LIMIT, exit};
use pgas_testkit::soon::assert_soon;

use crate::jobs::{WATCHED, Way, assert_well, start};
use crate::trial;
use crate::waits::FAILING;

const N_RANKS: u32 = 3;
/// Lines that each rank prints.
const N_LINES: usize = 300;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for way in [Way::Launched, Way::SelfLaunched, Way::Foreign] {
        trials.push(trial(format!("files_closed::{way:?}"), move || {
            assert_well(&start(way, N_RANKS, &["close"], &[]).end());
        }));
    }
    for way in WATCHED {
        trials.push(trial(format!("exit_alone::{way:?}"), move || {
            one_that_exits_alone_is_blamed(way);
        }));
        trials.push(trial(format!("exit_unjoined::{way:?}"), move || {
            one_that_exits_before_it_joins_is_blamed(way);
        }));
        trials.push(trial(format!("exit_together::{way:?}"), move || {
            assert_well(&start(way, N_RANKS, &["exit_together"], &[]).end());
        }));
        trials.push(trial(format!("dropped_errors::{way:?}"), move || {
            a_failure_that_no_rank_minds_is_told(way);
        }));
        trials.push(trial(format!("whole_lines::{way:?}"), move || {
            lines_do_not_mix(way);
        }));
    }
    for way in WATCHED {
        trials.push(trial(format!("unknown_settings::{way:?}"), move || {
            unknown_settings_are_told_once(way);
        }));
        trials.push(trial(format!("forged_lines::{way:?}"), move || {
            a_text_forges_no_line(way);
        }));
    }
    trials.push(trial("exit_unjoined::Foreign", || {
        // Who creates the job's memory waits half a minute for all others.
        let settings = [("PGAS_STALL", "5")];
        let ended = start(Way::Foreign, N_RANKS, &["exit_unjoined", "0"], &settings).end();
        for told in [
            format!("pgas:   rank {FAILING} has not joined the job: it has ended, or"),
            format!("rank 0 waited 30 s on this host for rank {FAILING} of {N_RANKS};"),
            "rank 0 ended before it joined the job: start-up failed: rank 0 waited".into(),
        ] {
            assert!(ended.stderr.contains(&told), "{told}: {ended:?}");
        }
        assert!(ended.left.is_empty(), "{ended:?}");
    }));
    let bytes = "settings_that_are_no_text";
    trials.push(trial(bytes, a_setting_that_is_no_text_is_an_error));
    let limit = "limit_of_file_sizes";
    trials.push(trial(limit, a_limit_of_file_sizes_is_an_error));
    trials
}

/// Opens and closes every file that it has open, including the job's, while the others wait and
/// check it.
pub(crate) fn close_files(world: &World) {
    world.barrier().unwrap();
    if world.rank() == FAILING {
        let began = Instant::now();
        // Long enough for many checks by the others.
        while began.elapsed() < Duration::from_millis(300) {
            for entry in fs::read_dir("/proc/self/fd").unwrap() {
                // Some cannot be opened, or are closed already.
                drop(entry.map(|entry| File::open(entry.path())));
            }
        }
    }
    world.barrier().unwrap();
}

/// One rank exits without leaving, and no other one needs it for long.
pub(crate) fn exit_alone(world: World) -> ! {
    world.barrier().unwrap();
    if world.rank() == FAILING {
        Fault::Exit(0).strike(world)
    }
    thread::sleep(JOB_LIMIT);
    exit(0)
}

/// One rank exits without joining, at once or long after the others have joined.
pub(crate) fn exit_before_joining(words: &[String]) {
    let mut names = ["PGAS_RANK", "SLURM_PROCID"].into_iter();
    #[expect(
        clippy::disallowed_methods,
        reason = "it has not joined, and so has no settings"
    )]
    let is_failing = names.any(|name| env::var(name).is_ok_and(|rank| rank == FAILING.to_string()));
    if is_failing && words.first().is_some_and(|part| part == "exit_unjoined") {
        let after = words[1].parse().unwrap();
        thread::sleep(Duration::from_millis(after));
        exit(0)
    }
}

/// All ranks exit without leaving.
pub(crate) fn exit_together(world: &World) -> ! {
    world.barrier().unwrap();
    exit(0)
}

/// One rank fails the job, and all drop the error.
pub(crate) fn drop_errors(world: World) {
    world.barrier().unwrap();
    if world.rank() == FAILING {
        let error = pgas::Error::setting("A", "b".to_owned(), "no work");
        drop(world.give_up("work of its own", error));
    }
    drop(world.barrier());
    // Nothing is printed as by a panic.
    drop(world);
}

/// Prints lines in pieces.
pub(crate) fn print_in_pieces(world: &World) {
    world.barrier().unwrap();
    let rank = world.rank();
    for line in 0..N_LINES {
        for piece in [
            format!("rank {rank} "),
            "prints ".into(),
            format!("{line}\n"),
        ] {
            let mut stdout = std::io::stdout();
            stdout.write_all(piece.as_bytes()).unwrap();
            stdout.flush().unwrap();
        }
    }
}

fn one_that_exits_alone_is_blamed(way: Way) {
    let ended = start(way, N_RANKS, &["exit_alone"], &[]).end();
    assert_eq!(ended.code(), 1, "{ended:?}");
    let told = format!("pgas: rank {FAILING} (pid ");
    assert!(ended.stderr.starts_with(&told), "{ended:?}");
    let told = "exited with code 0 without leaving the job";
    assert!(ended.stderr.contains(told), "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
    assert_soon(ended.took, Duration::from_secs(2) + 2 * END_OF_JOB, &ended);
}

fn a_failure_that_no_rank_minds_is_told(way: Way) {
    let ended = start(way, N_RANKS, &["drop_errors"], &[]).end();
    assert_eq!(ended.code(), 1, "{ended:?}");
    let told = format!("pgas: rank {FAILING} (pid ");
    let mut lines = ended.stderr.lines().filter(|line| line.starts_with(&told));
    let line = lines.next().unwrap_or_default();
    assert!(
        line.contains("failed in work of its own: A=b: no work"),
        "{ended:?}"
    );
    assert!(lines.next().is_none() && ended.left.is_empty(), "{ended:?}");
}

fn one_that_exits_before_it_joins_is_blamed(way: Way) {
    for after in ["0", "700"] {
        let ended = start(way, N_RANKS, &["exit_unjoined", after], &[]).end();
        assert_eq!(ended.code(), 1, "{ended:?}");
        let told = format!("pgas: rank {FAILING} (pid ");
        assert!(ended.stderr.contains(&told), "{ended:?}");
        let told = "exited with code 0 without leaving the job";
        assert!(ended.stderr.contains(told), "{ended:?}");
        assert!(ended.left.is_empty(), "{ended:?}");
        assert_soon(ended.took, Duration::from_secs(4) + 2 * END_OF_JOB, &ended);
    }
}

fn lines_do_not_mix(way: Way) {
    let ended = start(way, N_RANKS, &["print"], &[]).end();
    assert_well(&ended);
    let mut next = [0; N_RANKS as usize];
    for line in ended.stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let ["rank", rank, "prints", number] = words[..] else {
            panic!("{line:?} is not one of a rank");
        };
        let next: &mut usize = &mut next[rank.parse::<usize>().unwrap()];
        assert_eq!(number.parse(), Ok(*next), "{line:?}");
        *next += 1;
    }
    assert_eq!(next, [N_LINES; N_RANKS as usize]);
}

fn a_limit_of_file_sizes_is_an_error() {
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f 1000 && exec \"$0\" --rank stay"])
        .arg(env::current_exe().unwrap())
        .env("PGAS_SEGMENT", "64M")
        .env("PGAS_RANKS", "2");
    let ended = job::start(command).end();
    assert_eq!(ended.code(), 101, "{ended:?}");
    assert!(ended.stderr.contains("(ulimit -f)"), "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
}

/// A text with special characters, as one from a file might have.
const FORGED: &str = "no way on\npgas: rank 0 (pid 1) forged\u{1b}[2J";

/// Ends the job with this text.
pub(crate) fn forge(world: &World) -> ! {
    world.barrier().unwrap();
    if world.rank() == FAILING {
        world.abort(5, FORGED)
    }
    let error = world.barrier().unwrap_err().to_string();
    job::say(&error);
    exit(1)
}

fn a_text_forges_no_line(way: Way) {
    let ended = start(way, N_RANKS, &["forge"], &[]).end();
    assert_eq!(ended.code(), 5, "{ended:?}");
    let told = r"no way on\npgas: rank 0 (pid 1) forged\u{1b}[2J";
    assert!(ended.stderr.contains(told), "{ended:?}");
    for printed in [&ended.stderr, &ended.stdout] {
        assert!(!printed.contains('\u{1b}'), "{ended:?}");
        let mut lines = printed.lines();
        assert!(lines.all(|line| !line.contains("forged") || line.contains("no way on")));
    }
}

fn unknown_settings_are_told_once(way: Way) {
    let unknown = [("PGAS_SEGEMNT", "1M"), ("PGAS_TIMEOT", "1")];
    let ended = start(way, N_RANKS, &["exit_together"], &unknown).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let told = "pgas: warning: no such setting: PGAS_SEGEMNT (did you mean PGAS_SEGMENT?), \
                PGAS_TIMEOT (did you mean PGAS_TIMEOUT?)\n";
    assert_eq!(ended.stderr, told, "{ended:?}");
}

fn a_setting_that_is_no_text_is_an_error() {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--rank", "exit_together"])
        .env("PGAS_SEGMENT", std::ffi::OsStr::from_bytes(b"8\xffM"));
    let ended = job::start(command).end();
    assert_eq!(ended.code(), 101, "{ended:?}");
    assert!(ended.stderr.contains("is not UTF-8"), "{ended:?}");
}
