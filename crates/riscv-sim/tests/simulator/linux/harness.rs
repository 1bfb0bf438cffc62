//! The program of these tests, built once, and runs of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, mpsc};

use pgas_riscv_sim::linux::{Folder, LinuxConfig};
use pgas_riscv_sim::machine::Stats;
use pgas_riscv_sim::{Error, Image, Machine, MachineConfig, Outcome};

const TARGET: &str = "riscv64gc-unknown-linux-gnu";

pub(super) struct Program {
    pub(super) _folder: tempfile::TempDir,
    pub(super) path: PathBuf,
    pub(super) file: Arc<[u8]>,
    pub(super) image: Image,
}

#[expect(clippy::print_stderr, reason = "a test that is not run says so")]
/// The program, built once; nothing where there is no standard library for the target, as where
/// there is no rustup.
pub(super) static PROGRAM: LazyLock<Option<Program>> = LazyLock::new(|| {
    let libraries = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()
        .unwrap();
    let libraries = String::from_utf8(libraries.stdout).unwrap();
    if !Path::new(libraries.trim()).exists() {
        eprintln!("not run: no standard library for {TARGET}; `cargo xtask setup` installs it");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let result = Command::new("rustc")
        .args(["--edition=2024", "--target", TARGET, "-o"])
        .arg(&path)
        .args([
            "-Clinker=riscv64-linux-gnu-gcc",
            "-Ctarget-feature=+crt-static",
        ])
        .args(["-Cstrip=debuginfo", "-Copt-level=1"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulator/linux/program.rs"))
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&result.stderr);
    assert!(
        result.status.success(),
        "`cargo xtask setup` installs gcc-riscv64-linux-gnu: {message}"
    );
    let file: Arc<[u8]> = std::fs::read(&path).unwrap().into();
    let image = Image::from_elf(&file).unwrap();
    assert!(image.is_linux());
    Some(Program {
        _folder: folder,
        path,
        file,
        image,
    })
});

/// The same program for this host.
pub(super) fn native(folder: &Path) -> PathBuf {
    let path = folder.join("native");
    let result = Command::new("rustc")
        .args(["--edition=2024", "-Copt-level=1", "-o"])
        .arg(&path)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulator/linux/program.rs"))
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{message}");
    path
}

/// What a run gave: how it ended, what each node wrote to its two outputs, and what was counted.
pub(super) struct Ran {
    pub(super) outcome: Result<Outcome, Error>,
    pub(super) output: Vec<String>,
    pub(super) errors: Vec<String>,
    pub(super) stats: Stats,
}

pub(super) struct Given<'a> {
    pub(super) n_nodes: usize,
    pub(super) seed: u64,
    pub(super) segment_bytes: u64,
    pub(super) folders: Vec<Folder>,
    pub(super) arguments: &'a [&'a str],
}

pub(super) fn given<'a>(n_nodes: usize, arguments: &'a [&'a str]) -> Given<'a> {
    Given {
        n_nodes,
        seed: 0,
        segment_bytes: 0,
        folders: Vec::new(),
        arguments,
    }
}

pub(super) fn machine(given: &Given<'_>, image: &Image) -> Machine {
    let arguments = ["program"].iter().chain(given.arguments);
    let config = MachineConfig {
        n_nodes: given.n_nodes,
        ram_bytes: 32 << 20,
        linux: Some(LinuxConfig {
            arguments: arguments.map(|text| text.as_bytes().to_vec()).collect(),
            program: Arc::clone(&PROGRAM.as_ref().unwrap().file),
            environment: vec![b"COLOUR=blue".to_vec()],
            folders: given.folders.clone(),
            seed: given.seed,
            segment_bytes: given.segment_bytes,
        }),
        ..MachineConfig::default()
    };
    Machine::new(&config, image).unwrap()
}

pub(super) fn run(given: &Given<'_>) -> Option<Ran> {
    let image = &PROGRAM.as_ref()?.image;
    let mut machine = machine(given, image);
    let (sender, receiver) = mpsc::channel();
    let errors = sender.clone();
    machine.set_console(Box::new(move |node, bytes| {
        sender.send((0, node, bytes.to_vec())).unwrap();
    }));
    machine.set_error_console(Box::new(move |node, bytes| {
        errors.send((1, node, bytes.to_vec())).unwrap();
    }));
    let outcome = machine.run(20_000_000);
    let stats = machine.stats();
    drop(machine);
    let mut written = [
        vec![Vec::new(); given.n_nodes],
        vec![Vec::new(); given.n_nodes],
    ];
    for (stream, node, bytes) in receiver {
        written[stream][node].extend(bytes);
    }
    let [output, errors] = written.map(|nodes| {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        nodes.into_iter().map(text).collect()
    });
    Some(Ran {
        outcome,
        output,
        errors,
        stats,
    })
}

/// Runs it, and looks at what every node wrote.
pub(super) fn prints(given: &Given<'_>, expected: &str) {
    let Some(ran) = run(given) else { return };
    assert_eq!(ran.outcome.unwrap(), Outcome::Success, "{:?}", ran.errors);
    for output in ran.output {
        assert_eq!(output, expected);
    }
}
