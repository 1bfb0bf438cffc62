//! The examples over libfabric have the same results as over shared memory.
//!
//! Needs feature `ofi`: `cargo test --features ofi --test ofi`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use pgas_testkit::job::{self, Ended};
use serde_json::Value;

fn example(name: &str) -> PathBuf {
    const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    pgas_testkit::example(PACKAGE, name, &["ofi", "tokio"])
}

/// Ranks over TCP or, with the direct path, over shared memory.
fn ranks(n_ranks: u32, name: &str, direct: &str) -> Command {
    let mut command = Command::new(example(name));
    command
        .env("PGAS_RANKS", n_ranks.to_string())
        .env("PGAS_BACKEND", "ofi")
        .env("PGAS_OFI_PROVIDER", "tcp;ofi_rxm")
        .env("PGAS_DIRECT", direct);
    command
}

#[track_caller]
fn ends_well(command: Command) -> Ended {
    let ended = job::start(command).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
    ended
}

#[test]
fn kmers_are_counted_as_by_one_rank() {
    let dir = tempfile::tempdir().unwrap();
    let [reads, alone, together] =
        ["reads.fa", "alone", "together"].map(|name| dir.path().join(name));
    let bases: String = (0_usize..1000)
        .map(|i| ['A', 'C', 'G', 'T'][i * i / 7 % 4])
        .collect();
    fs::write(&reads, format!(">some\n{bases}\n")).unwrap();
    let mut single = Command::new(example("kmer_count"));
    single.args(["-k21", "-C", "--dump"]);
    single.arg(&alone).arg(&reads);
    ends_well(single);
    for (n_ranks, direct) in [(3, "0"), (2, "1")] {
        let mut command = ranks(n_ranks, "kmer_count", direct);
        command.args(["-k21", "-C", "--json", "--dump"]);
        command.arg(&together).arg(&reads);
        let ended = ends_well(command);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(report["ranks"], n_ranks, "{ended:?}");
        let same = fs::read(&alone).unwrap() == fs::read(&together).unwrap();
        assert!(same, "{n_ranks} ranks, PGAS_DIRECT={direct}: another dump");
    }
}

/// Examples that check their own results, and arguments that make them short.
#[rustfmt::skip]
const KERNELS: &[(&str, &[&str])] = &[
    ("isx", &["--keys-per-rank", "2000"]),
    ("histogram", &["--table", "50", "--accesses", "300", "--styles", "direct,messages,aggregated"]),
    ("dht_rpc", &["--sizes", "8,4096", "--keys", "10"]),
    ("extend_add", &["--side", "6", "--rounds", "1"]),
    ("tokio_rpcs", &["--calls", "20", "--idle", "0"]),
];

#[test]
fn kernels_and_remote_calls_find_their_results_right() {
    for (i, (name, args)) in KERNELS.iter().enumerate() {
        let n_ranks = if i % 2 == 0 { 2 } else { 3 };
        let mut command = ranks(n_ranks, name, "0");
        command.args(*args).arg("--json");
        let ended = ends_well(command);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(report["ranks"], n_ranks, "{name}: {ended:?}");
        // Each part of the example says so, if it has parts.
        assert!(ended.stdout.contains("\"verified\":true"), "{ended:?}");
        assert!(!ended.stdout.contains("\"verified\":false"), "{ended:?}");
    }
}
