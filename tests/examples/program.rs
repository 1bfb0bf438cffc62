//! The places of the examples and their data.

use std::path::PathBuf;

/// The package of the examples.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");

/// The genomes that come with the project.
pub(crate) const LAMBDA: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/examples/data/lambda_NC_001416.fa.gz"
);
pub(crate) const ECOLI: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/examples/data/ecoli_536_NC_008253.fna.gz"
);

/// The example `name`, built with the features of this test.
pub(crate) fn program(name: &str) -> PathBuf {
    const FEATURES: &[&str] = if cfg!(feature = "tokio") {
        &["tokio"]
    } else {
        &[]
    };
    pgas_testkit::example(PACKAGE, name, FEATURES)
}
