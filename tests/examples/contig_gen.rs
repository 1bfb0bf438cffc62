//! The example `contig_gen`, as its users start it.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output};

use pgas_testkit::examples_are_optimized;
use tempfile::tempdir;

use crate::program::{ECOLI, LAMBDA, program};

/// Runs the program.
fn contig_gen(arguments: &[&str]) -> Output {
    Command::new(program("contig_gen"))
        .args(arguments)
        .output()
        .unwrap()
}

/// The genome of lambda, in upper case.
fn lambda() -> Vec<u8> {
    genome(LAMBDA)
}

/// The one sequence of a file of the project, in upper case.
fn genome(file: &str) -> Vec<u8> {
    let mut text = String::new();
    let mut file = flate2::read::MultiGzDecoder::new(fs::File::open(file).unwrap());
    file.read_to_string(&mut text).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('>'));
    lines.collect::<String>().to_uppercase().into_bytes()
}

fn other_strand(bases: &[u8]) -> Vec<u8> {
    let complement = |base: &u8| match base {
        b'A' => b'T',
        b'C' => b'G',
        b'G' => b'C',
        _ => b'A',
    };
    bases.iter().rev().map(complement).collect()
}

fn contigs(path: &Path) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(path).unwrap();
    let records = text.split('>').skip(1);
    let bases = |record: &str| {
        let (_, lines) = record.split_once('\n').unwrap();
        lines.replace('\n', "").into_bytes()
    };
    records.map(bases).collect()
}

/// Reads of 100 bases, from both strands alternately. `low(read, base)` says which bases are wrong
/// and have a low quality.
fn reads(genome: &[u8], step: usize, low: impl Fn(usize, usize) -> bool) -> String {
    let mut text = String::new();
    let last = genome.len() - 100;
    let starts = (0..last).step_by(step).chain([last]);
    for (number, start) in starts.enumerate() {
        let mut read = genome[start..start + 100].to_vec();
        if number % 2 == 1 {
            read = other_strand(&read);
        }
        let is_low = |i: usize| low(number, i);
        let letters: String = (0..100)
            .map(|i| if is_low(i) { 'A' } else { char::from(read[i]) })
            .collect();
        let qualities: String = (0..100)
            .map(|i| if is_low(i) { '#' } else { 'I' })
            .collect();
        text.push_str(&format!("@{number}\n{letters}\n+\n{qualities}\n"));
    }
    text
}

/// Runs it and checks that the one contig is the whole genome.
fn gives_the_genome(input: &Path, arguments: &[&str]) {
    let (genome, out) = (lambda(), input.with_extension("contigs"));
    let mut all = vec![
        input.to_str().unwrap(),
        "--json",
        "--out",
        out.to_str().unwrap(),
    ];
    all.extend(arguments);
    let ended = contig_gen(&all);
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{arguments:?}: {stderr}");
    let json: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(json["contigs"], 1, "{json}");
    assert_eq!(json["total_bp"], genome.len());
    assert_eq!(json["n50"], genome.len());
    let contigs = contigs(&out);
    assert_eq!(contigs.len(), 1);
    assert!(contigs[0] == genome || contigs[0] == other_strand(&genome));
}

#[test]
fn error_free_reads_of_lambda_give_its_genome_as_one_contig() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("reads.fq");
    fs::write(&path, reads(&lambda(), 9, |_, _| false)).unwrap();
    for ranks in ["1", "2", "3"] {
        gives_the_genome(&path, &["--ranks", ranks]);
    }
    gives_the_genome(&path, &["-k", "25", "--ranks", "2"]);
}

#[test]
fn bases_of_low_quality_are_left_out() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("reads.fq");
    // One letter of every third read is wrong.
    let low = |number: usize, i: usize| number.is_multiple_of(3) && i == 40 + number % 20;
    fs::write(&path, reads(&lambda(), 5, low)).unwrap();
    gives_the_genome(&path, &["--ranks", "2", "--min-quality", "20"]);
}

#[test]
fn the_genome_that_comes_with_the_project_is_put_together_from_its_pieces() {
    let ended = contig_gen(&["--ranks", "2"]);
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(text.contains("1 contig with 48502 bases"), "{text}");
}

/// The default parameters of `contig_gen`.
const K: usize = 31;

#[test]
fn contigs_of_a_bacterial_genome_are_pieces_of_it_and_no_k_mer_is_told_twice() {
    let dir = tempdir().unwrap();
    let mut genome = genome(ECOLI);
    if !examples_are_optimized() {
        genome.truncate(150_000);
    }
    let input = dir.path().join("genome.fa");
    let text = [b">genome\n", genome.as_slice(), b"\n"].concat();
    fs::write(&input, text).unwrap();
    let mut of_one_rank = None;
    for ranks in ["1", "2", "3"] {
        let out = dir.path().join(ranks);
        let arguments = [input.as_path(), &out].map(|path| path.to_str().unwrap());
        let [input, out_text] = arguments;
        let ended = contig_gen(&[input, "--json", "--out", out_text, "--ranks", ranks]);
        let json: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        let mut contigs = contigs(&out);
        let total: usize = contigs.iter().map(Vec::len).sum();
        assert_eq!(
            (&json["contigs"], &json["total_bp"]),
            (&contigs.len().into(), &total.into())
        );
        assert_eq!(json["n50"], n50(&contigs));
        assert!(total > genome.len() / 10 * 9, "{total} of {}", genome.len());
        // The contig may be reported on either strand.
        for contig in &mut contigs {
            let other = other_strand(contig);
            if other < *contig {
                *contig = other;
            }
        }
        contigs.sort_unstable();
        if let Some(former) = &of_one_rank {
            assert!(contigs == *former, "{ranks} ranks and one differ");
            continue;
        }
        assert_pieces(&genome, &contigs);
        let mut seen = Vec::new();
        for contig in &contigs {
            let (forward, reverse) = (packed::<K>(contig), packed::<K>(&other_strand(contig)));
            let strands = forward.into_iter().zip(reverse.into_iter().rev());
            seen.extend(strands.map(|(forward, reverse)| forward.min(reverse)));
        }
        let n_seen = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), n_seen, "some k-mers are told twice");
        of_one_rank = Some(contigs);
    }
}

/// Panics if one of the contigs is on neither strand of the genome.
fn assert_pieces(genome: &[u8], contigs: &[Vec<u8>]) {
    let mut by_first_k_mer: HashMap<u64, Vec<(usize, Vec<u8>)>> = HashMap::new();
    for (i, contig) in contigs.iter().enumerate() {
        for strand in [contig.clone(), other_strand(contig)] {
            let first = packed::<K>(&strand[..K])[0];
            by_first_k_mer.entry(first).or_default().push((i, strand));
        }
    }
    let mut is_piece = vec![false; contigs.len()];
    for (place, k_mer) in packed::<K>(genome).into_iter().enumerate() {
        for (i, strand) in by_first_k_mer.get(&k_mer).into_iter().flatten() {
            is_piece[*i] |= genome[place..].starts_with(strand);
        }
    }
    let strange = contigs.iter().zip(is_piece).find(|(_, is_piece)| !is_piece);
    assert!(strange.is_none(), "{strange:?}");
}

/// The k-mers of these bases in order, each as a number.
fn packed<const K: usize>(bases: &[u8]) -> Vec<u64> {
    let digit = |base: u8| u64::from((base >> 1) & 3);
    let mut k_mer = 0;
    let mut k_mers = Vec::with_capacity(bases.len());
    for &base in bases {
        k_mer = ((k_mer << 2) | digit(base)) & ((1 << (2 * K)) - 1);
        k_mers.push(k_mer);
    }
    // The first ones are incomplete.
    k_mers.split_off(k_mers.len().min(K - 1))
}

/// The N50: the length of the contig at which half of all bases are reached, from the longest on.
fn n50(contigs: &[Vec<u8>]) -> usize {
    let mut lengths: Vec<_> = contigs.iter().map(Vec::len).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let half = lengths.iter().sum::<usize>().div_ceil(2);
    let mut told = 0;
    let with_half = lengths.into_iter().find(|length| {
        told += length;
        told >= half
    });
    with_half.unwrap()
}

#[test]
fn a_circle_is_told_once() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("plasmid.fa");
    let genome = &lambda()[1000..3000];
    // The start is repeated at the end, so that every k-mer of the circle is there.
    let text = [genome, &genome[..31]].concat();
    let text = format!(">plasmid\n{}\n", String::from_utf8(text).unwrap());
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    for ranks in ["1", "3"] {
        let ended = contig_gen(&[path, "--json", "--ranks", ranks]);
        let json: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(
            (&json["contigs"], &json["total_bp"]),
            (&1.into(), &2030.into())
        );
    }
}

/// Where a sequence is cut, between chunks and between ranks, no k-mer counts twice.
#[test]
fn a_genome_that_was_read_once_has_no_contigs_of_a_greater_depth() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("once.fa");
    let mut state = 7_u64;
    let mut next = || {
        // A linear congruential generator (Knuth's MMIX).
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        b"ACGT"[(state >> 62) as usize]
    };
    let lines = (0..4000).map(|_| (0..50).map(|_| next() as char).collect::<String>());
    let text = format!(">random\n{}\n", lines.collect::<Vec<_>>().join("\n"));
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    for ranks in ["1", "2", "7"] {
        for (depth, n_contigs) in [("1", 1), ("2", 0)] {
            let ended = contig_gen(&[path, "--json", "--min-depth", depth, "--ranks", ranks]);
            let json: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
            assert_eq!(json["contigs"], n_contigs, "{ranks} ranks, depth {depth}");
        }
    }
}

#[test]
fn a_sequence_may_begin_with_any_letter() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("strange.fq");
    let bases = String::from_utf8(lambda()[..31].to_vec()).unwrap();
    let qualities = "I".repeat(32);
    fs::write(&path, format!("@a\n+{bases}\n+\n{qualities}\n")).unwrap();
    let ended = contig_gen(&[path.to_str().unwrap(), "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(
        (&json["contigs"], &json["total_bp"]),
        (&1.into(), &31.into())
    );
}

#[test]
fn the_genome_that_comes_with_the_project_is_not_written_over() {
    let genome = fs::read(LAMBDA).unwrap();
    let ended = contig_gen(&["--out", LAMBDA, "--ranks", "2"]);
    if fs::read(LAMBDA).unwrap() != genome {
        fs::write(LAMBDA, &genome).unwrap();
        panic!("it was written over: {ended:?}");
    }
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("lambda_NC_001416.fa.gz"), "{stderr}");
}

#[test]
fn a_place_that_cannot_be_written_to_is_named_before_anything_is_read() {
    let ended = contig_gen(&["no such input", "--out", "no/such/dir/out", "--ranks", "2"]);
    let told = String::from_utf8(ended.stderr).unwrap();
    let expected = "contig_gen: no/such/dir/out: No such file or directory (os error 2)\n";
    assert_eq!((ended.status.code(), &*told), (Some(1), expected));
}

#[test]
fn bad_arguments_and_files_are_refused_with_one_line() {
    for arguments in [["-k", "30"], ["-k", "33"], ["--min-depth", "0"]] {
        assert_eq!(
            contig_gen(&arguments).status.code(),
            Some(2),
            "{arguments:?}"
        );
    }
    let ended = contig_gen(&["/no/such/file.fq", "--ranks", "2"]);
    assert!(!ended.status.success());
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(stderr.contains("/no/such/file.fq"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}
