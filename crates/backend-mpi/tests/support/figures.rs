//! A job whose statistics and traces are written; a part of the tests of jobs over libfabric, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use pgas_core::{Rank, World};
use pgas_report::analysis::Job;
use pgas_report::stretches::Doing;
use pgas_report::{align, read, statistics, words};
use serde_json::Value;

/// The time by which the last rank is late.
const DELAY: Duration = Duration::from_millis(300);

/// The folder to which a job writes its statistics and traces. It is removed on drop.
#[derive(Debug)]
pub(crate) struct Figures(PathBuf);

impl Figures {
    /// Makes the ranks of `command` write to a new folder within `directory`.
    pub(crate) fn of(command: &mut Command, directory: impl AsRef<Path>) -> Self {
        let name = format!("figures-{}", std::process::id());
        let directory = directory.as_ref().join(name);
        fs::create_dir_all(&directory).expect("a folder");
        let file = directory.join(statistics::FILE);
        command
            .env("PGAS_STATS", file)
            .env("PGAS_TRACE", &directory)
            .env("PGAS_CHECK", "0");
        Self(directory)
    }

    /// Checks what [`play`] leaves in the folder: its transfers are `place`, `near` or `remote`.
    #[track_caller]
    pub(crate) fn check(&self, n_ranks: u32, place: &str) {
        let text = fs::read(self.0.join(statistics::FILE)).expect("the statistics");
        let counted: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(counted["n_ranks"], n_ranks, "{counted:#}");
        let ranks = counted["ranks"].as_array().expect("ranks");
        assert_eq!(ranks.len(), n_ranks as usize, "{counted:#}");
        for rank in ranks {
            for (kind, least) in [("puts", 10), ("gets", 5), ("atomics", 3)] {
                let n = rank[kind][place].as_u64().expect("a number");
                assert!((least..100).contains(&n), "{kind}: {rank:#}");
            }
        }
        let mut traces = read::read(&self.0, |_| ()).expect("the traces");
        assert_eq!(traces.len(), n_ranks as usize);
        align::align(&mut traces);
        let mut job = Job::of(&traces);
        job.statistics = statistics::read(&self.0, &traces).expect("what the report reads of it");
        check_job(&job, n_ranks, place);
    }
}

#[track_caller]
fn check_job(job: &Job, n_ranks: u32, place: &str) {
    let late = n_ranks - 1;
    let line = job.lines.iter().find(|line| {
        let (what, at) = read::what_and_where(&line.name);
        what == "a barrier" && at.contains("figures.rs:")
    });
    let line = line.unwrap_or_else(|| panic!("{:#?}", job.lines));
    for rank in 0..late {
        assert!(line.by_rank[&rank] > 100_000_000, "{line:?}");
    }
    for rank in &job.ranks {
        let mut spans = rank.stretches.iter().filter(|s| s.doing == Doing::Span);
        assert!(spans.any(|span| span.name == "transfers"), "{rank:?}");
        let next = (rank.rank + 1) % n_ranks;
        if place == "remote" {
            assert!(rank.n_remote >= 18, "{rank:?}");
            assert!(job.matrix[&(rank.rank, next)] >= 18 * 8, "{:?}", job.matrix);
        }
    }
    assert!(!job.messages.is_empty(), "messages with both ends");
    let hints = words::hints(job);
    let is_culprit = |hint: &String| hint.contains("figures.rs:") && hint.contains("a barrier");
    assert!(hints.iter().any(is_culprit), "{hints:#?}");
}

impl Drop for Figures {
    fn drop(&mut self) {
        // If that fails, the folder stays among the files of the build.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Transfers and atomics on the next rank, a collective, and a barrier to which the last rank is
/// late.
pub(crate) fn play(world: &World) {
    let cells = world.alloc_symmetric::<u64>(8).expect("memory");
    let next = world.rank_after(world.rank());
    let span = world.span("transfers");
    for i in 0..10 {
        cells.on(next).add(i % 8).put(world, 7).expect("a put");
    }
    world.flush(next).expect("a flush");
    for i in 0..5 {
        cells.on(next).add(i).get(world).expect("a get");
    }
    for _ in 0..3 {
        cells.on(next).fetch_add(world, 1).expect("an atomic");
    }
    drop(span);
    let sum = world.allreduce(1_u64, |a, b| a + b).expect("a sum");
    assert_eq!(sum, world.ranks().len() as u64);
    let last = Rank::from_index(world.ranks().len() - 1);
    if world.rank() == last {
        thread::sleep(DELAY);
    }
    world.barrier().expect("all are here");
}
