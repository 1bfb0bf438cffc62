//! The page of a job of a thousand ranks, and the time in which a browser shows it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pgas_core::Config;
use pgas_core::backend::loopback;
use pgas_report::analysis::Job;
use pgas_report::{align, html, read};

const N_RANKS: u32 = 1000;
/// What a browser may take to draw the page.
const LIMIT: Duration = Duration::from_secs(2);
/// Attempts: other tests use the same processors.
const ATTEMPTS: usize = 3;

/// A job in which a thousand ranks have spans, phases, waits and messages.
fn job(directory: &Path) -> Job {
    let mut config = Config::default();
    config.trace = Some(directory.display().to_string());
    config.check = Some(false);
    loopback::run_with(N_RANKS, &config, |world| {
        let mut phase = world.phase("hash map", 7, "insert only");
        for round in 0..3 {
            {
                let _span = world.span("a step");
                world.barrier().unwrap();
            }
            let sum = world.allreduce(1_u32, |a, b| a + b).unwrap();
            assert_eq!(sum, N_RANKS);
            phase.change(["find only", "insert only"][round % 2]);
        }
    });
    let mut traces = read::read(directory).unwrap();
    align::align(&mut traces);
    Job::of(&traces)
}

/// The time in which a browser draws the page `name` of `directory` as a picture.
fn drawn_after(browser: &str, directory: &Path, name: &str) -> Duration {
    let picture = directory.join("picture.png");
    let began = Instant::now();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1300,2000",
        ])
        .arg(format!(
            "--user-data-dir={}",
            directory.join("browser").display()
        ))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(directory.join(name))
        .output()
        .unwrap();
    let took = began.elapsed();
    assert!(fs::remove_file(picture).is_ok(), "{output:?}");
    took
}

#[test]
fn the_page_of_a_thousand_ranks_is_of_bounded_size_and_opens_in_two_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let job = job(directory.path());
    assert_eq!(job.ranks.len(), N_RANKS as usize);
    let page = html::page(&job);
    assert!(page.len() < 2 << 20, "{}", page.len());
    fs::write(directory.path().join("report.html"), page).unwrap();
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let is_there = |browser: &&str| Command::new(browser).arg("--version").output().is_ok();
    // `cargo xtask setup` installs one.
    let Some(browser) = browsers.into_iter().find(is_there) else {
        return;
    };
    fs::write(directory.path().join("empty.html"), "<!doctype html>").unwrap();
    let least = |name| {
        let attempt = |_| drawn_after(browser, directory.path(), name);
        (0..ATTEMPTS).map(attempt).min().unwrap()
    };
    // Its first start prepares a folder.
    drawn_after(browser, directory.path(), "empty.html");
    let [page, empty] = ["report.html", "empty.html"].map(least);
    let took = page.saturating_sub(empty);
    assert!(took < LIMIT, "{took:?}: {page:?} instead of {empty:?}");
    println!("a page of {N_RANKS} ranks is drawn in {took:?}");
}
