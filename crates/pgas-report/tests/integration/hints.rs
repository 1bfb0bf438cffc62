//! The hints for jobs with known culprits.

use std::fs;
use std::mem;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use pgas_core::backend::loopback;
use pgas_core::stats::{Operation, Price};
use pgas_core::trace::Kind;
use pgas_core::{Config, Rank, Statistics};
use pgas_report::analysis::Job;
use pgas_report::read::{Event, Trace};
use pgas_report::{align, chrome, html, read, statistics, words};

const CULPRIT: Rank = Rank::new(2);
/// What the culprit does meanwhile.
const WORK: &str = "a lot of <work>";
/// The maximum time of a wait, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn config(directory: &Path) -> Config {
    let mut config = Config::default();
    config.trace = Some(directory.display().to_string());
    config
}

fn job(directory: &Path) -> Job {
    try_job(directory).unwrap()
}

fn try_job(directory: &Path) -> Result<Job, read::ReadError> {
    let mut traces = read::read(directory, |_| ())?;
    align::align(&mut traces);
    Ok(Job::of(&traces))
}

/// Waits until the traces that the ranks have written so far pass a check. On a busy machine that
/// may take a while.
fn until_seen(directory: &Path, mut is_seen: impl FnMut(&Job) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    // A rank may be about to begin its file.
    let mut is_seen = || try_job(directory).is_ok_and(|job| is_seen(&job));
    while !is_seen() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether each other rank has waited for the culprit for long.
fn has_culprit(job: &Job) -> bool {
    let is_named = words::hints(job).iter().any(|hint| names_culprit(hint));
    let is_other = |rank: &u32| *rank != CULPRIT.number();
    let Some(line) = job
        .lines
        .iter()
        .find(|line| line.name.starts_with("a barrier@"))
    else {
        return false;
    };
    let long = line
        .by_rank
        .iter()
        .filter(|(_, nanos)| **nanos > 200_000_000);
    is_named && long.map(|(rank, _)| *rank).filter(is_other).count() == 3
}

fn names_culprit(hint: &str) -> bool {
    hint.contains("mostly for rank 2, which is in \"a lot of <work>\" meanwhile")
}

/// A job in which one rank works until the others have waited for it for long. Returns the line in
/// which they wait.
fn imbalanced(directory: &Path) -> u32 {
    const N_ROUNDS: u32 = 3;
    let line = Mutex::new(0);
    loopback::run_with(4, &config(directory), |world| {
        for round in 1..=N_ROUNDS {
            {
                let _span = world.span(WORK);
                if world.rank() == CULPRIT {
                    thread::sleep(Duration::from_millis(100));
                    until_seen(directory, |job| {
                        // What it notes is written, with what it has noted before.
                        drop(world.span("a look"));
                        round < N_ROUNDS || has_culprit(job)
                    });
                }
            }
            *line.lock().unwrap() = line!() + 1;
            world.barrier().unwrap();
        }
        let sum = world.allreduce(1_u64, |a, b| a + b).unwrap();
        assert_eq!(sum, 4);
    });
    line.into_inner().unwrap()
}

#[test]
fn the_line_that_waits_the_rank_that_is_late_and_what_it_does_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let line = imbalanced(directory.path());
    let job = job(directory.path());
    assert_eq!((job.n_ranks, job.ranks.len()), (4, 4));
    let hints = words::hints(&job);
    let at = format!("tests/integration/hints.rs:{line} for a barrier");
    let hint = hints.iter().find(|hint| hint.contains(&at));
    let hint = hint.unwrap_or_else(|| panic!("{hints:#?}"));
    // Where ranks do not get a processor at once, the last one waits there, too.
    let waiting = ["ranks 0, 1 and 3 wait ", "ranks 0 to 3 wait "];
    assert!(
        waiting.iter().any(|start| hint.starts_with(start)),
        "{hints:#?}"
    );
    assert!(names_culprit(hint), "{hints:#?}");
    for rank in &job.ranks {
        let spans = rank.stretches.iter().filter(|s| s.name == WORK);
        assert_eq!(spans.count(), 3, "{rank:?}");
        assert!(
            rank.stretches.iter().all(|stretch| stretch.is_over),
            "{rank:?}"
        );
        let is_late = rank.rank == CULPRIT.number();
        assert!(is_late || rank.waits > 200_000_000, "{rank:?}");
    }
    // Both ends of every message of the allreduce are known, and none arrives before it was sent.
    assert!(job.messages.len() >= 6, "{:?}", job.messages);
    assert!(
        job.messages
            .iter()
            .all(|message| message.came >= message.sent)
    );
    assert_eq!(job.latencies.len(), job.messages.len() as u64);
    let bytes: u64 = job.ranks.iter().map(|rank| rank.sent_bytes).sum();
    assert_eq!(job.matrix.values().sum::<u64>(), bytes);
}

#[test]
fn every_call_of_a_collective_is_known_once_with_its_line_and_bytes() {
    for check in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(directory.path());
        config.check = Some(check);
        let lines = loopback::run_with(3, &config, |world| {
            let first = line!() + 1;
            world.barrier().unwrap();
            world.team().barrier_within().unwrap();
            world.team().barrier_nb().wait().unwrap();
            for _ in 0..2 {
                world.allreduce(1_u64, |a, b| a + b).unwrap();
            }
            first
        });
        let job = job(directory.path());
        let calls = |what: &str, line: u32| -> Vec<(usize, u64, u64)> {
            let name = format!("{what}@crates/pgas-report/tests/integration/hints.rs:{line}");
            let named = job.collectives.iter().filter(|one| one.name == name);
            let figures = named.map(|one| (one.calls.len(), one.calls.values().sum(), one.bytes));
            figures.collect()
        };
        let names = ["a barrier", "a barrier", "a barrier begun by barrier_nb"];
        let barriers = (0..3).zip(names);
        let barriers: Vec<_> = barriers
            .map(|(i, name)| calls(name, lines[0] + i))
            .collect();
        assert_eq!(barriers, vec![[(3, 3, 0)]; 3], "{:?}", job.collectives);
        assert_eq!(calls("an allreduce", lines[0] + 4), [(3, 6, 48)]);
    }
}

static PUSH: Operation = Operation::new(
    "Stack<T>::push",
    &[Price::new("", [1, 0, 1]), Price::new("full", [1, 0, 0])],
    "met a full stack",
);

#[test]
fn operations_of_containers_have_their_price_beside_the_documented_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path());
    config.statistics = Statistics::Total;
    config.statistics_latencies = true;
    let file = directory.path().join(statistics::FILE);
    config.statistics_file = Some(file.display().to_string());
    loopback::run_with(2, &config, |world| {
        let (top, slots) = (world.alloc::<u64>(1).unwrap(), world.alloc(3).unwrap());
        for _ in 0..4 {
            let mut performing = world.performs(&PUSH, 1);
            let slot = top.fetch_add(&world, 1).unwrap();
            world.fills(&PUSH, slot, 3);
            match slot {
                0..3 => slots.add(1).put(&world, slot).unwrap(),
                _ => performing.miss(1),
            }
        }
        world.barrier().unwrap();
    });
    let mut job = job(directory.path());
    assert!(html::page(&job, &[]).contains("None were counted"));
    let traces = read::read(directory.path(), |_| ()).unwrap();
    job.statistics = statistics::read(directory.path(), &traces).unwrap();
    let page = html::page(&job, &[]);
    for part in [
        "<code>Stack&lt;T&gt;::push</code></th><td>8</td><td>8</td><td>A + 0.75W</td>",
        "<td class=\"text\">A + W, A full</td>",
        "<td class=\"text\">25 % met a full stack</td>",
        "<td class=\"text\">49 %, at most 100 %</td>",
        "<th class=\"text\" scope=\"row\">puts</th><td>6</td>",
        "<th class=\"text\" scope=\"row\">atomics</th><td>8</td>",
        "Histogram of the latency of 6 puts",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let hints = words::hints(&job);
    let expected = "25 % of 8 calls of Stack<T>::push met a full stack";
    assert!(hints.iter().any(|hint| hint == expected), "{hints:#?}");
    fs::write(&file, "{").unwrap();
    assert!(statistics::read(directory.path(), &traces).is_err());
}

#[test]
fn statistics_of_a_former_job_are_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path());
    config.statistics = Statistics::Total;
    let file = directory.path().join(statistics::FILE);
    config.statistics_file = Some(file.display().to_string());
    let run = |config: &Config| {
        loopback::run_with(2, config, |world| drop(world.performs(&PUSH, 1)));
        let traces = read::read(directory.path(), |_| ()).unwrap();
        let mut job = job(directory.path());
        job.statistics = statistics::read(directory.path(), &traces).unwrap();
        job
    };
    let first = run(&config);
    assert_eq!(first.statistics.operations.len(), 1);
    assert!(!first.statistics.is_of_former_job);
    // The next job counts nothing, so that the file stays.
    config.statistics = Statistics::Off;
    config.statistics_file = None;
    let next = run(&config);
    assert!(file.exists() && next.statistics.operations.is_empty());
    assert!(html::page(&next, &[]).contains("None were counted"));
    let is_told = |hint: &String| hint.contains("statistics in this directory are of a former job");
    assert!(words::hints(&next).iter().any(is_told));
}

#[test]
fn a_stalled_job_says_who_waits_for_whom() {
    let directory = tempfile::tempdir().unwrap();
    let told = Mutex::new(Vec::new());
    loopback::run_with(3, &config(directory.path()), |world| {
        if world.rank() == CULPRIT {
            until_seen(directory.path(), |job| {
                // As if all ranks had been killed at this moment.
                let hints = words::hints(job);
                let waiting = hints.iter().filter(|hint| hint.contains(" had waited "));
                let is_seen = waiting.count() == 2;
                *told.lock().unwrap() = hints;
                is_seen
            });
        }
        world.barrier().unwrap();
    });
    let told = told.into_inner().unwrap();
    for (rank, hint) in told.iter().take(2).enumerate() {
        let expected = format!("rank {rank} had waited ");
        assert!(hint.starts_with(&expected), "{told:#?}");
        assert!(hint.contains("tests/integration/hints.rs:"), "{told:#?}");
        assert!(hint.contains(" for a barrier"), "{told:#?}");
    }
    assert_eq!(
        told.iter()
            .filter(|hint| hint.contains(" had waited "))
            .count(),
        2,
        "{told:#?}"
    );
}

#[test]
fn phases_of_containers_are_in_the_timeline_in_a_table_and_in_the_other_file() {
    let directory = tempfile::tempdir().unwrap();
    loopback::run_with(2, &config(directory.path()), |world| {
        let mut phase = world.phase("hash map", 7, "atomic");
        for _ in 0..2 {
            for next in ["find <only>", "atomic"] {
                world.barrier().unwrap();
                phase.change(next);
            }
        }
        world.barrier().unwrap();
    });
    // As if each phase took ten milliseconds, however long it really took.
    let mut traces = read::read(directory.path(), |_| ()).unwrap();
    for trace in &mut traces {
        let is_phase = |event: &Event| matches!(event.kind, Kind::Phase | Kind::PhaseEnd);
        trace.events.retain(is_phase);
        for (i, event) in (1..).zip(&mut trace.events) {
            event.at = i / 2 * 10_000_000;
        }
    }
    let job = Job::of(&traces);
    assert_eq!(job.objects.len(), 1, "{:?}", job.objects);
    let names: Vec<&str> = job.objects[0]
        .iter()
        .map(|phase| phase.parts()[1])
        .collect();
    let [atomic, find] = ["atomic", "find <only>"];
    assert_eq!(names, [atomic, find, atomic, find, atomic]);
    let page = html::page(&job, &[]);
    assert_eq!(page.matches("class=\"phase\"").count(), 5);
    assert!(page.contains("class=\"phase-name\">find &lt;only&gt;</text>"));
    let row =
        "<th class=\"text\" scope=\"row\">hash map</th><td class=\"text\">find &lt;only&gt;</td>";
    assert!(page.contains(row), "{page}");
    let mut json = Vec::new();
    chrome::write(&job, &mut json).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    for kind in ["b", "e"] {
        let is_it = |event: &&serde_json::Value| {
            event["ph"] == kind && event["name"] == "hash map: find <only>" && event["pid"] == 1
        };
        assert_eq!(events.iter().filter(is_it).count(), 2, "{kind}");
    }
}

#[test]
fn the_page_needs_nothing_from_outside_and_the_other_file_is_json() {
    let directory = tempfile::tempdir().unwrap();
    imbalanced(directory.path());
    let mut run = Command::new(env!("CARGO_BIN_EXE_pgas-report"));
    let output = run.arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("mostly for rank 2"), "{told}");
    let page = fs::read_to_string(directory.path().join("report.html")).unwrap();
    for outside in [
        "http:", "https:", "src=", "url(", "@import", "<script", "<link",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("a lot of &lt;work&gt;") && !page.contains("<work>"));
    for part in [
        "prefers-color-scheme: dark",
        "@media print",
        "<html lang=\"en\">",
        "role=\"img\"",
        "scope=\"col\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Keys scroll what is too wide.
    for part in ["<figure", "<div class=\"scroll\""] {
        let all = page.lines().filter(|line| line.contains(part));
        assert!(all.clone().count() > 1, "{part}");
        for line in all {
            let (_, rest) = line.split_once(part).unwrap();
            let (tag, _) = rest.split_once('>').unwrap();
            assert!(
                tag.contains("aria-label=") && tag.contains("tabindex=\"0\""),
                "{line}"
            );
        }
    }
    let json = fs::read(directory.path().join("trace.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let n = |kind: &str| events.iter().filter(|event| event["ph"] == kind).count();
    assert!(n("X") > 12);
    assert_eq!(n("s"), n("f"), "an arrow has two ends");
    assert!(n("s") >= 6);
}

/// The trace of a rank with stretches: each has a kind, a name, a beginning and an end in
/// milliseconds, and, if it is a wait, the rank that is waited for.
fn busy(rank: u32, stretches: &[(Kind, &str, [i64; 2], Option<u32>)]) -> Trace {
    let mut trace = Trace {
        rank,
        n_ranks: 4,
        host: "one".to_owned(),
        ..Trace::default()
    };
    for (name, (kind, text, times, of)) in (1..).zip(stretches) {
        let end = match kind {
            Kind::Wait => Kind::Waited,
            _ => Kind::SpanEnd,
        };
        for (kind, at, rank) in [(*kind, times[0], None), (end, times[1], *of)] {
            trace.events.push(Event {
                at: at * 1_000_000,
                kind,
                thread: 1,
                name,
                rank,
                numbers: [0, 0],
            });
        }
        trace.names.insert(name, (*text).to_owned());
    }
    trace
}

#[test]
fn who_waits_for_ranks_that_wait_is_known_to_wait_for_the_last_of_them() {
    const BARRIER: &str = "a barrier@src/main.rs:7";
    let wait = |of| (Kind::Wait, BARRIER, [10, 100], Some(of));
    // In a barrier's rounds the first rank waits for the second, that for the third, and that one
    // for the last.
    let traces = [
        busy(0, &[wait(1)]),
        busy(1, &[wait(2)]),
        busy(2, &[wait(3)]),
        busy(3, &[(Kind::Span, "solve", [0, 99], None)]),
    ];
    let hints = words::hints(&Job::of(&traces));
    let hint = "ranks 0 to 2 wait 100 % of their time at src/main.rs:7 for a barrier, mostly for rank 3, \
                which is in \"solve\" meanwhile";
    assert_eq!(hints[0], hint, "{hints:#?}");
    // Two that wait for each other have no other cause.
    let traces = [
        busy(0, &[wait(1)]),
        busy(1, &[wait(0)]),
        busy(2, &[wait(1)]),
    ];
    let job = Job::of(&traces);
    let causes = job.ranks.iter().map(|rank| rank.stretches[0].cause);
    assert_eq!(causes.collect::<Vec<_>>(), [Some(1), Some(0), Some(1)]);
}

/// A job whose last rank works for 8 of 10 ms in each round, then meets the others in a barrier.
fn rounds(n: i64) -> Job {
    const BARRIER: &str = "a barrier@src/main.rs:7";
    let trace = |rank: u32| {
        let round = |i: i64| match rank {
            2 => (Kind::Span, "solve", [10 * i, 10 * i + 8], None),
            _ => (Kind::Wait, BARRIER, [10 * i + 1, 10 * i + 9], Some(2)),
        };
        let mut trace = busy(rank, &(0..n.min(1)).map(round).collect::<Vec<_>>());
        let first = trace.events.clone();
        for i in 1..n {
            let later = first.iter().map(|event| Event {
                at: event.at + i * 10_000_000,
                ..*event
            });
            trace.events.extend(later);
        }
        trace
    };
    Job::of(&[0, 1, 2].map(trace))
}

/// Ranks meet a hundred thousand times in a second.
#[test]
fn what_the_last_one_does_is_known_of_many_rounds_as_of_few() {
    let told = |n| words::hints(&rounds(n)).into_iter().next();
    let hint = "ranks 0 and 1 wait 80 % of their time at src/main.rs:7 for a barrier, mostly for rank 2, which is in \
                \"solve\" meanwhile";
    assert_eq!(told(20_000).as_deref(), Some(hint));
}

#[test]
fn what_is_no_trace_is_refused_in_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let error = read::read(directory.path(), |_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("PGAS_TRACE="), "{error}");
    fs::write(directory.path().join("rank-0.trace"), vec![7; 5000]).unwrap();
    let error = read::read(directory.path(), |_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("rank-0.trace: this is no trace"), "{error}");
    let mut run = Command::new(env!("CARGO_BIN_EXE_pgas-report"));
    let output = run.arg(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(read::read(&directory.path().join("none"), |_| ()).is_err());
}

#[test]
fn what_a_larger_job_has_left_in_the_directory_is_no_part_of_a_later_one() {
    let directory = tempfile::tempdir().unwrap();
    imbalanced(directory.path());
    assert_eq!(job(directory.path()).n_others, 0);
    loopback::run_with(2, &config(directory.path()), |world| {
        world.barrier().unwrap();
    });
    let job = job(directory.path());
    assert_eq!((job.n_ranks, job.ranks.len(), job.n_others), (2, 2, 2));
    let hints = words::hints(&job);
    let is_told = |hint: &String| hint.starts_with("2 traces in this directory are of another job");
    assert!(hints.iter().any(is_told), "{hints:?}");
    assert!(
        !hints.iter().any(|hint| hint.contains("rank 2")),
        "{hints:?}"
    );
}

#[test]
fn a_trace_of_a_former_job_does_not_stand_for_that_of_a_rank_without_one() {
    let directory = tempfile::tempdir().unwrap();
    let run = || {
        loopback::run_with(4, &config(directory.path()), |world| {
            world.barrier().unwrap();
        });
    };
    run();
    let path = |rank: u32| directory.path().join(format!("rank-{rank}.trace"));
    let former = fs::read(path(3)).unwrap();
    run();
    fs::write(path(3), former).unwrap();
    let job = job(directory.path());
    assert_eq!((job.ranks.len(), job.n_others), (3, 1));
    let hints = words::hints(&job);
    let is_told = |hint: &String| hint == "1 of 4 ranks have no trace here";
    assert!(hints.iter().any(is_told), "{hints:?}");
}

#[test]
fn a_copy_of_a_former_trace_does_not_hide_the_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let run = || {
        loopback::run_with(2, &config(directory.path()), |world| {
            world.barrier().unwrap();
        });
    };
    run();
    let path = |name: &str| directory.path().join(format!("{name}.trace"));
    let former = fs::read(path("rank-0")).unwrap();
    // Some come before the new one in whatever order the files are listed.
    let kept = ["rank-0-old", "a", "kept-rank-0", "rank-0.1", "zz"];
    for name in kept {
        let mut former = former.clone();
        // Each is of another job.
        former[24] ^= u8::try_from(name.len()).unwrap();
        fs::write(path(name), former).unwrap();
    }
    run();
    // One more of this job is of no other.
    fs::copy(path("rank-1"), path("rank-1-copy")).unwrap();
    let traces = read::read(directory.path(), |_| ()).unwrap();
    let new = read::decode(&fs::read(path("rank-0")).unwrap()).unwrap();
    assert_eq!((traces.len(), traces[0].began), (2, new.began));
    assert_eq!(traces[0].n_others, kept.len());
}

#[test]
fn statistics_that_are_damaged_are_told_of_and_left_out() {
    let directory = tempfile::tempdir().unwrap();
    loopback::run_with(2, &config(directory.path()), |world| {
        world.barrier().unwrap();
    });
    fs::write(directory.path().join(statistics::FILE), "{").unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_pgas-report"));
    let output = run.arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("statistics.json: EOF"), "{said}");
    assert!(directory.path().join("report.html").exists());
}

#[test]
fn what_the_program_says_begins_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    imbalanced(directory.path());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    for (stdout, place, why) in [
        (
            full.into(),
            "",
            "pgas-report: standard output: No space left",
        ),
        (Stdio::null(), "none", "pgas-report: "),
    ] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_pgas-report"));
        run.arg(directory.path().join(place)).stdout(stdout);
        let output = run.output().unwrap();
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(line.starts_with(why) && line.lines().count() == 1, "{line}");
    }
}

#[test]
fn pipes_in_the_place_of_files_are_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    loopback::run_with(2, &config(directory.path()), |world| {
        world.barrier().unwrap();
    });
    let pipe = |name: &str| {
        let path = directory.path().join(name);
        fs::remove_file(&path).ok();
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
    };
    pipe("rank-1.names");
    pipe(statistics::FILE);
    assert!(job(directory.path()).ranks[1].lacks_names);
    let error = statistics::read(directory.path(), &[]).unwrap_err();
    assert!(error.to_string().contains("this is no file"), "{error}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    loopback::run_with(2, &config(directory.path()), |world| {
        world.barrier().unwrap();
    });
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut run = Command::new(env!("CARGO_BIN_EXE_pgas-report"));
    run.arg(directory.path()).stdout(writer);
    let output = run.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn names_that_are_missing_are_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    imbalanced(directory.path());
    let told = || {
        let hints = words::hints(&job(directory.path()));
        hints.iter().find(|hint| hint.contains("names")).cloned()
    };
    assert_eq!(told(), None);
    let path = |rank: u32| directory.path().join(format!("rank-{rank}.names"));
    let whole = fs::read(path(1)).unwrap();
    for damaged in [&b""[..], b"foreign", &whole[..whole.len() / 2]] {
        fs::write(path(1), damaged).unwrap();
        let told = told().unwrap();
        assert!(told.starts_with("rank 1: some names are missing"), "{told}");
        assert!(told.contains("rank-1.names"), "{told}");
    }
    fs::remove_file(path(1)).unwrap();
    fs::remove_file(path(2)).unwrap();
    let told = told().unwrap();
    assert!(told.starts_with("ranks 1 and 2: some names"), "{told}");
}

/// As a full disk leaves them.
#[test]
fn ranks_whose_traces_hold_no_whole_header_have_none() {
    let directory = tempfile::tempdir().unwrap();
    imbalanced(directory.path());
    let all = read::read(directory.path(), |_| ()).unwrap().len();
    let path = directory.path().join("rank-1.trace");
    let whole = fs::read(&path).unwrap();
    for len in [0, 5, 100, 4095] {
        fs::write(&path, &whole[..len]).unwrap();
        let traces = read::read(directory.path(), |_| ()).unwrap();
        assert_eq!(traces.len(), all - 1);
        assert!(traces.iter().all(|trace| trace.rank != 1));
    }
}

#[test]
fn a_file_that_is_no_trace_is_told_of_and_left_out() {
    let directory = tempfile::tempdir().unwrap();
    imbalanced(directory.path());
    let all = read::read(directory.path(), |_| ()).unwrap().len();
    fs::write(directory.path().join("rank-1.trace"), "foreign").unwrap();
    let mut told = Vec::new();
    let traces = read::read(directory.path(), |error| told.push(error.to_string())).unwrap();
    assert_eq!(traces.len(), all - 1);
    assert!(
        matches!(&told[..], [one] if one.contains("rank-1.trace: this is no trace")),
        "{told:?}"
    );
    let mut run = Command::new(env!("CARGO_BIN_EXE_pgas-report"));
    let output = run.arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("rank-1.trace: this is no trace"), "{said}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 of 4 ranks have no trace here"), "{said}");
}

#[test]
fn damaged_files_are_read_as_far_as_they_go() {
    let directory = tempfile::tempdir().unwrap();
    imbalanced(directory.path());
    let path = directory.path().join("rank-1.trace");
    let whole = fs::read(&path).unwrap();
    let mut state = 1_u32;
    let cuts = [whole.len() - 7, whole.len() / 2, 4096, 4100];
    for (cut, first) in cuts
        .into_iter()
        .flat_map(|cut| [(cut, 8), (cut, 56), (cut, 4096)])
    {
        let mut bytes = whole[..cut].to_vec();
        for _ in 0..200 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = first + state as usize % cut.saturating_sub(first).max(1);
            if at >= cut {
                break;
            }
            bytes[at] ^= 1 << (state >> 29);
        }
        fs::write(&path, &bytes).unwrap();
        let Ok(mut traces) = read::read(directory.path(), |_| ()) else {
            // Its header says so.
            continue;
        };
        align::align(&mut traces);
        let job = Job::of(&traces);
        assert!(!words::hints(&job).is_empty());
        assert!(html::page(&job, &[]).ends_with("</html>\n"));
        chrome::write(&job, &mut Vec::new()).unwrap();
    }
}

/// The trace of a rank that has sent and received messages at these times by its own clock, in
/// milliseconds: the other rank, whether it has sent, and when.
fn exchange(rank: u32, host: &str, began: u64, events: &[(u32, bool, i64)]) -> Trace {
    let event = |&(other, is_sent, millis): &(u32, bool, i64)| Event {
        at: millis * 1_000_000,
        kind: if is_sent { Kind::Send } else { Kind::Begin },
        thread: 1,
        name: 0,
        rank: Some(other),
        numbers: [8, 0],
    };
    Trace {
        rank,
        n_ranks: 3,
        began: began * 1_000_000,
        host: host.to_owned(),
        events: events.iter().map(event).collect(),
        ..Trace::default()
    }
}

#[test]
fn clocks_of_hosts_that_differ_are_brought_together_by_messages() {
    [false, true].into_iter().for_each(align_three_hosts);
}

fn align_three_hosts(has_one_name: bool) {
    const SENT: bool = true;
    // Each message takes 2 ms there and 4 ms back. The second host's clock is 5 s ahead of the
    // first one's, and the third's 7 s behind; that one has messages with the second alone.
    let mut traces = [
        exchange(0, "one", 10_000, &[(1, SENT, 0), (1, !SENT, 16)]),
        exchange(
            1,
            "two",
            15_000,
            &[(0, !SENT, 2), (2, SENT, 3), (2, !SENT, 11), (0, SENT, 12)],
        ),
        exchange(2, "three", 3_000, &[(1, !SENT, 5), (1, SENT, 7)]),
    ];
    if has_one_name {
        for trace in &mut traces {
            trace.clock = mem::replace(&mut trace.host, "localhost".to_owned());
        }
    }
    align::align(&mut traces);
    let job = Job::of(&traces);
    assert_eq!(job.hosts.len(), 3);
    assert_eq!(job.messages.len(), 4, "{:?}", job.messages);
    for message in &job.messages {
        // The middle between the bounds: both ways take as long.
        let took = message.came - message.sent;
        assert_eq!(took, 3_000_000, "{message:?}");
    }
    assert_eq!(job.nanos, 16_000_000);
}

#[test]
fn what_is_read_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    loopback::run_with(2, &config(dir.path()), |world| world.barrier().unwrap());
    let trace = dir.path().join("rank-0.trace");
    let before = fs::read(&trace).unwrap();
    let report = |html: &Path, json: &Path| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_pgas-report"));
        run.arg(dir.path()).arg("--html").arg(html);
        run.arg("--json").arg(json).output().unwrap()
    };
    let [page, other] = ["page", "other"].map(|name| dir.path().join(name));
    fs::create_dir(dir.path().join("below")).unwrap();
    let page_again = dir.path().join("below/../page");
    let pairs = [
        [&trace, &other],
        [&page, &trace],
        [&page, &page],
        [&page, &page_again],
    ];
    for [html, json] in pairs {
        let ended = report(html, json);
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        let line = String::from_utf8_lossy(&ended.stderr);
        assert!(
            line.contains("is read") || line.contains("a file each"),
            "{line}"
        );
    }
    assert_eq!(fs::read(&trace).unwrap(), before);
    assert!(!page.exists() && !other.exists());
    assert!(report(&page, &other).status.success());
}
