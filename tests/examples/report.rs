//! What `pgas-report` says of the examples.

use std::path::Path;
use std::process::Command;

use pgas_report::analysis::Job;
use pgas_report::{align, html, read};
use pgas_testkit::job;

use crate::program::{LAMBDA, program};

/// Runs the example `name`, and reads its traces.
fn traced(name: &str, arguments: &[&str]) -> Job {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(program(name));
    command.args(arguments).args(["--ranks", "3"]);
    command.env("PGAS_TRACE", directory.path());
    let ended = job::start(command).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    read_job(directory.path())
}

fn read_job(directory: &Path) -> Job {
    let mut traces = read::read(directory, |_| ()).unwrap();
    align::align(&mut traces);
    Job::of(&traces)
}

/// The lines that wait are the example's, not the library's. The first one, but for where it joins
/// the job, which takes long where processes start slowly, is of `file`, and in the page.
#[track_caller]
fn names_lines_of(job: &Job, file: &str) {
    let lines = job.lines.iter().map(|line| {
        let (_, at) = read::what_and_where(&line.name);
        assert!(at.contains("examples/"), "{}", line.name);
        at
    });
    let lines: Vec<&str> = lines.collect();
    let longest = lines.iter().find(|at| !at.contains("arguments.rs"));
    let longest = longest.unwrap_or_else(|| panic!("{lines:?}"));
    assert!(longest.contains(file), "{lines:?}");
    let page = html::page(job, &[]).replace("<wbr>", ""); // where lines may break
    assert!(page.contains(longest), "{longest}");
}

#[test]
fn the_report_names_the_lines_of_isx_that_wait() {
    let job = traced("isx", &["--keys-per-rank", "50000"]);
    names_lines_of(&job, "isx.rs:");
}

#[test]
fn the_report_names_the_lines_of_kmer_count_that_wait() {
    let job = traced("kmer_count", &["-k21", "-C", LAMBDA]);
    names_lines_of(&job, "kmer_count/");
    assert!(!job.objects.is_empty(), "phases of its table");
}
