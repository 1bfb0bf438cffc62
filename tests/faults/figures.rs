//! The statistics of all ranks are printed when the job ends, for every end and every launcher.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use libtest_mimic::Trial;
use pgas::{Config, Rank, RemoteCalls, Statistics, World};
use serde_json::Value;

use crate::jobs::{WATCHED, Way, start};
use crate::trial;

pub(crate) const N_RANKS: u32 = 3;
/// The rank that comes late, so that the others wait for it.
pub(crate) const LATE: Rank = Rank::new(2);
const DELAY: Duration = Duration::from_millis(400);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![trial("figures::threads", threads)];
    for fault in ["none", "kill", "kill_first", "panic", "abort"] {
        for way in [Way::Launched, Way::SelfLaunched, Way::Foreign] {
            // Without a supervisor some surviving rank must print them, no matter which.
            let name = format!("figures::{fault}::{way:?}");
            trials.push(trial(name, move || processes(way, fault)));
        }
    }
    trials.push(trial("figures::one_rank", one_rank));
    trials.push(trial("figures::no_file", no_file));
    trials
}

/// Ten puts, five gets and three atomics on the next rank, under a name; four calls; and a barrier
/// to which a rank is late.
pub(crate) fn rank_that_counts(world: &World, fault: &str) {
    let named = world.named("cells");
    let cells = named.alloc_symmetric::<u64>(8).unwrap();
    let next = world.rank_after(world.rank());
    for i in 0..10 {
        cells.on(next).add(i % 8).put(&named, 7).unwrap();
    }
    for i in 0..5 {
        cells.on(next).add(i).get(&named).unwrap();
    }
    for _ in 0..3 {
        cells.on(next).fetch_add(&named, 1).unwrap();
    }
    for _ in 0..4 {
        world.rpc(next, |x: u64| x + 1, 1).unwrap().wait().unwrap();
    }
    // A sleeping rank serves no messages.
    world.barrier().unwrap();
    if world.rank().index() == world.ranks().len() - 1 {
        thread::sleep(DELAY);
    }
    world.barrier().unwrap();
    let is_culprit = world.rank().number() == u32::from(fault != "kill_first");
    match fault {
        "kill" | "kill_first" if is_culprit => {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
        }
        "panic" if is_culprit => panic!("as it was told"),
        "abort" if is_culprit => world.abort(7, "as it was told"),
        "none" => return,
        _ => {}
    }
    // An error that ends the program normally, like a `main` that returns it.
    drop(world.barrier());
}

fn file() -> PathBuf {
    static N_FILES: AtomicU32 = AtomicU32::new(0);
    let n = N_FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("figures-{}-{n}.json", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn figures(file: &Path) -> Value {
    let text = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let value = serde_json::from_slice(&text).unwrap();
    fs::remove_file(file).unwrap();
    value
}

fn processes(way: Way, fault: &str) {
    let file = file();
    let setting = format!("peers,1,{}", file.display());
    let ended = start(
        way,
        N_RANKS,
        &["figures", fault],
        &[("PGAS_STATS", &setting)],
    )
    .end();
    assert_eq!(
        ended.code() == 0,
        fault == "none" || way == Way::Foreign,
        "{ended:?}"
    );
    let told = figures(&file);
    check(&told, N_RANKS);
    let outcome = told["outcome"].as_str().unwrap();
    let expected: &[&str] = match fault {
        "none" => &["all ranks have"],
        "kill" => &["rank 1"],
        "kill_first" => &["rank 0"],
        _ => &["rank 1", "rank 1 (pid"],
    };
    assert!(
        expected.iter().any(|part| outcome.contains(part)),
        "{outcome}"
    );
    // One complete table.
    let heading = format!("pgas: statistics of {N_RANKS} ranks, ");
    assert_eq!(
        ended.stderr.matches(&heading).count(),
        1,
        "{}",
        ended.stderr
    );
    for part in [
        "% of the ranks' time",
        "figures.rs:",
        "for a barrier, mostly for rank 2",
        "\"cells\": 15 gets, 30 puts, 9 atomics",
        "bytes from (rows) to (columns)",
        "at most, of its heap",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
}

#[track_caller]
fn check(figures: &Value, n_ranks: u32) {
    assert_eq!(figures["n_ranks"], n_ranks);
    let ranks = figures["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), n_ranks as usize, "{figures:#}");
    for (number, rank) in ranks.iter().enumerate() {
        assert_eq!(rank["rank"], number);
        for (kind, least) in [("puts", 10), ("gets", 5), ("atomics", 3), ("messages", 4)] {
            let n = rank[kind]["near"].as_u64().unwrap();
            assert!(n >= least && n < 100, "{kind}: {rank:#}");
            assert!(
                rank[kind]["near_bytes"].as_u64().unwrap() >= 8 * n,
                "{rank:#}"
            );
            assert_eq!(rank[kind]["remote"], 0, "{rank:#}");
        }
        assert!(rank["barriers"].as_u64().unwrap() >= 1);
        assert!(rank["segment"].as_u64().unwrap() >= 1 << 20);
        assert!(rank["symmetric_heap"].as_u64().unwrap() >= 64);
        if cfg!(target_os = "linux") {
            assert!(rank["resident"].as_u64().unwrap() >= 1 << 20, "{rank:#}");
        }
        assert!(rank["ns"].as_u64().unwrap() < 60_000_000_000);
    }
    let name = &figures["names"][0];
    assert_eq!(name["name"], "cells");
    for (kind, n) in [("gets", 5), ("puts", 10), ("atomics", 3)] {
        assert_eq!(name[kind], n * n_ranks, "{name:#}");
    }
    if n_ranks == 1 {
        return;
    }
    let waits = figures["waits"].as_array().unwrap();
    let is_culprit =
        |line: &&Value| line["what"] == "a barrier" && line["mostly_for"] == LATE.number();
    let line = waits
        .iter()
        .find(is_culprit)
        .unwrap_or_else(|| panic!("{figures:#}"));
    assert!(line["file"].as_str().unwrap().ends_with("figures.rs"));
    let least = DELAY.as_nanos() * u128::from(n_ranks - 1) / 2;
    assert!(u128::from(line["ns"].as_u64().unwrap()) > least, "{line:#}");
}

fn threads() {
    let file = file();
    let mut config = Config::default();
    config.check = Some(false); // the comparison of calls would count
    config.segment_bytes = Some(4 << 20);
    config.statistics = Statistics::PerPeer;
    config.statistics_file = Some(file.display().to_string());
    pgas::threads_with(N_RANKS, &config, |world| rank_that_counts(&world, "none")).unwrap();
    let told = figures(&file);
    check(&told, N_RANKS);
    for (number, rank) in told["ranks"].as_array().unwrap().iter().enumerate() {
        let next = (number + 1) % N_RANKS as usize;
        assert_eq!(rank["peers"][next][1], 10, "puts: {rank:#}");
        assert_eq!(rank["peers"][next][0], 5, "gets: {rank:#}");
    }
    // Statistics are printed after a panic, too.
    let run = || pgas::threads_with(N_RANKS, &config, |world| rank_that_counts(&world, "panic"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    let told = figures(&file);
    check(&told, N_RANKS);
    assert!(
        told["outcome"].as_str().unwrap().contains("rank 1"),
        "{told:#}"
    );
}

fn one_rank() {
    for way in WATCHED {
        let file = file();
        let setting = file.display().to_string();
        let ended = start(way, 1, &["figures", "none"], &[("PGAS_STATS", &setting)]).end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert!(!ended.stderr.contains("statistics of"), "{ended:?}");
        check(&figures(&file), 1);
    }
}

/// If a file cannot be written, a line says so, and nothing else changes.
fn no_file() {
    for way in WATCHED {
        let settings = [("PGAS_STATS", "1,/no/such/directory/a.json")];
        let ended = start(way, 2, &["figures", "none"], &settings).end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        let told = "pgas: the statistics are not in /no/such/directory/a.json: ";
        assert_eq!(ended.stderr.matches(told).count(), 1, "{ended:?}");
        assert!(ended.stderr.contains("statistics of 2 ranks"), "{ended:?}");
    }
}
