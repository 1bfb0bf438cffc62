//! The traces of jobs, whatever becomes of their ranks and of the disk.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use pgas::{Rank, World};
use pgas_report::analysis::{Job, RankSummary};
use pgas_report::stretches::Doing;
use pgas_report::{align, read, words};
use pgas_testkit::job::Ended;
use rustix::process::{Resource, Rlimit, Signal};

use crate::figures::{LATE, N_RANKS};
use crate::jobs::{WATCHED, Way, start, start_within};
use crate::parts::UNLIMITED;
use crate::trial;

/// The spans of a rank.
const N_SPANS: usize = 5000;
/// The events that a rank keeps in memory at most.
const BUFFERED: usize = 1024;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("traces::nowhere", no_directory),
        trial("traces::start_of_threads", start_of_threads),
    ];
    for way in WATCHED {
        for fault in ["none", "kill"] {
            let name = format!("traces::{fault}::{way:?}");
            trials.push(trial(name, move || traced(way, fault)));
        }
        let name = format!("traces::to_the_last_flush::{way:?}");
        trials.push(trial(name, move || to_the_last_flush(way)));
        let name = format!("traces::without_events::{way:?}");
        trials.push(trial(name, move || without_events(way)));
        let name = format!("traces::full_disk::{way:?}");
        trials.push(trial(name, move || full_disk(way)));
    }
    trials
}

/// The first span of a rank, in which it notes nothing more.
const SOLVES: &str = "solve";
/// By then its trace has been written, however busy the machine is.
const WRITTEN: Duration = Duration::from_secs(60);

/// Many spans, then the end that `fault` names.
pub(crate) fn rank_that_spans(world: &World, fault: &str) {
    if fault == "full_disk" {
        // No file grows beyond that from now on, as if the disk were full.
        let limit = Rlimit {
            current: Some(20 << 10),
            maximum: None,
        };
        rustix::process::setrlimit(Resource::Fsize, limit).unwrap();
    }
    if fault == "solve" && world.rank() == Rank::new(1) {
        for _ in 0..10 {
            drop(world.span("a step"));
        }
        let _span = world.span(SOLVES);
        let since = Instant::now();
        while !is_written(world) && since.elapsed() < WRITTEN {
            thread::sleep(Duration::from_millis(10));
        }
        die();
    }
    for i in 0..N_SPANS {
        let name = if fault == "kill" {
            format!("step {i}")
        } else {
            "a step".to_owned()
        };
        drop(world.span(&name));
    }
    if fault == "kill" && world.rank() == Rank::new(1) {
        die();
    }
    let sum = world.allreduce(1_u64, |a, b| a + b);
    assert!(fault != "full_disk" || sum.unwrap() == u64::from(N_RANKS));
}

fn die() {
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, Signal::KILL).unwrap();
}

/// Whether the beginning of the span of rank 1 is in its file.
fn is_written(world: &World) -> bool {
    let directory = world.config().trace.as_ref().unwrap();
    // The other ranks may have no files yet.
    let traces = read::read(Path::new(directory), |_| ()).unwrap_or_default();
    let of_rank = traces.iter().find(|trace| trace.rank == 1);
    of_rank.is_some_and(|trace| trace.events.iter().any(|event| trace.name(event) == SOLVES))
}

/// Runs a job that is traced; the launching process first plays the role `first`.
fn run(first: &[String], way: Way, words: &[&str]) -> (Ended, Job) {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("PGAS_TRACE", directory.path().to_str().unwrap())];
    let ended = start_within(first, way, N_RANKS, words, &settings).end();
    let mut traces = read::read(directory.path(), |_| ()).unwrap();
    assert_eq!(traces.len(), N_RANKS as usize);
    align::align(&mut traces);
    (ended, Job::of(&traces))
}

/// The trace of a killed rank shows what it was doing.
fn traced(way: Way, fault: &str) {
    let (ended, job) = run(&[], way, &["figures", fault]);
    assert_eq!(ended.code() == 0, fault == "none", "{ended:?}");
    let is_whole = job.ranks[1].is_whole;
    assert_eq!(is_whole, fault == "none", "it ends when the rank leaves");
    let line = job.lines.iter().find(|line| {
        let (what, at) = read::what_and_where(&line.name);
        let for_late = line
            .for_rank
            .get(&LATE.number())
            .is_some_and(|nanos| *nanos > 0);
        what == "a barrier" && at.contains("figures.rs:") && for_late
    });
    let line = line.unwrap_or_else(|| panic!("{:#?}", job.lines));
    for rank in [0, 1] {
        assert!(line.by_rank[&rank] > 100_000_000, "{line:?}");
    }
    // Four calls of each rank, and the library's own messages.
    let served = job.ranks.iter().map(|rank| rank.n_came).sum::<u64>();
    assert!(served >= 24 && !job.messages.is_empty(), "{served}");
    let named = job.ranks[0].stretches.iter();
    let named = named.filter(|s| s.doing == Doing::Serves);
    let names: Vec<&str> = named.map(|s| &*s.name).collect();
    let is_of_program = |name: &&str| name.contains("figures.rs:");
    assert!(names.iter().any(is_of_program), "{names:?}");
    let is_of_calls = |name: &&str| name.contains("/rpc.rs:") || name.contains("/way.rs:");
    assert!(!names.iter().any(is_of_calls), "{names:?}");
}

/// The start of ranks that are threads is a wait at the program's line.
fn start_of_threads() {
    // Ranks that start at once wait too briefly for a trace.
    const MOST_STARTS: usize = 500;
    let waited = (0..MOST_STARTS).any(|_| {
        let directory = tempfile::tempdir().unwrap();
        let mut config = pgas::Config::default();
        config.trace = Some(directory.path().to_str().unwrap().to_owned());
        pgas::threads_with(2, &config, |_| ()).unwrap();
        let names = (0..2).map(|rank| {
            let names = directory.path().join(format!("rank-{rank}.names"));
            std::fs::read_to_string(names).unwrap()
        });
        let names: String = names.collect();
        let mut placed = names.lines().filter(|name| name.contains('@')).peekable();
        let has_waited = placed.peek().is_some();
        let is_here = |name: &str| name.contains("@tests/faults/traces.rs:");
        assert!(placed.all(is_here), "{names}");
        has_waited
    });
    assert!(waited, "no rank has waited in {MOST_STARTS} starts");
}

/// If no trace can be written, a line says so, and nothing else changes.
fn no_directory() {
    for way in WATCHED {
        let settings = [("PGAS_TRACE", "/dev/null/traces")];
        let ended = start(way, 2, &["figures", "none"], &settings).end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        let told = "is not traced in /dev/null/traces: ";
        assert_eq!(ended.stderr.matches(told).count(), 2, "{ended:?}");
    }
}

/// What is lost of the trace of a killed rank had not left its memory.
fn to_the_last_flush(way: Way) {
    let (ended, job) = run(&[], way, &["spans", "kill"]);
    assert_ne!(ended.code(), 0, "{ended:?}");
    let killed = &job.ranks[1];
    let spans = killed.stretches.iter().filter(|s| s.doing == Doing::Span);
    let over: Vec<&str> = spans.filter(|s| s.is_over).map(|s| &*s.name).collect();
    // Two events each.
    assert!(over.len() >= N_SPANS - BUFFERED / 2, "{}", over.len());
    for (i, name) in over.iter().enumerate() {
        assert_eq!(*name, format!("step {i}"));
    }
}

/// The trace of a rank that notes nothing more is written soon, too.
fn without_events(way: Way) {
    let (ended, job) = run(&[], way, &["spans", "solve"]);
    assert_ne!(ended.code(), 0, "{ended:?}");
    let killed = job.ranks[1].stretches.iter();
    let spans = killed.filter(|s| s.doing == Doing::Span && !s.is_over);
    let names: Vec<&str> = spans.map(|s| &*s.name).collect();
    assert_eq!(names, [SOLVES]);
}

/// What cannot be written ends the trace with a line for each rank, and nothing else.
fn full_disk(way: Way) {
    let first = [UNLIMITED.to_owned()];
    let (ended, job) = run(&first, way, &["spans", "full_disk"]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), N_RANKS as usize, "{ended:?}");
    let hints = words::hints(&job);
    let is_told = |hint: &String| hint.starts_with("ranks 0 to 2: no trace of the end");
    assert!(hints.iter().any(is_told), "{hints:?}");
    for rank in 0..N_RANKS {
        let told = format!("rank-{rank}.trace ends here: File too large");
        assert_eq!(ended.stderr.matches(&told).count(), 1, "{ended:?}");
        // What was written before is read.
        let RankSummary {
            stretches: spans,
            is_whole,
            ..
        } = &job.ranks[rank as usize];
        assert!(!is_whole);
        assert!(spans.iter().any(|s| s.name == "a step"), "{spans:?}");
    }
}
