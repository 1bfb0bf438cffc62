//! Bad input is reported in one line, whichever rank finds it, and leaves nothing behind.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::run::{Ended, end, kmer_count, names, start, stdout};
use crate::program::{ECOLI, LAMBDA};

/// Runs three ranks with a dump and a spectrum to be written, and asserts that one line is all that
/// is printed, and that the existing dump file is unchanged.
fn complaint(code: i32, prepare: impl FnOnce(&Path, &mut Command)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    let [dump, histo] = ["dump", "histo"].map(|name| out.join(name));
    fs::write(&dump, "old").unwrap();
    let mut command = kmer_count(["--ranks", "3"]);
    command.arg("--dump").arg(&dump).arg("--histo").arg(&histo);
    prepare(dir.path(), &mut command);
    let ended = end(command);
    assert_eq!((ended.code, &*ended.stdout), (Some(code), ""), "{ended:?}");
    assert_eq!(names(&out), ["dump"], "{ended:?}");
    assert_eq!(fs::read(&dump).unwrap(), b"old", "{ended:?}");
    let line = ended.stderr.strip_suffix('\n').unwrap();
    assert!(!line.contains('\n'), "{ended:?}");
    let line = line.strip_prefix("kmer_count: ").unwrap();
    line.replace(&*dir.path().join("").to_string_lossy(), "")
}

/// The error for a file with these bytes, beside a good file.
fn complaint_about(name: &str, bytes: &[u8]) -> String {
    complaint(1, |dir, command| {
        let file = dir.join(name);
        fs::write(&file, bytes).unwrap();
        command.arg(LAMBDA).arg(file);
    })
}

#[test]
fn the_genome_that_comes_with_the_project_is_not_written_over() {
    let genome = fs::read(ECOLI).unwrap();
    let ended = end(kmer_count(["--ranks", "2", "--dump", ECOLI]));
    if fs::read(ECOLI).unwrap() != genome {
        fs::write(ECOLI, &genome).unwrap();
        panic!("it was written over: {ended:?}");
    }
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains("ecoli_536_NC_008253.fna.gz"),
        "{ended:?}"
    );
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = complaint(1, |dir, command| {
        command.arg(LAMBDA).arg(dir.join("missing.fq"));
    });
    assert_eq!(
        missing,
        "missing.fq: No such file or directory (os error 2)"
    );
    let directory = complaint(1, |dir, command| {
        command.arg(dir.join("out"));
    });
    assert_eq!(
        directory,
        "out: not a regular file, so ranks cannot share it by bytes"
    );
    assert_eq!(
        complaint_about("empty.fa", b""),
        "empty.fa: the file is empty"
    );
    assert_eq!(
        complaint_about("notes.txt", b"hello"),
        "notes.txt: neither FASTA nor FASTQ: it begins with 'h', not with '>' or '@'"
    );
}

#[test]
fn damage_is_named_with_its_file_and_line_on_whichever_rank_it_is() {
    let whole = fs::read(LAMBDA).unwrap();
    assert_eq!(
        complaint_about("cut.fa.gz", &whole[..whole.len() - 9]),
        "cut.fa.gz: the gzip data is cut short"
    );
    let record = "@good\nACGTACGTACGTACGTACGTACGTACGT\n+\nIIIIIIIIIIIIIIIIIIIIIIIIIIII\n";
    let cut = record.repeat(3000) + "@last\nACGTACGT\n+\nIII";
    assert_eq!(
        complaint_about("cut.fq", cut.as_bytes()),
        "cut.fq, line 12004: the file ends in the middle of record 'last'"
    );
    // A bad record at the beginning, in the middle and at the end: a different rank reads it each
    // time.
    for n_before in [0, 1500, 2999] {
        let bad = "@bad\nACGT\n+\nII\n";
        let text = record.repeat(n_before) + bad + &record.repeat(3000 - n_before);
        let line = 4 * n_before + 4;
        let expected = format!("bad.fq, line {line}: 2 quality values for 4 bases (record 'bad')");
        assert_eq!(complaint_about("bad.fq", text.as_bytes()), expected);
    }
}

#[test]
fn options_that_mean_nothing_are_named_with_their_value() {
    for (args, expected) in [
        (
            &["-k", "0"][..],
            "invalid value '0' for '-k <K>': k must be 1 to 32, not 0 (try --help)",
        ),
        (
            &["-k", "99"],
            "invalid value '99' for '-k <K>': k must be 1 to 32, not 99 (try --help)",
        ),
        (
            &["-k", "x"],
            "invalid value 'x' for '-k <K>': a number is needed (try --help)",
        ),
        (
            &["--ranks", "0"],
            "the argument '--ranks <N>' cannot be used multiple times (try --help)",
        ),
        (
            &["--slots", "0"],
            "invalid value '0' for '--slots <N>': number would be zero for non-zero type (try --help)",
        ),
        (
            &["--what"],
            "unexpected argument '--what' found (try --help)",
        ),
    ] {
        let line = complaint(2, |_, command| {
            command.args(args);
        });
        assert_eq!(line, expected);
    }
}

#[test]
fn a_table_that_is_too_small_is_named() {
    for slots in ["1", "100", "48000"] {
        let line = complaint(1, |_, command| {
            command.args(["--slots", slots, LAMBDA]);
        });
        let expected = "the table is too small: the input has more distinct k-mers";
        assert_eq!(line, format!("--slots {slots}: {expected}"));
    }
    // Here the estimate finds it before anything is counted.
    let line = complaint(1, |_, command| {
        command.args(["--slots", "4000000", ECOLI]);
    });
    assert!(
        line.starts_with("--slots 4000000: the table is too small"),
        "{line}"
    );
}

#[test]
fn a_segment_that_is_too_small_is_named_with_its_setting() {
    for (segment, expected) in [
        ("1K", "PGAS_SEGMENT=1024: "),
        ("256K", "rank 0: the symmetric heap "),
    ] {
        let line = complaint(1, |_, command| {
            command.arg(LAMBDA).env("PGAS_SEGMENT", segment);
        });
        assert!(
            line.starts_with(expected) && line.contains("PGAS_SEGMENT"),
            "{line}"
        );
    }
}

#[test]
fn places_that_cannot_be_written_to_are_named_before_anything_is_read() {
    for (option, place, expected) in [
        (
            "--dump",
            "missing/dump",
            "missing/dump: No such file or directory (os error 2)",
        ),
        (
            "--histo",
            "missing/histo",
            "missing/histo: No such file or directory (os error 2)",
        ),
        (
            "--dump",
            "out",
            "out: not a regular file, so ranks cannot share it by bytes",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        let mut command = kmer_count(["--ranks", "3", "no such input", option]);
        command.arg(dir.path().join(place));
        let ended = end(command);
        let prefix = dir.path().join("");
        let expected = format!("kmer_count: {}{expected}\n", prefix.display());
        assert_eq!((ended.code, ended.stderr), (Some(1), expected));
        assert_eq!(names(dir.path()), ["out"]);
    }
    let same = complaint(2, |_, command| {
        command.args(["--dump", "x"]);
    });
    assert!(
        same.contains("'--dump <FILE>' cannot be used multiple times"),
        "{same}"
    );
}

#[test]
fn a_launcher_and_an_option_that_disagree_are_named() {
    let expected = "kmer_count: --ranks 3: a launcher has started this job with 2\n";
    // Rank 1 is alone here: rank 0 has not told it.
    for rank in ["0", "1"] {
        let mut command = kmer_count(["--ranks", "3"]);
        command
            .env("OMPI_COMM_WORLD_RANK", rank)
            .env("OMPI_COMM_WORLD_SIZE", "2")
            .env("PMIX_NAMESPACE", "test");
        let ended = end(command);
        assert_eq!(
            (ended.code, &*ended.stderr),
            (Some(1), expected),
            "{ended:?}"
        );
    }
}

#[test]
fn a_launcher_that_started_one_process_leaves_the_ranks_to_the_option() {
    for n_ranks in ["1", "3"] {
        let mut command = kmer_count(["--json", "--ranks", n_ranks, LAMBDA]);
        command
            .env("SLURM_JOB_ID", std::process::id().to_string())
            .env("SLURM_STEP_ID", "0")
            .env("SLURM_STEP_NUM_TASKS", "1")
            .env("SLURM_PROCID", "0");
        let report = stdout(command);
        assert!(
            report.contains(&format!("\"ranks\":{n_ranks},")),
            "{report}"
        );
    }
}

#[test]
fn a_launcher_that_does_not_tell_of_how_many_ranks_is_not_contradicted() {
    let mut command = kmer_count(["--ranks", "3"]);
    command.env("PMIX_RANK", "0").env("PMIX_NAMESPACE", "test");
    let ended = end(command);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("PMIX_RANK is set"), "{ended:?}");
}

#[test]
fn a_rank_that_cannot_join_says_why_whichever_it_is() {
    let mut command = kmer_count([LAMBDA]);
    // As in a program that rank 1 of a job has started.
    command
        .env("PGAS_RANK", "1")
        .env("PGAS_RANKS", "2")
        .env("PGAS_JOB_FD", "1000");
    let ended = end(command);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("PGAS_JOB_FD=1000: "), "{ended:?}");
}

fn wait_for<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < patience, "nothing happens");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_killed_rank_ends_the_job_without_a_dump() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = kmer_count(["--ranks", "3", ECOLI, "--dump"]);
    command.arg(dir.path().join("dump"));
    let running = start(command);
    // The draft exists when the ranks run, long before they have counted.
    let ranks = wait_for(|| {
        let pid = running.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let ranks = children.split_whitespace().map(|pid| pid.parse().unwrap());
        let ranks: Vec<i32> = ranks.collect();
        (ranks.len() == 3 && !names(dir.path()).is_empty()).then_some(ranks)
    });
    kill_process(Pid::from_raw(ranks[1]).unwrap(), Signal::KILL).unwrap();
    let killed = Instant::now();
    let ended = running.end();
    assert!(killed.elapsed() < Duration::from_secs(2), "{ended:?}");
    assert_eq!(ended.code, Some(128 + 9), "{ended:?}");
    assert!(ended.stderr.contains("pgas: rank 1 (pid "), "{ended:?}");
    assert!(
        ended.stderr.contains("was killed by signal 9 (SIGKILL)"),
        "{ended:?}"
    );
    assert_eq!(ended.stdout, "");
    let left = names(dir.path());
    assert!(
        left.iter().all(|name| name.ends_with(".partial")),
        "{left:?}"
    );
}

/// Starts two ranks that dump a genome, and sends `signal` to the process that has started them when
/// there is a draft.
fn signalled(signal: Signal, mut command: Command, dir: &Path) -> Ended {
    command.arg("--dump").arg(dir.join("dump"));
    let running = start(command);
    wait_for(|| (!names(dir).is_empty()).then_some(()));
    let pid = i32::try_from(running.pid()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    running.end()
}

#[test]
fn a_job_that_is_asked_to_end_leaves_no_draft() {
    let dir = tempfile::tempdir().unwrap();
    let command = kmer_count(["--ranks", "2", ECOLI]);
    let ended = signalled(Signal::TERM, command, dir.path());
    assert_eq!(ended.code, Some(128 + 15), "{ended:?}");
    assert_eq!(names(dir.path()), [""; 0], "{ended:?}");
}

#[test]
fn a_signal_that_is_ignored_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let counter = kmer_count(["--ranks", "2", ECOLI]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
    command.arg(counter.get_program()).args(counter.get_args());
    let ended = signalled(Signal::HUP, command, dir.path());
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    assert_eq!(names(dir.path()), ["dump"]);
}
