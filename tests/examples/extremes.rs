//! Every argument of every example, with extreme numbers and texts.

use std::ffi::OsString;
use std::fs;

use pgas_testkit::extremes::{Program, try_extremes};

use crate::program::program;

/// Tests the example `name`, with options that make it quick.
fn try_example(name: &str, options: &[(&'static str, &str)], operands: &[OsString]) {
    try_extremes(&Program {
        path: program(name),
        before: Vec::new(),
        options: options
            .iter()
            .map(|(name, value)| (*name, OsString::from(value)))
            .collect(),
        operands: operands.to_vec(),
        skipped: &[],
        codes: &[1, 2],
    });
}

/// A few bases in a file.
fn reads() -> (tempfile::TempDir, OsString) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reads.fa");
    fs::write(&file, ">read\nACGTTGCATGACCATGATTACGGATTCACTGGCCGTCG\n").unwrap();
    let path = file.into();
    (folder, path)
}

#[test]
fn kmer_count_works_with_an_argument_or_refuses_it_in_a_line() {
    let (_folder, file) = reads();
    try_example("kmer_count", &[("--ranks", "2")], &[file]);
}

#[test]
fn contig_gen_works_with_an_argument_or_refuses_it_in_a_line() {
    let (_folder, file) = reads();
    try_example("contig_gen", &[("--ranks", "2")], &[file]);
}

#[test]
fn isx_works_with_an_argument_or_refuses_it_in_a_line() {
    let options = [("--ranks", "2"), ("--keys-per-rank", "10")];
    try_example("isx", &options, &[]);
}

#[test]
fn the_kernels_work_with_an_argument_or_refuse_it_in_a_line() {
    for kernel in ["histogram", "index_gather"] {
        let options = [("--ranks", "2"), ("--accesses", "10"), ("--table", "10")];
        try_example(kernel, &options, &[]);
    }
}

#[test]
fn extend_add_works_with_an_argument_or_refuses_it_in_a_line() {
    let options = [("--ranks", "2"), ("--side", "2"), ("--rounds", "1")];
    try_example("extend_add", &options, &[]);
}

#[test]
fn dht_rpc_works_with_an_argument_or_refuses_it_in_a_line() {
    let options = [
        ("--ranks", "2"),
        ("--sizes", "8"),
        ("--keys", "10"),
        ("--megabytes", "0"),
    ];
    try_example("dht_rpc", &options, &[]);
}

#[cfg(feature = "tokio")]
#[test]
fn tokio_rpcs_works_with_an_argument_or_refuses_it_in_a_line() {
    let options = [("--ranks", "2"), ("--calls", "10"), ("--idle", "0")];
    try_example("tokio_rpcs", &options, &[]);
}
