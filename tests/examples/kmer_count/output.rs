//! The printed and written output.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::oracle;
use super::run::{kmer_count, names, stdout};
use crate::program::LAMBDA;

/// Two reads that are the reverse complement of each other, and one of a single letter.
const READS: &str = ">a\nGATTACA\n>b\nTGTAATC\n>c\nAAAAAAAAAA\n";

fn sequences() -> Vec<String> {
    ["GATTACA", "TGTAATC", "AAAAAAAAAA"]
        .map(str::to_owned)
        .to_vec()
}

fn json(text: &str) -> Value {
    assert_eq!(text.matches('\n').count(), 1, "one line: {text}");
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_json_line_has_every_figure() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("reads.fa");
    fs::write(&file, READS).unwrap();
    for ranks in ["1", "3"] {
        let mut command = kmer_count(["-k4", "-C", "--min-count", "2", "--json", "--ranks", ranks]);
        command.arg(&file).arg(LAMBDA);
        let report = json(&stdout(command));
        let mut sequences = sequences();
        let genome = pgas_genomics::simulate::Genome::read_fasta(Path::new(LAMBDA)).unwrap();
        let mut text = Vec::new();
        genome.write_fasta(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        sequences.push(text.lines().skip(1).collect());
        let counts: BTreeMap<_, u64> = oracle::counts(&sequences, 4, true);
        for (key, expected) in [
            ("ranks", ranks.parse().unwrap()),
            ("k", 4),
            ("files", 2),
            ("reads", 4),
            ("bases", 24 + 48_502),
            ("kmers_total", counts.values().sum()),
            ("kmers_distinct", counts.len() as u64),
            ("min_count", 2),
            (
                "kmers_kept",
                counts.values().filter(|count| **count >= 2).count() as u64,
            ),
        ] {
            assert_eq!(report[key], expected, "{key} of {report}");
        }
        assert_eq!(report["canonical"], true);
        let table_slots = report["table_slots"].as_u64().unwrap();
        assert!(table_slots > counts.len() as u64, "{report}");
        let seconds = ["read", "estimate", "count", "output"].map(|stage| {
            let seconds = report["seconds"][stage].as_f64().unwrap();
            assert!(seconds >= 0.0, "{report}");
            seconds
        });
        let total = report["seconds"]["total"].as_f64().unwrap();
        assert!(seconds.iter().sum::<f64>() <= total * 1.001, "{report}");
        assert!(report["kmers_per_second"].as_f64().unwrap() > 0.0);
        let [max, sum] = ["peak_rss_max", "peak_rss_sum"].map(|key| report[key].as_u64().unwrap());
        assert!(max > 1 << 20 && sum >= max, "{report}");
    }
}

#[test]
fn without_arguments_the_bundled_genome_is_charted() {
    let text = stdout(kmer_count::<&str>([]));
    assert!(
        text.starts_with("1 sequence in 1 file, 4938920 bases\n"),
        "{text}"
    );
    assert!(
        text.contains("4938900 21-mers, 4863207 distinct\n"),
        "{text}"
    );
    assert!(text.contains("\n1 rank, "), "{text}");
    assert!(text.contains('█') && text.lines().count() < 24, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() < 100),
        "{text}"
    );
}

#[test]
fn the_number_of_ranks_comes_from_the_environment_too() {
    let mut command = kmer_count(["--json", LAMBDA]);
    command.env("PGAS_RANKS", "4");
    assert_eq!(json(&stdout(command))["ranks"], 4);
    let mut command = kmer_count(["--json", "--ranks", "1", LAMBDA]);
    command.env("PGAS_RANKS", "4");
    assert_eq!(json(&stdout(command))["ranks"], 1);
}

#[test]
fn the_dump_leaves_out_what_is_rare_and_replaces_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let [file, dump] = ["reads.fa", "dump"].map(|name| dir.path().join(name));
    fs::write(&file, READS).unwrap();
    fs::write(
        &dump,
        "an old dump that is longer than the new one will be\n".repeat(9),
    )
    .unwrap();
    let mut command = kmer_count(["-k4", "-C", "--min-count", "2", "--ranks", "3"]);
    command.arg(&file).arg("--dump").arg(&dump);
    let text = stdout(command);
    assert_eq!(
        fs::read_to_string(&dump).unwrap(),
        "AAAA 7\nAATC 2\nATTA 2\nGTAA 2\nTACA 2\n"
    );
    assert!(text.contains("5 of them occur 2 times or more\n"), "{text}");
    assert_eq!(names(dir.path()), ["dump", "reads.fa"]);
}

#[test]
fn input_without_a_kmer_gives_empty_files() {
    let dir = tempfile::tempdir().unwrap();
    let [file, dump, histo] = ["reads.fa", "dump", "histo"].map(|name| dir.path().join(name));
    fs::write(&file, READS).unwrap();
    let mut command = kmer_count(["-k32", "--ranks", "3", "--json"]);
    command
        .arg(&file)
        .arg("--dump")
        .arg(&dump)
        .arg("--histo")
        .arg(&histo);
    let report = json(&stdout(command));
    assert_eq!(
        (&report["kmers_total"], &report["kmers_distinct"]),
        (&0.into(), &0.into())
    );
    assert_eq!(fs::read(&dump).unwrap(), b"");
    assert_eq!(fs::read(&histo).unwrap(), b"");
    let mut command = kmer_count(["-k32"]);
    command.arg(&file);
    let text = stdout(command);
    assert!(text.contains("\n0 32-mers, 0 distinct\n"), "{text}");
}

#[test]
fn the_table_may_be_exactly_as_large_as_needed() {
    let dir = tempfile::tempdir().unwrap();
    let [file, dump] = ["reads.fa", "dump"].map(|name| dir.path().join(name));
    fs::write(&file, READS).unwrap();
    let counts = oracle::counts(&sequences(), 4, false);
    let slots = counts.len().to_string();
    let mut command = kmer_count(["-k4", "--slots", &slots, "--json"]);
    command.arg(&file).arg("--dump").arg(&dump);
    assert_eq!(json(&stdout(command))["table_slots"], counts.len());
    assert_eq!(fs::read_to_string(&dump).unwrap(), oracle::dump(&counts));
}

#[test]
fn operations_through_the_backend_give_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let dumps = ["direct", "indirect"].map(|name| dir.path().join(name));
    for (dump, direct) in dumps.iter().zip(["1", "0"]) {
        let mut command = kmer_count(["-C", "--ranks", "3", "--json", LAMBDA, "--dump"]);
        command.arg(dump).env("PGAS_DIRECT", direct);
        stdout(command);
    }
    let [direct, indirect] = dumps.map(|dump| fs::read(dump).unwrap());
    assert!(direct == indirect && direct.len() > 1 << 20);
}
