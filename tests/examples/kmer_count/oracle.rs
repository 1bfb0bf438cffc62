//! The expected counts: from a plain loop over the text, and from jellyfish.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// The counts of the k-mers of these sequences.
pub(crate) fn counts(sequences: &[String], k: usize, canonical: bool) -> BTreeMap<String, u64> {
    let mut counts = HashMap::new();
    for sequence in sequences {
        let sequence = sequence.to_ascii_uppercase();
        for known in sequence.split(|letter| !"ACGT".contains(letter)) {
            let other_strand = reverse_complement(known);
            for (start, end) in (k..=known.len()).enumerate() {
                let mut counted = &known[start..end];
                if canonical {
                    counted = counted.min(&other_strand[known.len() - end..known.len() - start]);
                }
                match counts.get_mut(counted) {
                    Some(count) => *count += 1,
                    None => drop(counts.insert(counted.to_owned(), 1)),
                }
            }
        }
    }
    counts.into_iter().collect()
}

fn reverse_complement(kmer: &str) -> String {
    let complement = |letter| match letter {
        'A' => 'T',
        'C' => 'G',
        'G' => 'C',
        _ => 'A',
    };
    kmer.chars().rev().map(complement).collect()
}

/// The text of a dump.
pub(crate) fn dump(counts: &BTreeMap<String, u64>) -> String {
    let lines = counts
        .iter()
        .map(|(kmer, count)| format!("{kmer} {count}\n"));
    lines.collect()
}

/// The text of a spectrum.
pub(crate) fn histo(counts: &BTreeMap<String, u64>) -> String {
    let mut spectrum = BTreeMap::new();
    for count in counts.values() {
        *spectrum.entry((*count).min(10_001)).or_insert(0_u64) += 1;
    }
    let lines = spectrum.iter().map(|(count, n)| format!("{count} {n}\n"));
    lines.collect()
}

/// The result of `jellyfish count -C` for an unpacked file: the sorted dump, and the spectrum.
pub(crate) fn jellyfish(file: &Path, k: usize) -> (Vec<u8>, String) {
    let dir = tempfile::tempdir().unwrap();
    let [counts, text] = ["counts", "text"].map(|name| dir.path().join(name));
    let k = k.to_string();
    let count = ["count", "-C", "-m", &k, "-s", "4M", "-t", "2", "-o"].map(OsStr::new);
    tool(
        "jellyfish",
        count.into_iter().chain([counts.as_ref(), file.as_ref()]),
    );
    let dump = ["dump", "-c", "-o"].map(OsStr::new);
    tool(
        "jellyfish",
        dump.into_iter().chain([text.as_ref(), counts.as_ref()]),
    );
    let sorted = tool("sort", [&text]);
    let histo = tool("jellyfish", ["histo".as_ref(), counts.as_os_str()]);
    (sorted, String::from_utf8(histo).unwrap())
}

/// The standard output of a program that must succeed.
fn tool<A: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = A>) -> Vec<u8> {
    let output = Command::new(program).args(args).env("LC_ALL", "C").output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("{program} is not installed: run `cargo xtask setup`")
        }
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{program}: {output:?}");
    output.stdout
}

/// Asserts that a dump is as expected, and names the first different line.
#[track_caller]
pub(crate) fn assert_same_dump(dump: &Path, expected: &[u8], what: &str) {
    let found = fs::read(dump).unwrap();
    if found == expected {
        return;
    }
    let lines = |text: &[u8]| -> Vec<String> {
        let lines = text.split(|byte| *byte == b'\n');
        lines
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    };
    let (found, expected) = (lines(&found), lines(expected));
    let pairs = found.iter().zip(&expected);
    let n_same = pairs
        .take_while(|(found, expected)| found == expected)
        .count();
    let (found, expected) = (found.get(n_same), expected.get(n_same));
    panic!("{what}: line {} is {found:?}, not {expected:?}", n_same + 1);
}
