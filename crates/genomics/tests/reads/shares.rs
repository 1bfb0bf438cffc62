//! For all files and numbers of ranks, all shares together give the result of a naive reader.

use crate::common::{Counted, count_shares, gzip, joined, write};
use pgas_genomics::KmerLength;
use proptest::prelude::*;
use proptest::sample::select;

const N_RANKS: [usize; 5] = [1, 2, 3, 4, 7];

/// The text of a file and the sequences in it.
#[derive(Clone, Debug)]
struct Contents {
    text: String,
    sequences: Vec<String>,
}

fn sequences(max_length: usize) -> impl Strategy<Value = Vec<String>> {
    let letters = select(b"ACGTACGTACGTACGTacgtNnRY*-".to_vec());
    let sequence = prop::collection::vec(letters, 0..max_length);
    let sequence = sequence.prop_map(|letters| String::from_utf8(letters).unwrap());
    prop::collection::vec(sequence, 1..12)
}

fn line_end() -> impl Strategy<Value = &'static str> {
    select(vec!["\n", "\r\n"])
}

/// Records of several lines of changing lengths, blank lines anywhere, `>` inside headers and
/// sequences.
fn fasta() -> impl Strategy<Value = Contents> {
    let shape = (
        line_end(),
        prop::collection::vec(0..9_usize, 1..20),
        any::<bool>(),
    );
    (sequences(60), shape).prop_map(|(sequences, (end, widths, last_end))| {
        let mut text = String::new();
        let mut widths = widths.into_iter().cycle();
        // At most one line in a row is blank, so that widths of zero alone come to an end.
        let blank_line = end.repeat(2);
        for (i, sequence) in sequences.iter().enumerate() {
            text += &format!(">r{i} >ACGTACGT\tx{end}");
            let mut rest = sequence.as_str();
            while !rest.is_empty() {
                let width = widths
                    .next()
                    .unwrap()
                    .max(usize::from(text.ends_with(&blank_line)));
                let (line, later) = rest.split_at(width.min(rest.len()));
                text += line;
                text += end;
                rest = later;
            }
        }
        if !last_end {
            text.truncate(text.trim_end().len());
        }
        Contents { text, sequences }
    })
}

/// Qualities that look like names and separators.
fn fastq() -> impl Strategy<Value = Contents> {
    let quality = select(b"@@++!I~>A".to_vec());
    let shape = (
        line_end(),
        prop::collection::vec(quality, 1..50),
        0..4_usize,
        any::<bool>(),
    );
    (sequences(30), shape).prop_map(|(sequences, (end, qualities, blank_lines, last_end))| {
        let mut text = String::new();
        let mut qualities = qualities.into_iter().cycle();
        let n_sequences = sequences.len();
        for (i, sequence) in sequences.iter().enumerate() {
            let quality: String = sequence
                .chars()
                .map(|_| char::from(qualities.next().unwrap()))
                .collect();
            let last_end = if i + 1 < n_sequences || last_end {
                end
            } else {
                ""
            };
            text += &format!("@r{i} @+{end}{sequence}{end}+{end}{quality}{last_end}");
        }
        if last_end {
            text += &end.repeat(blank_lines * 3);
        }
        Contents { text, sequences }
    })
}

fn naive(contents: &[&Contents], k: KmerLength) -> Counted {
    let mut counted = Counted::default();
    for sequence in contents.iter().flat_map(|contents| &contents.sequences) {
        counted.add_naively(sequence, k.get());
    }
    counted
}

/// Writes each of the contents to a file, compressed if requested, and compares all numbers of
/// ranks with the naive count.
fn check(contents: &[(&Contents, Option<usize>)], ks: &[u64], many_ranks: bool) {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<_> = contents
        .iter()
        .enumerate()
        .map(|(i, (contents, member))| {
            let text = contents.text.as_bytes();
            let bytes = member.map_or_else(|| text.to_vec(), |n_bytes| gzip(text, n_bytes));
            write(dir.path(), &format!("{i}"), bytes)
        })
        .collect();
    let contents: Vec<_> = contents.iter().map(|(contents, _)| *contents).collect();
    let n_bytes: usize = contents.iter().map(|contents| contents.text.len()).sum();
    for k in ks {
        let k = KmerLength::new(*k).unwrap();
        let expected = naive(&contents, k);
        let n_ranks = if n_bytes > 100_000 {
            &[1, 3]
        } else {
            &N_RANKS[..]
        };
        for n_ranks in n_ranks
            .iter()
            .copied()
            .chain(many_ranks.then_some(n_bytes + 3))
        {
            assert_eq!(
                count_shares(&paths, k, n_ranks),
                expected,
                "k = {k:?}, {n_ranks} ranks"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn segments_that_continue_others_join_to_the_sequences(contents in fasta(), k in 1..7_u64) {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path(), "plain", &contents.text);
        let sequences = contents.sequences.iter().filter(|sequence| !sequence.is_empty());
        let expected: Vec<String> = sequences.cloned().collect();
        let k = KmerLength::new(k).unwrap();
        for n_ranks in N_RANKS.into_iter().chain([contents.text.len() + 3]) {
            prop_assert_eq!(joined(&path, k, n_ranks), expected.clone());
        }
    }

    #[test]
    fn shares_of_fasta_add_up(contents in fasta(), k in 1..=32_u64) {
        check(&[(&contents, None)], &[1, 4, k], false);
    }

    #[test]
    fn shares_of_fastq_add_up(contents in fastq(), k in 1..=32_u64) {
        check(&[(&contents, None)], &[1, 4, k], false);
    }

    #[test]
    fn shares_of_gzip_add_up(contents in prop_oneof![fasta(), fastq()], member in 1..200_usize) {
        check(&[(&contents, Some(member))], &[3], false);
    }

    #[test]
    fn shares_of_several_files_add_up(a in fasta(), b in fastq(), c in fasta(), d in fastq()) {
        check(&[(&a, None), (&d, Some(99)), (&b, None), (&c, Some(77)), (&a, None)], &[5], false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn more_ranks_than_bytes_add_up(contents in prop_oneof![fasta(), fastq()]) {
        check(&[(&contents, None)], &[4], true);
    }
}

/// Segments, blocks and the search for the start of a line all cross their boundaries.
#[test]
fn records_longer_than_all_buffers_add_up() {
    let mut state = 1_u64;
    let mut letter = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b"ACGT"[(state >> 62) as usize])
    };
    let sequence: String = (0..300_000).map(|_| letter()).collect();
    let one_line = Contents {
        text: format!(">long {}\n{sequence}\n>short\nACGTT", "x".repeat(100_000)),
        sequences: vec![sequence.clone(), "ACGTT".into()],
    };
    let quality = "@".repeat(sequence.len());
    let read = Contents {
        text: format!("@a\n{sequence}\n+\n{quality}\n@b\nACGTT\n+\n+++++\n"),
        sequences: vec![sequence, "ACGTT".into()],
    };
    check(
        &[(&one_line, None), (&read, None), (&one_line, Some(200_000))],
        &[6],
        false,
    );
}

/// A sequence that begins with `@` or `+` hides its record from the search for a start, but not
/// from the count.
#[test]
fn records_with_odd_sequences_are_counted_once() {
    let odd = ["@CGT", "+CGT", "ACGT", "@@@@", "++++"];
    let text: String = (0..40)
        .map(|i| format!("@{i}\n{}\n+\n@+@+\n", odd[i % odd.len()]))
        .collect();
    let sequences = (0..40).map(|i| odd[i % odd.len()].to_owned()).collect();
    check(&[(&Contents { text, sequences }, None)], &[1, 3], true);
}
