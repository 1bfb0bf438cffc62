//! Every argument of `rae`, with the extremes of numbers and texts.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use pgas_testkit::extremes::{Program, try_extremes};
use pgas_testkit::job;

/// A guest that ends at once.
const GUEST: &str = "_start: li a7, 93\n li a0, 0\n ecall\n";

fn try_command(
    before: &'static str,
    skipped: &'static [&'static str],
    options: Vec<(&'static str, OsString)>,
    operands: Vec<OsString>,
) {
    try_extremes(&Program {
        path: PathBuf::from(env!("CARGO_BIN_EXE_rae")),
        before: vec![before],
        options,
        operands,
        skipped,
        codes: &[2, 125],
    });
}

#[test]
fn an_argument_of_a_run_is_one_to_work_with_or_is_refused_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let guest = folder.path().join("guest.s");
    fs::write(&guest, GUEST).unwrap();
    let usual = |timed: &[(&'static str, &str)]| {
        let usual = [&[("--nodes", "2"), ("--memory", "1")], timed].concat();
        let usual = usual.into_iter().map(|(name, value)| (name, value.into()));
        usual.collect()
    };
    // The program waits for GDB, and without a clock nothing is configured.
    let untimed = &["--gdb", "--gdb-node", "--config"];
    let operands = vec![guest.into()];
    try_command("run", untimed, usual(&[]), operands.clone());
    let timed = &["--gdb", "--gdb-node"];
    try_command("run", timed, usual(&[("--timed", "")]), operands);
}

#[test]
fn an_argument_of_the_assembler_and_of_its_inverse_is_one_to_work_with_or_is_refused_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let guest = folder.path().join("guest.s");
    fs::write(&guest, GUEST).unwrap();
    let output = folder.path().join("guest");
    try_command(
        "asm",
        &[],
        vec![("--output", output.into())],
        vec![guest.clone().into()],
    );
    try_command("disasm", &[], vec![], vec![guest.into()]);
}

#[test]
fn a_port_for_gdb_that_is_taken_is_told_with_its_option() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let guest = folder.path().join("guest.s");
    fs::write(&guest, GUEST).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rae"));
    command
        .args(["run", "--memory=1"])
        .arg(format!("--gdb={port}"));
    command.arg(&guest);
    let ended = job::start(command).end();
    assert_eq!(ended.code(), 125, "{ended:?}");
    let expected = format!("rae: --gdb {port}: ");
    assert!(ended.stderr.starts_with(&expected), "{ended:?}");
}

#[test]
fn a_node_for_gdb_that_is_not_there_is_refused_before_anybody_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let guest = folder.path().join("guest.s");
    fs::write(&guest, GUEST).unwrap();
    for node in [2, usize::MAX] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rae"));
        command.args(["run", "--nodes=2", "--memory=1", "--gdb=0"]);
        command.arg(format!("--gdb-node={node}")).arg(&guest);
        let ended = job::start(command).end();
        assert_eq!(ended.code(), 125, "{ended:?}");
        let expected = format!("rae: --gdb-node {node}: ");
        assert!(ended.stderr.starts_with(&expected), "{ended:?}");
    }
}
