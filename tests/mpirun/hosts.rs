//! The examples on hosts that share no memory, over a good link and over a bad one. Their output is
//! that of one host.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::time::Duration;

use pgas_test_hosts::{Conditions, Ended, Hosts, Launcher, Link, Mapping, are_wanted};
use serde_json::Value;
use tempfile::TempDir;

use crate::{ends_well, example, sequence};

/// The time limit of a job: far more than any needs, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(200);

/// 2 ms of delay, 1 ms of jitter, and a loss of one frame in a hundred.
const BAD: Link = Link::Bad(Conditions {
    delay: Duration::from_millis(2),
    jitter: Duration::from_millis(1),
    loss_percent: 1.0,
    seed: 20,
});

/// The number of hosts, the ranks on each host, the ranks that share a host, and the link between
/// hosts.
type Shape = (u32, u32, Mapping, Link);

const PAIRS: Shape = (2, 2, Mapping::Slot, Link::Clean);
const DEALT_OUT: Shape = (2, 2, Mapping::Node, Link::Clean);
const TWO: Shape = (2, 1, Mapping::Slot, Link::Clean);
const THREE: Shape = (3, 1, Mapping::Slot, Link::Clean);
const FAR_PAIR: Shape = (2, 1, Mapping::Slot, BAD);
const THREE_FAR: Shape = (3, 1, Mapping::Slot, BAD);

/// Runs an example on hosts. It must succeed and leave nothing behind. Returns its output and the
/// number of ranks.
#[track_caller]
fn run(name: &str, args: &[&OsStr], shape: Shape) -> (Ended, u32) {
    let (n_hosts, per_host, mapping, link) = shape;
    let launcher = if pgas::mpi::library().unwrap().starts_with("Open MPI") {
        Launcher::OpenMpi
    } else {
        Launcher::Mpich
    };
    let hosts = Hosts::new(n_hosts, link).unwrap_or_else(|error| panic!("{error}"));
    let mpirun = hosts.mpirun(launcher).per_host(per_host).mapping(mapping);
    let mut command = mpirun.command(example(name));
    command.args(args);
    let ended = hosts.run(command, LIMIT);
    assert!(
        ended.in_time && ended.status.success(),
        "{shape:?}: {ended:#?}"
    );
    let left = hosts.left_after(LIMIT);
    assert!(left.is_empty(), "{left:?} is left of {shape:?}: {ended:#?}");
    (ended, mpirun.n_ranks())
}

fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ranks_of_all_hosts_add_up() {
    for shape in if are_wanted() {
        &[DEALT_OUT, THREE_FAR][..]
    } else {
        &[]
    } {
        let (ended, n_ranks) = run("hello", &[], *shape);
        let ranks = (0..n_ranks).map(|rank| format!("rank {rank} of {n_ranks}"));
        let mut expected: Vec<String> = ranks.collect();
        let sum: u32 = (0..n_ranks).sum();
        expected.push(format!("the ranks add up to {sum}"));
        expected.sort_unstable();
        assert_eq!(sorted_lines(&ended.stdout), expected, "{ended:#?}");
    }
}

#[test]
fn a_message_travels_from_host_to_host() {
    for shape in if are_wanted() {
        &[PAIRS, THREE_FAR][..]
    } else {
        &[]
    } {
        let (ended, n_ranks) = run("ring_put", &[], *shape);
        let message = |rank: u32| {
            let left = (rank + n_ranks - 1) % n_ranks;
            format!("rank {rank} has \"greetings from rank {left}\"")
        };
        let expected: Vec<String> = (0..n_ranks).map(message).collect();
        assert_eq!(sorted_lines(&ended.stdout), expected, "{ended:#?}");
    }
}

#[test]
fn keys_are_sorted_across_hosts() {
    let args = ["--keys-per-rank", "2000", "--json"].map(OsStr::new);
    for shape in if are_wanted() {
        &[DEALT_OUT, FAR_PAIR][..]
    } else {
        &[]
    } {
        let (ended, n_ranks) = run("isx", &args, *shape);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(report["ranks"], n_ranks, "{ended:#?}");
        assert_eq!(report["verified"], true, "{ended:#?}");
    }
}

#[test]
fn kmers_are_counted_across_hosts_as_by_one_rank() {
    // Not in /tmp: every host has its own.
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [reads, alone, together] =
        ["reads.fa", "alone", "together"].map(|name| folder.path().join(name));
    for (shape, n_bases) in if are_wanted() {
        &[(THREE, 20_000), (PAIRS, 2000), (FAR_PAIR, 1000)][..]
    } else {
        &[]
    } {
        fs::write(&reads, format!(">some\n{}\n", sequence(*n_bases))).unwrap();
        let args = |dump| {
            ["-k21", "-C", "--json", "--dump"]
                .map(OsStr::new)
                .into_iter()
                .chain([dump, reads.as_os_str()])
        };
        let mut single = Command::new(example("kmer_count"));
        single.args(args(alone.as_os_str()));
        ends_well(single);
        let args: Vec<&OsStr> = args(together.as_os_str()).collect();
        let (ended, _) = run("kmer_count", &args, *shape);
        let same = fs::read(&alone).unwrap() == fs::read(&together).unwrap();
        assert!(same, "another dump: {ended:#?}");
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(report["way"], "aggregated", "{ended:#?}");
        fs::remove_file(&together).unwrap();
    }
}

#[test]
fn kernels_travel_together_between_hosts_and_find_their_results_right() {
    let args = ["--table", "50", "--accesses", "3000", "--json"].map(OsStr::new);
    for (name, shape) in if are_wanted() {
        &[("histogram", TWO), ("index_gather", DEALT_OUT)][..]
    } else {
        &[]
    } {
        let (ended, n_ranks) = run(name, &args, *shape);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(report["ranks"], n_ranks, "{ended:#?}");
        assert_eq!(report["verified"], true, "{ended:#?}");
        let styles = report["styles"].as_array().unwrap();
        let names: Vec<_> = styles.iter().map(|row| row["style"].as_str()).collect();
        assert_eq!(names, [Some("aggregated")], "{ended:#?}");
    }
}

#[test]
fn reads_become_the_same_contigs_across_hosts_as_on_one_rank() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [reads, alone, together] =
        ["reads.fa", "alone", "together"].map(|name| folder.path().join(name));
    // Between two different parts there is one that occurs twice: its ends are ambiguous.
    let bases = sequence(700);
    let text = [&bases[..400], &bases[100..200], &bases[400..]].concat();
    fs::write(&reads, format!(">some\n{text}\n")).unwrap();
    let args = |out| {
        let options = ["-k21", "--json", "--out"].map(OsStr::new);
        options.into_iter().chain([out, reads.as_os_str()])
    };
    let contigs = |path| -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        let records = text.split('>').skip(1);
        let bases = |record: &str| record.split_once('\n').unwrap().1.to_owned();
        let mut contigs: Vec<_> = records.map(bases).collect();
        contigs.sort_unstable();
        contigs
    };
    if are_wanted() {
        let mut single = Command::new(example("contig_gen"));
        single.args(args(alone.as_os_str()));
        ends_well(single);
        let args: Vec<&OsStr> = args(together.as_os_str()).collect();
        let (ended, _) = run("contig_gen", &args, TWO);
        let expected = contigs(&alone);
        assert!(expected.len() > 2, "{expected:?}");
        assert_eq!(contigs(&together), expected, "{ended:#?}");
    }
}
