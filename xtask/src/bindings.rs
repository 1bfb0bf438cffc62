//! Generates the bindings to libfabric from the installed headers. They are checked in, so that
//! builds of the library do not need the headers; the test `headers` of `pgas-libfabric-sys`
//! compares the two.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::process::{self, Outcome, root};

/// The version of `bindgen` that generated the checked-in bindings.
const BINDGEN: &str = "bindgen 0.72.1";

const CRATE: &str = "crates/libfabric-sys";

/// Types of the headers, with all that these are made of.
const TYPES: &[&str] = &[
    "fi_(info|av_attr|cq_attr|cq_(msg|data)_entry|cq_err_entry|msg|msg_rma|rma_iov|context2)",
    "fi_(datatype|op|ep_type|threading|progress|resource_mgmt|av_type|cq_format|wait_obj)",
    "fid|fid_(fabric|domain|ep|av|cq|mr)",
];

/// Makes the bindings anew.
pub(crate) fn make() -> Result<Outcome> {
    let mut bindgen = Command::new("bindgen");
    let version = process::output(bindgen.arg("--version")).unwrap_or_default();
    ensure!(
        version.trim() == BINDGEN,
        "{BINDGEN} is not there: cargo install bindgen-cli --version 0.72.1 --locked"
    );
    let folder = root().join(CRATE);
    let mut bindgen = Command::new("bindgen");
    bindgen.arg(folder.join("wrapper.h"));
    bindgen.arg("--output").arg(folder.join("src/bindings.rs"));
    bindgen.args(["--rust-target", "1.88", "--rust-edition", "2024"]);
    bindgen.args([
        "--ignore-functions",
        "--no-doc-comments",
        "--no-prepend-enum-name",
    ]);
    bindgen.args(["--allowlist-var", "FI_.*"]);
    for types in TYPES {
        bindgen.args(["--allowlist-type", types]);
    }
    bindgen.args([
        "--raw-line",
        "//! Types and constants of libfabric's headers, made by `cargo xtask bindings`.",
    ]);
    process::run(&mut bindgen)
}
