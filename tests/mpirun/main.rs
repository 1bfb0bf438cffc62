//! The examples under the `mpirun` of the MPI library that they are built with, on one host and on
//! several, as users start them.
//!
//! Needs feature `mpi`: `cargo test --features mpi --test mpirun`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hosts;
mod kills;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pgas_testkit::job::{self, Ended, eventually};
use serde_json::Value;

/// A fixed sequence of this many bases. It is short, because without the direct path every k-mer
/// takes several context switches of ranks that share two processors.
fn sequence(n_bases: usize) -> String {
    let mut state = 1_u32;
    let base = |_| {
        // The generator of Numerical Recipes. Its high bits are good enough for letters.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ['A', 'C', 'G', 'T'][state as usize >> 30]
    };
    (0..n_bases).map(base).collect()
}

/// An example, built with the MPI library of this test.
fn example(name: &str) -> PathBuf {
    const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    pgas_testkit::example(PACKAGE, name, &["mpi", "tokio"])
}

/// The launchers of the two libraries: the one of this program's library, and the other one.
fn launchers() -> [&'static [&'static str]; 2] {
    const OPEN_MPI: &[&str] = &[
        "mpirun.openmpi",
        "--allow-run-as-root",
        "--oversubscribe",
        "-n",
    ];
    const MPICH: &[&str] = &["mpiexec.hydra", "-n"];
    if pgas::mpi::library().unwrap().starts_with("Open MPI") {
        [OPEN_MPI, MPICH]
    } else {
        [MPICH, OPEN_MPI]
    }
}

fn command(launcher: &[&str], n_ranks: u32, program: &Path) -> Command {
    let mut command = Command::new(launcher[0]);
    command
        .args(&launcher[1..])
        .arg(n_ranks.to_string())
        .arg(program);
    for name in ["PGAS_RANKS", "PGAS_BACKEND", "PGAS_DIRECT", "PGAS_SEGMENT"] {
        command.env_remove(name);
    }
    // Open MPI keeps a directory for each user and host, also after jobs were killed.
    command.env("OMPI_MCA_orte_tmpdir_base", std::env::temp_dir());
    command
}

fn mpirun(n_ranks: u32, name: &str) -> Command {
    command(launchers()[0], n_ranks, &example(name))
}

#[track_caller]
fn ends_well(command: Command) -> Ended {
    let ended = job::start(command).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    // A launcher may end a moment before the processes that it started.
    eventually("nothing is left of the job", || {
        let mut states = ended.left.iter().map(|pid| job::state_of(*pid));
        states.all(|state| state.is_none_or(|state| state == 'Z'))
    });
    ended
}

/// A way to run the same program with the same output.
fn settings() -> [&'static [(&'static str, &'static str)]; 3] {
    [
        &[],
        &[("PGAS_DIRECT", "0")],
        &[("PGAS_CHECK", "1"), ("PGAS_PROGRESS", "thread")],
    ]
}

#[test]
fn every_rank_of_hello_says_who_it_is() {
    for n_ranks in [1, 2, 3, 4, 7] {
        for setting in settings() {
            let mut command = mpirun(n_ranks, "hello");
            command.envs(setting.iter().copied());
            let ended = ends_well(command);
            let lines: BTreeSet<&str> = ended.stdout.lines().collect();
            let sum = format!("the ranks add up to {}", n_ranks * (n_ranks - 1) / 2);
            assert!(lines.contains(&*sum), "{setting:?}: {ended:?}");
            for rank in 0..n_ranks {
                let line = format!("rank {rank} of {n_ranks}");
                assert!(lines.contains(&*line), "{setting:?}: {ended:?}");
            }
        }
    }
}

#[test]
fn a_message_travels_around_the_ring() {
    for setting in settings() {
        let mut command = mpirun(3, "ring_put");
        command.envs(setting.iter().copied());
        let ended = ends_well(command);
        for rank in 0..3 {
            let line = format!("rank {rank} has \"greetings from rank {}\"", (rank + 2) % 3);
            assert!(
                ended.stdout.lines().any(|found| found == line),
                "{setting:?}: {ended:?}"
            );
        }
    }
}

#[test]
fn kmers_are_counted_as_by_one_rank() {
    let dir = tempfile::tempdir().unwrap();
    let [reads, alone, together] =
        ["reads.fa", "alone", "together"].map(|name| dir.path().join(name));
    fs::write(&reads, format!(">some\n{}\n", sequence(1000))).unwrap();
    let mut single = Command::new(example("kmer_count"));
    single
        .args(["-k21", "-C", "--dump"])
        .arg(&alone)
        .arg(&reads);
    ends_well(single);
    for n_ranks in [2, 4] {
        for setting in settings() {
            let mut command = mpirun(n_ranks, "kmer_count");
            command.args(["-k21", "-C", "--json", "--dump"]);
            command.arg(&together).arg(&reads);
            command.envs(setting.iter().copied());
            let ended = ends_well(command);
            let report: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(report["ranks"], n_ranks, "{ended:?}");
            let same = fs::read(&alone).unwrap() == fs::read(&together).unwrap();
            assert!(same, "{n_ranks} ranks, {setting:?}: another dump");
        }
    }
}

#[test]
fn the_keys_of_all_ranks_are_sorted() {
    for n_ranks in [2, 3] {
        for setting in settings() {
            let mut command = mpirun(n_ranks, "isx");
            command.args(["--keys-per-rank", "2000", "--json"]);
            command.envs(setting.iter().copied());
            let ended = ends_well(command);
            let report: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(report["ranks"], n_ranks, "{ended:?}");
            assert_eq!(report["verified"], true, "{ended:?}");
        }
    }
}

/// Examples that check their own results, and arguments that make them short.
#[rustfmt::skip]
const KERNELS: &[(&str, &[&str])] = &[
    ("histogram", &["--table", "50", "--accesses", "300", "--styles", "direct,messages,aggregated"]),
    ("index_gather", &["--table", "50", "--accesses", "300", "--styles", "direct,messages,aggregated"]),
    ("dht_rpc", &["--sizes", "8,4096", "--keys", "10"]),
    ("extend_add", &["--side", "6", "--rounds", "1"]),
    ("tokio_rpcs", &["--calls", "20", "--idle", "0"]),
];

#[test]
fn kernels_and_remote_calls_find_their_results_right() {
    for (i, (name, args)) in KERNELS.iter().enumerate() {
        for (j, setting) in settings().into_iter().take(2).enumerate() {
            let n_ranks = if (i + j) % 2 == 0 { 2 } else { 3 };
            let mut command = mpirun(n_ranks, name);
            command.args(*args).arg("--json");
            command.envs(setting.iter().copied());
            let ended = ends_well(command);
            let report: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(report["ranks"], n_ranks, "{name}, {setting:?}: {ended:?}");
            // Each part of the example says so, if it has parts.
            assert!(ended.stdout.contains("\"verified\":true"), "{ended:?}");
            assert!(!ended.stdout.contains("\"verified\":false"), "{ended:?}");
        }
    }
}

#[test]
fn reads_become_the_same_contigs_as_on_one_rank() {
    let dir = tempfile::tempdir().unwrap();
    let [reads, alone, together] =
        ["reads.fa", "alone", "together"].map(|name| dir.path().join(name));
    let genome = sequence(400);
    let starts = (0..=genome.len() - 80).step_by(20);
    let records = starts.map(|start| format!(">{start}\n{}\n", &genome[start..start + 80]));
    fs::write(&reads, records.collect::<String>()).unwrap();
    let assemble = |mut command: Command, out: &Path| {
        command.arg(&reads).arg("--out").arg(out);
        command.args(["-k", "21", "--min-depth", "1", "--json"]);
        let report: Value = serde_json::from_str(&ends_well(command).stdout).unwrap();
        (report["ranks"].clone(), fs::read(out).unwrap())
    };
    let (_, expected) = assemble(Command::new(example("contig_gen")), &alone);
    assert!(expected.len() > genome.len(), "{expected:?}");
    for (n_ranks, setting) in [2, 3, 2].into_iter().zip(settings()) {
        let mut command = mpirun(n_ranks, "contig_gen");
        command.envs(setting.iter().copied());
        let (n_seen, contigs) = assemble(command, &together);
        assert_eq!(n_seen, n_ranks);
        assert!(contigs == expected, "{n_ranks} ranks, {setting:?}");
    }
}

#[test]
fn kmers_that_are_filtered_or_aggregated_are_counted_as_by_one_rank() {
    let dir = tempfile::tempdir().unwrap();
    let [reads, alone, together] =
        ["reads.fa", "alone", "together"].map(|name| dir.path().join(name));
    // Most k-mers occur twice, so that the filter lets them pass.
    let bases = sequence(300);
    fs::write(&reads, format!(">one\n{bases}\n>two\n{}\n", &bases[..250])).unwrap();
    for way in ["--aggregate", "--bloom"] {
        let count = |mut command: Command, dump: &Path| {
            command.args([way, "-k21", "-C", "--json", "--dump"]);
            command.arg(dump).arg(&reads);
            ends_well(command);
            let text = fs::read_to_string(dump).unwrap();
            // Some k-mers that occur once pass the filter; which ones depends on the filter's size.
            let lines = text.lines().map(str::to_owned);
            lines.filter(|line| !line.ends_with(" 1")).collect()
        };
        let expected: Vec<String> = count(Command::new(example("kmer_count")), &alone);
        assert!(!expected.is_empty(), "{way}");
        for (n_ranks, setting) in [2, 3].into_iter().zip(settings()) {
            let mut command = mpirun(n_ranks, "kmer_count");
            command.envs(setting.iter().copied());
            let counts = count(command, &together);
            assert_eq!(counts, expected, "{way}, {n_ranks} ranks, {setting:?}");
        }
    }
}

#[test]
fn started_alone_it_is_one_rank_and_starts_others_itself() {
    let alone = ends_well(Command::new(example("hello")));
    assert_eq!(alone.stdout, "rank 0 of 1\nthe ranks add up to 0\n");
    let mut command = Command::new(example("hello"));
    command.env("PGAS_RANKS", "3");
    let three = ends_well(command);
    assert!(
        three.stdout.contains("the ranks add up to 3\n"),
        "{three:?}"
    );
}

#[test]
fn the_user_may_choose_shared_memory_under_mpirun() {
    let mut command = mpirun(3, "hello");
    command.env("PGAS_BACKEND", "smp");
    let ended = ends_well(command);
    assert!(
        ended.stdout.contains("the ranks add up to 3\n"),
        "{ended:?}"
    );
}

#[test]
fn the_other_librarys_launcher_is_told_apart_in_one_line() {
    let library = pgas::mpi::library().unwrap();
    let ended = job::start(command(launchers()[1], 2, &example("hello"))).end();
    assert_ne!(ended.code(), 0, "{ended:?}");
    let told = ended.stderr.lines().chain(ended.stdout.lines());
    let told: Vec<&str> = told
        .filter(|line| line.contains("this program was built with"))
        .collect();
    assert!(!told.is_empty(), "{ended:?}");
    for line in told {
        assert!(line.contains(&library), "{line}");
    }
}
