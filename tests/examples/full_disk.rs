//! Results that cannot be written.

use crate::run::fails_on_a_full_disk;

#[test]
fn an_example_whose_results_are_lost_fails_with_a_line() {
    fails_on_a_full_disk("hello", &[]);
    fails_on_a_full_disk("ring_put", &[]);
    fails_on_a_full_disk("isx", &["--keys-per-rank", "10"]);
    for kernel in ["histogram", "index_gather"] {
        fails_on_a_full_disk(kernel, &["--accesses", "10", "--table", "10"]);
        fails_on_a_full_disk(kernel, &["--accesses", "10", "--table", "10", "--json"]);
    }
    fails_on_a_full_disk("extend_add", &["--side", "2", "--rounds", "1"]);
    let few = ["--sizes", "8", "--keys", "10", "--megabytes", "0"];
    fails_on_a_full_disk("dht_rpc", &few);
    fails_on_a_full_disk("kmer_count", &[crate::program::LAMBDA]);
    fails_on_a_full_disk("contig_gen", &[crate::program::LAMBDA]);
}
