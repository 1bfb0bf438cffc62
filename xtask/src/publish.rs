//! The crates as their users get them: packed, unpacked into a folder outside of the workspace, and
//! used there by a crate of its own, which knows the others by their versions alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::mpi;
use crate::process::{self, Outcome, command, root};

/// Files of a package are source and text; data belongs to the examples, which are not published.
const MOST_BYTES: u64 = 2 << 20;

/// The maximum number of crates that a new crate builds for the library's default features, itself
/// included.
const MOST_CRATES: usize = 32;

/// Packed with those that are published: with its choice of features, what they depend on is built
/// already.
const FEATURES_OF_TESTS: &str = "pgas-test-features";

/// Fields that every published package must have.
const SAID: &[&str] = &["description", "license", "readme", "rust_version"];

/// The program of the new crate: containers, calls and collectives.
const PROGRAM: &str = r#"use pgas::prelude::*;

fn main() -> pgas::Result<()> {
    let world = pgas::init()?;
    let counts = HashMap::<u64, u64>::with_capacity(&world, 100)?;
    counts.fetch_add(&42, 1)?;
    world.barrier()?;
    let next = Rank::new((world.rank().number() + 1) % world.n_ranks());
    let answer = world.rpc(next, |x: u32| x * 2, 21)?.wait()?;
    println!("rank {}: {:?} {answer}", world.rank(), counts.find(&42)?);
    world.barrier()?;
    Ok(())
}
"#;

/// Packs the packages, checks their contents, builds them and runs a program.
pub(crate) fn run() -> Result<Outcome> {
    let mut packages = published()?;
    let names = packages.iter().map(|(name, _)| name.as_str());
    let names = names.chain([FEATURES_OF_TESTS]);
    let mut pack = command(
        "cargo",
        ["package", "--no-verify", "--allow-dirty", "--quiet"],
    );
    process::run(pack.args(names.flat_map(|name| ["-p", name])))?;

    let folder = tempfile::tempdir()?;
    for (name, version) in &packages {
        unpack(name, version, folder.path())?;
        check(name, &folder.path().join(format!("{name}-{version}")))?;
    }
    let (_, version) = packages.first().context("no package is published")?;
    let version = version.clone();
    unpack(FEATURES_OF_TESTS, &version, folder.path())?;
    packages.push((FEATURES_OF_TESTS.to_owned(), version));
    write_user(&packages, folder.path())?;
    // All of them, without the tests of ours that are not published. Open MPI's headers serve the
    // MPI backend.
    let mut build = cargo_in(folder.path(), &["build", "--workspace"]);
    process::run(build.env("MPICC", mpi::MPICC))?;
    count_crates(folder.path())?;
    let programs = root().join("target/debug");
    let mut self_started = Command::new(programs.join("user"));
    check_output(self_started.env("PGAS_RANKS", "3"))?;
    let mut started = Command::new(programs.join("pgas-run"));
    check_output(started.args(["-n", "3"]).arg(programs.join("user")))?;
    document_without_mpi()?;
    println!("a new crate builds with the packed ones and runs on 3 ranks");
    Ok(Outcome::Passed)
}

/// Builds the documentation of the MPI backend as a server without an MPI library does. Only the
/// packages of the workspace are given the flag, so that what they depend on is there already.
fn document_without_mpi() -> Result<()> {
    let packages = ["-p", "pgas-mpi", "-p", "pgas-test-features"];
    let mut doc = command("cargo", ["doc", "--no-deps"]);
    doc.args(packages);
    doc.env("MPICC", "no-such-compiler");
    let documented = root().join("xtask/rustc-documented");
    doc.env("RUSTC_WORKSPACE_WRAPPER", documented);
    doc.env("RUSTDOCFLAGS", "--cfg pgas_docs -D warnings");
    process::run(&mut doc).map(drop)
}

/// Names and versions of the packages that are published. Fails for one that does not say what it
/// is.
pub(crate) fn published() -> Result<Vec<(String, String)>> {
    let mut metadata = command("cargo", ["metadata", "--format-version", "1", "--no-deps"]);
    let metadata = process::output(&mut metadata).context("`cargo metadata` fails")?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let mut published = Vec::new();
    for package in packages
        .iter()
        .filter(|package| package["publish"].is_null())
    {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let name = text("name");
        for key in SAID {
            ensure!(!text(key).is_empty(), "the manifest of {name} lacks {key}");
        }
        for key in ["keywords", "categories"] {
            let is_there = package[key].as_array().is_some_and(|list| !list.is_empty());
            ensure!(is_there, "the manifest of {name} lacks {key}");
        }
        let has_documentation = package["metadata"]["docs"]["rs"].is_object();
        ensure!(has_documentation, "{name} lacks [package.metadata.docs.rs]");
        published.push((name, text("version")));
    }
    Ok(published)
}

/// Unpacks a package into `folder`.
fn unpack(name: &str, version: &str, folder: &Path) -> Result<()> {
    let file = root().join(format!("target/package/{name}-{version}.crate"));
    let mut tar = Command::new("tar");
    // Files in packages have one date of all times, by which cargo would take those of today for
    // the ones that it built yesterday.
    process::run(tar.arg("xzmf").arg(file).arg("-C").arg(folder)).map(drop)
}

/// Checks the contents of an unpacked package.
fn check(name: &str, package: &Path) -> Result<()> {
    for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "src"] {
        ensure!(
            package.join(file).exists(),
            "the package of {name} lacks {file}"
        );
    }
    has_what_it_includes(&package.join("src"))?;
    let bytes = bytes_of(package)?;
    ensure!(
        bytes <= MOST_BYTES,
        "the package of {name} has {bytes} bytes, more than {MOST_BYTES}"
    );
    println!("{name}: {} KiB unpacked", bytes >> 10);
    Ok(())
}

/// Fails for a text that the documentation includes and the package lacks: a build does not miss
/// it.
fn has_what_it_includes(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            has_what_it_includes(&path)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let source = fs::read_to_string(&path)?;
            for rest in source.split("include_str!(\"").skip(1) {
                let name = rest.split('"').next().unwrap_or_default();
                let is_there = folder.join(name).exists();
                ensure!(
                    is_there,
                    "{} includes {name}, which is not packed",
                    path.display()
                );
            }
        }
    }
    Ok(())
}

fn bytes_of(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => bytes_of(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

/// As in the workspace's manifest, so that other projects' crates are built already.
const PROFILE: &str = r#"
[profile.dev]
debug = "line-tables-only"

[profile.dev.package."*"]
debug = false

[profile.dev.build-override]
codegen-units = 4
"#;

/// Writes the new crate, and the workspace in which the packages stand for those of the registry.
fn write_user(packages: &[(String, String)], folder: &Path) -> Result<()> {
    let folders: Vec<String> = packages
        .iter()
        .map(|(name, version)| format!("{name}-{version}"))
        .collect();
    let patches: Vec<String> = packages
        .iter()
        .zip(&folders)
        .map(|((name, _), folder)| format!("{name} = {{ path = {folder:?} }}\n"))
        .collect();
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = {:?}\n\n[patch.crates-io]\n{}\n{PROFILE}",
        [&["user".to_owned()][..], &folders].concat(),
        patches.concat()
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    // The versions that were tested.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    fs::copy(
        root().join("rust-toolchain.toml"),
        folder.join("rust-toolchain.toml"),
    )?;
    let version = packages.iter().find(|(name, _)| name == "pgas");
    let (_, version) = version.context("the package `pgas` is not published")?;
    fs::create_dir_all(folder.join("user/src"))?;
    fs::write(
        folder.join("user/Cargo.toml"),
        format!(
            "[package]\nname = \"user\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
             [dependencies]\npgas = \"{version}\"\n"
        ),
    )?;
    fs::write(folder.join("user/src/main.rs"), PROGRAM)?;
    Ok(())
}

/// Cargo in the folder, whose builds of other projects' crates are those of the workspace.
fn cargo_in(folder: &Path, args: &[&str]) -> Command {
    let mut cargo = command("cargo", args);
    cargo.current_dir(folder);
    cargo.env("CARGO_TARGET_DIR", root().join("target"));
    cargo
}

/// Checks the number of crates that the new crate builds.
fn count_crates(folder: &Path) -> Result<()> {
    let edges = ["-e", "normal,build", "--prefix", "none"];
    let args = [&["tree", "-p", "user"][..], &edges].concat();
    let mut tree = cargo_in(folder, &args);
    let tree = process::output(&mut tree).context("`cargo tree` fails")?;
    let mut crates: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split(" (").next())
        .collect();
    crates.sort_unstable();
    crates.dedup();
    println!(
        "{} crates with the library's default features",
        crates.len()
    );
    ensure!(
        crates.len() <= MOST_CRATES,
        "{} crates, more than {MOST_CRATES}: {}",
        crates.len(),
        crates.join(", ")
    );
    Ok(())
}

/// Checks that each of three ranks has printed its result.
fn check_output(program: &mut Command) -> Result<()> {
    let output = process::output(program).with_context(|| format!("{program:?} fails"))?;
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    let expected = [0, 1, 2].map(|rank| format!("rank {rank}: Some(3) 42"));
    if lines != expected {
        bail!("{program:?} printed {lines:?}");
    }
    Ok(())
}
