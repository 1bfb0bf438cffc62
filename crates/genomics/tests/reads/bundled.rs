//! The genomes under `examples/data`.

use std::path::{Path, PathBuf};

use pgas_genomics::simulate::Genome;
use pgas_genomics::{Input, KmerLength, Kmers, PackedReads, Share};

use crate::common::{count_shares, write};

fn bundled(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/data")
        .join(name)
}

#[test]
fn the_bundled_genomes_have_the_lengths_that_ncbi_states() {
    let k = KmerLength::new(21).unwrap();
    for (name, n_bases) in [
        ("lambda_NC_001416.fa.gz", 48_502),
        ("ecoli_536_NC_008253.fna.gz", 4_938_920),
    ] {
        let input = Input::open([bundled(name)]).unwrap();
        let mut n_kmers = 0;
        let summary = input
            .for_each_segment(Share::whole(), k, |segment| {
                n_kmers += Kmers::new(segment, k).count();
            })
            .unwrap();
        assert_eq!((summary.reads, summary.bases), (1, n_bases));
        assert_eq!(n_kmers as u64, n_bases - 20);
    }
}

#[test]
fn lambda_gives_the_same_kmers_plain_and_gzip_on_any_number_of_ranks() {
    let gzip = bundled("lambda_NC_001416.fa.gz");
    let dir = tempfile::tempdir().unwrap();
    let mut text = Vec::new();
    Genome::read_fasta(&gzip)
        .unwrap()
        .write_fasta(&mut text)
        .unwrap();
    let plain = write(dir.path(), "lambda.fa", text);
    for k in [5, 21, 32] {
        let k = KmerLength::new(k).unwrap();
        let expected = count_shares(std::slice::from_ref(&gzip), k, 1);
        for n_ranks in [2, 3, 7] {
            assert_eq!(
                count_shares(std::slice::from_ref(&plain), k, n_ranks),
                expected
            );
            assert_eq!(
                count_shares(std::slice::from_ref(&gzip), k, n_ranks),
                expected
            );
        }
    }
}

#[test]
fn a_packed_genome_takes_a_quarter_of_its_size() {
    let k = KmerLength::new(21).unwrap();
    let input = Input::open([bundled("ecoli_536_NC_008253.fna.gz")]).unwrap();
    let mut reads = PackedReads::new();
    input
        .for_each_segment(Share::whole(), k, |segment| reads.push(segment))
        .unwrap();
    assert_eq!(reads.n_kmers(k), 4_938_920 - 20);
    assert!(
        reads.memory_bytes() < 4_938_920 / 4 + (1 << 20),
        "{} bytes",
        reads.memory_bytes()
    );
}
