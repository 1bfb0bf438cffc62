//! Whether the steps share the builds of what the workspace depends on: cargo builds a package, and
//! all that uses it, anew for each choice of packages that asks for other features.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use super::{all_tests, ofi_tests};
use crate::memory::sanitized_tests;
use crate::mpi;
use crate::process::{self, command};

/// The packages of registries that a command builds, each with its lists of features.
type Choice = BTreeMap<String, BTreeSet<String>>;

fn choice(of: &Command) -> Choice {
    #[rustfmt::skip]
    const TREE: [&str; 8] = [
        "tree", "--locked", "-e", "normal,build,dev", "--prefix", "none", "--format", "{p} [{f}]",
    ];
    let mut tree = command("cargo", TREE);
    let args: Vec<_> = of.get_args().map(|arg| arg.to_str().unwrap()).collect();
    for (i, arg) in args.iter().enumerate() {
        match *arg {
            "--" => break,
            "--workspace" => tree.arg(arg),
            "-p" | "--exclude" | "--features" => tree.args(&args[i..i + 2]),
            _ => &mut tree,
        };
    }
    let mut choice = Choice::new();
    for line in process::output(&mut tree).unwrap().lines() {
        // Marks what was listed before, and packages of the workspace have a path.
        let line = line.trim_end_matches(" (*)").trim_end_matches(']');
        if let Some((package, features)) = line.rsplit_once(" [")
            && !package.contains('/')
        {
            let package = package.trim_end_matches(" (proc-macro)").to_owned();
            choice
                .entry(package)
                .or_default()
                .insert(features.to_owned());
        }
    }
    choice
}

#[test]
fn no_step_builds_a_dependency_with_features_of_its_own() {
    let [tests, rest @ ..] = all_tests();
    let shared = choice(&tests);
    assert!(shared.len() > 100, "what `tests` depends on: {shared:?}");
    let steps = rest
        .into_iter()
        .chain([ofi_tests()])
        .chain(sanitized_tests());
    for step in steps.chain([mpi::MPICH.tests()]) {
        for (package, features) in choice(&step) {
            let known = shared.get(&package);
            assert!(
                known.is_none_or(|known| features.is_subset(known)),
                "{step:?} builds {package} with {features:?}, and `tests` with {known:?}: \
                 crates/test-features is to enable what is missing"
            );
        }
    }
}
