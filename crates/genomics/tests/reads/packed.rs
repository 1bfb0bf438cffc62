//! K-mers of segments, directly and from packed reads, against k-mers taken letter by letter.

use pgas_genomics::{Kmer, KmerLength, Kmers, PackedReads};
use proptest::prelude::*;
use proptest::sample::select;

fn segments() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let letters = select(b"ACGTACGTACGTACGTACGTACGTacgtN".to_vec());
    prop::collection::vec(prop::collection::vec(letters, 0..400), 0..12)
}

fn naive_kmers(segment: &[u8], k: usize) -> Vec<String> {
    let upper = segment.to_ascii_uppercase();
    let windows = upper.windows(k).filter(|window| !window.contains(&b'N'));
    windows
        .map(|window| String::from_utf8(window.to_vec()).unwrap())
        .collect()
}

fn naive_canonical(text: &str) -> String {
    let pair = |letter| match letter {
        'A' => 'T',
        'C' => 'G',
        'G' => 'C',
        _ => 'A',
    };
    let reverse: String = text.chars().rev().map(pair).collect();
    reverse.min(text.to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn kmers_are_those_of_every_window(segments in segments(), k in 1..=32_u64) {
        let k = KmerLength::new(k).unwrap();
        let texts: Vec<_> = segments.iter().flat_map(|segment| naive_kmers(segment, k.get())).collect();
        let canonical: Vec<_> = texts.iter().map(|text| naive_canonical(text)).collect();
        let text = |kmer: Kmer| kmer.to_text(k);

        let by_next: Vec<_> = segments.iter().flat_map(|segment| Kmers::new(segment, k)).map(text).collect();
        prop_assert_eq!(&by_next, &texts);
        let mut by_fold = Vec::new();
        for segment in &segments {
            Kmers::new(segment, k).canonical().for_each(|kmer| by_fold.push(text(kmer)));
        }
        prop_assert_eq!(&by_fold, &canonical);

        let mut reads = PackedReads::new();
        segments.iter().for_each(|segment| reads.push(segment));
        prop_assert_eq!(reads.n_kmers(k), texts.len() as u64);
        let mut packed_next = Vec::new();
        for kmer in reads.kmers(k) {
            packed_next.push(text(kmer));
        }
        prop_assert_eq!(&packed_next, &texts);
        let mut packed_fold = Vec::new();
        reads.kmers(k).canonical().for_each(|kmer| packed_fold.push(text(kmer)));
        prop_assert_eq!(&packed_fold, &canonical);
    }

    /// `for_each` goes on where `next` stopped.
    #[test]
    fn an_iterator_can_be_finished_by_fold(segment in prop::collection::vec(select(b"ACGTN".to_vec()), 0..300), n in 0..200_usize) {
        let k = KmerLength::new(3).unwrap();
        let all: Vec<_> = naive_kmers(&segment, 3);
        let mut reads = PackedReads::new();
        reads.push(&segment);
        let mut kmers = Kmers::new(&segment, k);
        let mut packed = reads.kmers(k);
        let mut texts: Vec<_> = kmers.by_ref().take(n).map(|kmer| kmer.to_text(k)).collect();
        let mut packed_texts: Vec<_> = packed.by_ref().take(n).map(|kmer| kmer.to_text(k)).collect();
        kmers.for_each(|kmer| texts.push(kmer.to_text(k)));
        packed.for_each(|kmer| packed_texts.push(kmer.to_text(k)));
        prop_assert_eq!(&texts, &all);
        prop_assert_eq!(&packed_texts, &all);
    }

    #[test]
    fn forms_of_a_kmer_agree(word in any::<u64>(), k in 1..=32_u64) {
        let k = KmerLength::new(k).unwrap();
        let kmer = Kmer::from_word(word >> (64 - 2 * k.get()));
        let text = kmer.to_text(k);
        prop_assert_eq!(Kmer::from_text(&text, k).unwrap(), kmer);
        prop_assert_eq!(Kmer::from_text(&text.to_lowercase(), k).unwrap(), kmer);
        prop_assert_eq!(kmer.reverse_complement(k).reverse_complement(k), kmer);
        prop_assert_eq!(kmer.canonical(k).to_text(k), naive_canonical(&text));
        prop_assert_eq!(kmer.display(k).to_string(), text);
    }
}

/// Blocks of memory hold 2^22 bases each.
#[test]
fn packed_reads_of_several_blocks_come_back_whole() {
    let k = KmerLength::new(31).unwrap();
    let mut state = 3_u64;
    let mut letter = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        b"ACGTN"[if state >> 53 == 0 {
            4
        } else {
            (state >> 62) as usize
        }]
    };
    let segment: Vec<_> = (0..9_000_000).map(|_| letter()).collect();
    let mut reads = PackedReads::new();
    segment.chunks(70_001).for_each(|part| reads.push(part));
    let mut expected = segment.chunks(70_001).flat_map(|part| Kmers::new(part, k));
    assert!(reads.kmers(k).eq(expected.by_ref()));
    let n_letters = segment.iter().filter(|letter| **letter != b'N').count() as u64;
    assert_eq!(reads.n_bases(), n_letters);
    assert!(reads.memory_bytes() as u64 <= n_letters / 4 + (1 << 20) + 100_000);
}
