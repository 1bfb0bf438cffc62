//! The page of a job of a thousand ranks: its size, and a browser that draws it. `--nocapture`
//! prints how long that takes.

use std::fs;
use std::path::Path;
use std::time::Instant;

use pgas_core::Config;
use pgas_core::backend::loopback;
use pgas_report::analysis::Job;
use pgas_report::read::{self, Trace};
use pgas_report::{align, html, words};

use super::browser::{Browser, Theme};

const N_RANKS: u32 = 1000;

/// The number of ranks that run. The traces of the others are copies of theirs.
const N_RUNNING: u32 = 10;

/// A job in which a thousand ranks have spans, phases, waits and messages: a hundred groups that do
/// the same.
fn job(directory: &Path) -> Job {
    let mut config = Config::default();
    config.trace = Some(directory.display().to_string());
    config.check = Some(false);
    loopback::run_with(N_RUNNING, &config, |world| {
        let mut phase = world.phase("hash map", 7, "insert only");
        for round in 0..3 {
            {
                let _span = world.span("a step");
                world.barrier().unwrap();
            }
            let sum = world.allreduce(1_u32, |a, b| a + b).unwrap();
            assert_eq!(sum, N_RUNNING);
            phase.change(["find only", "insert only"][round % 2]);
        }
    });
    let running = read::read(directory, |_| ()).unwrap();
    let groups = (0..N_RANKS).step_by(N_RUNNING as usize);
    let mut traces: Vec<Trace> = groups
        .flat_map(|first| running.iter().map(move |trace| in_group(trace, first)))
        .collect();
    align::align(&mut traces);
    Job::of(&traces)
}

/// The trace as that of a rank of the group that begins with rank `first`.
fn in_group(trace: &Trace, first: u32) -> Trace {
    let mut trace = trace.clone();
    trace.rank += first;
    trace.n_ranks = N_RANKS;
    for event in &mut trace.events {
        event.rank = event.rank.map(|rank| rank + first);
    }
    trace
}

#[test]
fn the_page_of_a_thousand_ranks_is_of_bounded_size_and_is_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let job = job(directory.path());
    assert_eq!(job.ranks.len(), N_RANKS as usize);
    let page = html::page(&job, &words::hints(&job));
    assert!(page.len() < 2 << 20, "{}", page.len());
    fs::write(directory.path().join("report.html"), page).unwrap();
    let Some(browser) = Browser::find(directory.path()) else {
        return;
    };
    fs::write(directory.path().join("empty.html"), "<!doctype html>").unwrap();
    // Its first start prepares a folder.
    browser.draw("empty.html", Theme::Light);
    let [empty, page] = ["empty.html", "report.html"].map(|name| {
        let began = Instant::now();
        let picture = browser.draw(name, Theme::Light);
        let n_rows = picture.area(Theme::Light.colour("row")).n;
        (n_rows, began.elapsed())
    });
    println!(
        "a page of {N_RANKS} ranks is drawn in {:?}, an empty one in {:?}",
        page.1, empty.1
    );
    assert_eq!(empty.0, 0, "an empty page has no rows of ranks");
    assert!(page.0 > 10_000, "{page:?}");
}
