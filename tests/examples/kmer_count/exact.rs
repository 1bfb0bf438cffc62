//! Exact counts: compared with a plain loop and with jellyfish, for every number of ranks.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use pgas_genomics::simulate::{Genome, ReadPlan, SimulatedReads};
use pgas_testkit::examples_are_optimized;
use tempfile::TempDir;

use super::oracle::{self, assert_same_dump};
use super::run::{kmer_count, stdout};
use crate::program::{ECOLI, LAMBDA};

const LENGTHS: [usize; 4] = [5, 21, 31, 32];

/// The lengths and numbers of ranks that inputs are counted with. The step `main-job` of the test
/// command uses all of them, with optimized examples, which are ten times faster.
fn lengths() -> &'static [usize] {
    match examples_are_optimized() {
        true => &LENGTHS,
        false => &[5, 32],
    }
}

/// See [`lengths`].
fn ranks() -> &'static [u32] {
    match examples_are_optimized() {
        true => &[1, 2, 3, 4, 7],
        false => &[1, 3],
    }
}

fn unpacked(path: &str) -> String {
    let mut text = String::new();
    let mut decoder = MultiGzDecoder::new(File::open(path).unwrap());
    decoder.read_to_string(&mut text).unwrap();
    text
}

/// The sequences of a FASTA text.
fn fasta(text: &str) -> Vec<String> {
    let records = text.split('>').skip(1);
    let sequence = |record: &str| record.lines().skip(1).collect::<String>();
    records.map(sequence).collect()
}

/// The sequences of a FASTQ text.
fn fastq(text: &str) -> Vec<String> {
    text.lines().skip(1).step_by(4).map(str::to_owned).collect()
}

/// Reads of the lambda genome with errors and unknown bases, as FASTQ.
fn simulated_reads() -> String {
    let genome = Genome::read_fasta(Path::new(LAMBDA)).unwrap();
    let plan = ReadPlan {
        n_reads: 3000,
        length: 100,
        error_rate: 0.01,
        seed: 7,
    };
    let mut text = Vec::new();
    let reads = SimulatedReads::new(&genome, plan).unwrap();
    reads.write_fastq(&mut text).unwrap();
    let mut text = String::from_utf8(text).unwrap();
    // Every 977th letter of a sequence becomes an N. Qualities contain no A, C, G or T.
    let sequences: Vec<usize> = text
        .match_indices(['A', 'C', 'G', 'T'])
        .map(|(at, _)| at)
        .step_by(977)
        .collect();
    for at in sequences {
        text.replace_range(at..=at, "N");
    }
    text
}

/// Counts in its own directory, and compares the dump and the spectrum.
fn check(files: &[&Path], options: &[&str], dump: &[u8], histo: &str) {
    let dir = tempfile::tempdir().unwrap();
    let [to_dump, to_histo] = ["dump", "histo"].map(|name| dir.path().join(name));
    let mut command = kmer_count(options);
    command.arg("--json").args(files);
    command.arg("--dump").arg(&to_dump);
    command.arg("--histo").arg(&to_histo);
    stdout(command);
    let what = format!("{options:?} {files:?}");
    assert_same_dump(&to_dump, dump, &what);
    assert_eq!(fs::read_to_string(&to_histo).unwrap(), histo, "{what}");
}

/// Compares with the plain loop, for all lengths and numbers of ranks.
fn check_all(files: &[&Path], sequences: &[String]) {
    for &k in lengths() {
        for canonical in [false, true] {
            let counts = oracle::counts(sequences, k, canonical);
            let (dump, histo) = (oracle::dump(&counts), oracle::histo(&counts));
            for ranks in ranks() {
                let (k, ranks) = (k.to_string(), ranks.to_string());
                let mut options = vec!["-k", &k, "--ranks", &ranks];
                options.extend(canonical.then_some("--canonical"));
                check(files, &options, dump.as_bytes(), &histo);
            }
        }
    }
}

fn written(dir: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn the_lambda_genome_is_counted_as_by_a_plain_loop() {
    check_all(&[LAMBDA.as_ref()], &fasta(&unpacked(LAMBDA)));
}

#[test]
fn files_of_all_kinds_are_counted_together_as_by_a_plain_loop() {
    let dir = tempfile::tempdir().unwrap();
    let reads = simulated_reads();
    let genome = ">one\nACGTNNACGTTTGACACGTAGGATTACAGATTACAGATTACANACGT\nACGGTTAGG\r\nttgac\n>two\n\n>three\nGATTACA\n";
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(reads.as_bytes()).unwrap();
    let files = [
        written(&dir, "plain.fq", &reads[..reads.len()]),
        written(&dir, "packed.fq.gz", packed.finish().unwrap()),
        written(&dir, "genome.fa", genome),
    ];
    let files = [&*files[0], &*files[1], &*files[2]];
    let mut sequences = fastq(&reads);
    sequences.extend(fastq(&reads));
    sequences.extend(fasta(&genome.replace('\r', "")));
    check_all(&files, &sequences);
}

#[test]
fn reads_of_the_lambda_phage_are_counted_as_by_jellyfish() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = vec![written(&dir, "simulated.fq", simulated_reads())];
    // Some checkouts of the project have real reads beside them.
    let shared = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../shared/data/lambda_reads_1.fq.gz"
    );
    if Path::new(shared).is_file() {
        files.push(written(&dir, "real.fq", unpacked(shared)));
    }
    for file in &files {
        for &k in lengths() {
            let (dump, histo) = oracle::jellyfish(file, k);
            for ranks in ranks() {
                let (k, ranks) = (k.to_string(), ranks.to_string());
                check(&[file], &["-C", "-k", &k, "--ranks", &ranks], &dump, &histo);
            }
        }
    }
}

#[test]
fn a_bacterial_genome_is_counted_as_by_jellyfish() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = unpacked(ECOLI);
    let plain = dir.path().join("ecoli.fa");
    let (combinations, files): (Vec<(usize, &[u32])>, [&Path; 2]) = match examples_are_optimized() {
        true => (
            LENGTHS.map(|k| (k, ranks())).to_vec(),
            [ECOLI.as_ref(), &plain],
        ),
        false => {
            text.truncate(500_000);
            (vec![(21, &[2])], [&plain; 2])
        }
    };
    BufWriter::new(File::create(&plain).unwrap())
        .write_all(text.as_bytes())
        .unwrap();
    for (k, ranks) in combinations {
        let (dump, histo) = oracle::jellyfish(&plain, k);
        for (ranks, file) in ranks.iter().zip(files.into_iter().cycle()) {
            let (k, ranks) = (k.to_string(), ranks.to_string());
            check(&[file], &["-C", "-k", &k, "--ranks", &ranks], &dump, &histo);
        }
    }
}

#[test]
fn by_a_filter_and_in_batches_of_ranks_the_counts_are_the_same() {
    let dir = TempDir::new().unwrap();
    let reads = dir.path().join("reads.fq");
    fs::write(&reads, simulated_reads()).unwrap();
    let dump = |name: &str, direct: &str, more: &[&str]| {
        let path = dir.path().join(name);
        let path_text = path.to_str().unwrap();
        let mut args = vec![reads.to_str().unwrap(), "-C", "--json", "--dump", path_text];
        args.extend(more);
        let mut command = kmer_count(args);
        command.env("PGAS_DIRECT", direct);
        let json: serde_json::Value = serde_json::from_str(&stdout(command)).unwrap();
        (fs::read_to_string(path).unwrap(), json)
    };
    let (all, json) = dump("all", "1", &["--ranks", "2"]);
    assert_eq!(json["way"], "direct");
    let [slots, bytes] = ["table_slots", "table_bytes"].map(|name| json[name].as_u64().unwrap());
    assert_eq!(
        bytes,
        64 * slots.div_ceil(3),
        "three slots share a cache line"
    );
    for ranks in ["1", "3"] {
        let (buffered, json) = dump("buffered", "1", &["--aggregate", "--ranks", ranks]);
        assert_eq!((buffered, &json["way"]), (all.clone(), &"direct".into()));
        let (repeated, json) = dump("repeated", "1", &["--bloom", "--ranks", ranks]);
        let expected: String = all
            .lines()
            .filter(|line| !line.ends_with(" 1") && !line.ends_with("\t1"))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(repeated, expected);
        assert!(json["saved_bytes"].as_u64().unwrap() > 0, "{json}");
    }
    let (sent, json) = dump("sent", "0", &["--ranks", "3"]);
    assert_eq!((sent, &json["way"]), (all.clone(), &"aggregated".into()));
    // Under a buffer the table grows from any size, however many k-mers there are.
    for (direct, options) in [("1", &["--aggregate"][..]), ("0", &[])] {
        let options = [options, &["--slots", "1", "--ranks", "2"]].concat();
        let (grown, json) = dump("grown", direct, &options);
        assert!(
            grown == all && json["table_slots"].as_u64() > Some(1),
            "{json}"
        );
    }
}
