//! What `rae` is asked to do.

mod console;
mod containers;
mod jobs;
mod paper;
mod plots;
mod report;
mod run;
mod timed;
mod translate;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use pgas_riscv_sim::hart::CompareSwapForm;
use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::machine::{MAX_NODES, MAX_QUANTUM};

/// The exit status when the simulator, not the guest, has something to say.
pub(crate) const TROUBLE: u8 = 125;

/// Why nothing came of it.
pub(crate) type Trouble = Box<dyn std::error::Error>;

/// A simulator of RISC-V nodes with remote loads, stores and atomics (xBGAS and RAE).
#[derive(Debug, Parser)]
#[command(name = "rae", version, arg_required_else_help = false)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a guest (an ELF file, or assembly in a file that ends in .s) on every node. A static
    /// program of Linux runs as one process a node.
    Run(Box<Run>),
    /// Write the instructions of an ELF file, or of hexadecimal words.
    Disasm(Disasm),
    /// Assemble a file into an ELF guest.
    Asm(Asm),
    /// Run the workloads of the RAE paper, and show its figures beside what comes out.
    Paper(paper::Paper),
    /// Show what operations of containers take with atomics by hardware and by software, and how
    /// they scale.
    Containers(containers::Containers),
}

/// Which encodings of xBGAS count.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ProfileName {
    /// Specification 0.7 and the atomics of the RAE paper.
    #[default]
    Rae2020,
    /// Specification 2.0.0 and the later atomics.
    Xbgas2,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Rae2020 => Self::Rae2020,
            ProfileName::Xbgas2 => Self::Xbgas2,
        }
    }
}

/// What of xBGAS a command knows.
#[derive(Clone, Copy, Debug, Args)]
struct Encodings {
    /// Which encodings of xBGAS count, and which names of its instructions.
    #[arg(long, value_enum, default_value_t)]
    profile: ProfileName,
}

impl Encodings {
    fn profile(self) -> Profile {
        self.profile.into()
    }
}

/// Where a compare-and-swap has its new value.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum CasForm {
    /// In this node's word at the same address, as in the authors' simulator.
    #[default]
    LocalWord,
    /// In rs2, with the value to expect in rd, as in Zacas.
    Registers,
}

impl From<CasForm> for CompareSwapForm {
    fn from(form: CasForm) -> Self {
        match form {
            CasForm::LocalWord => Self::LocalWord,
            CasForm::Registers => Self::Registers,
        }
    }
}

#[derive(Debug, Args)]
struct Run {
    /// The guest: an ELF file, or assembly in a file that ends in .s.
    #[arg(required_unless_present = "arguments")]
    guest: Option<PathBuf>,
    /// How many nodes.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = nodes)]
    nodes: usize,
    /// How many cores a node has.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = cores)]
    cores: usize,
    /// Memory of a node, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = mebibytes)]
    memory: usize,
    #[command(flatten)]
    encodings: Encodings,
    /// Where a compare-and-swap has its new value.
    #[arg(long, value_enum, default_value_t)]
    cas: CasForm,
    /// The addresses that other nodes reach, as START:END in hexadecimal; all memory if not given.
    #[arg(long, value_name = "START:END", value_parser = run::range)]
    shared: Option<std::ops::Range<u64>>,
    /// How many instructions a core runs before it is the next one's turn, at most 1000000.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=MAX_QUANTUM))]
    quantum: u64,
    /// Give up after this many instructions of all nodes together; each element that a bulk
    /// transfer moves counts as one.
    #[arg(long, value_name = "N")]
    max_instructions: Option<u64>,
    /// Count cycles: caches, directory, NIC, network and memory take their time.
    #[arg(long)]
    timed: bool,
    /// The parameters of the timed machine, a TOML file; what it leaves out is as in the RAE paper.
    #[arg(long, value_name = "FILE", requires = "timed")]
    config: Option<PathBuf>,
    /// Write what happened when into this file, for Perfetto (ui.perfetto.dev); only with --timed
    /// does anything have a time.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write what was counted into this file, as JSON.
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Wait for GDB at this port of the local host (`target remote :PORT`) and let it run the
    /// machine: each core is a thread, with the memory of its node, and all stop together.
    /// Watchpoints are for all accesses, other nodes' among them.
    #[arg(long, value_name = "PORT")]
    gdb: Option<u16>,
    /// The node that GDB shows first.
    #[arg(long, value_name = "NODE", default_value_t = 0, requires = "gdb")]
    gdb_node: usize,
    /// Say nothing on the way.
    #[arg(long)]
    quiet: bool,
    /// A folder whose files a program of Linux may read, under the same names; may be given several
    /// times.
    #[arg(long, value_name = "FOLDER")]
    files: Vec<PathBuf>,
    /// As --files, and files in it may be made, written and removed.
    #[arg(long, value_name = "FOLDER")]
    files_rw: Vec<PathBuf>,
    /// A variable of the environment of a program of Linux, as NAME=VALUE; may be given several
    /// times. There are no others.
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<OsString>,
    /// MiB of a program of Linux that other nodes reach, at the same address on each; all of its
    /// memory if not given.
    #[arg(long, value_name = "MIB", value_parser = mebibytes)]
    segment: Option<usize>,
    /// What the random bytes of programs of Linux come from; 0 if not given.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Arguments of a program of Linux. If no guest stands before the --, the first of these is it,
    /// as where cargo appends a program and its arguments to a `runner`.
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

impl Run {
    /// The guest and its arguments.
    fn command(&self) -> (&Path, &[OsString]) {
        match (&self.guest, self.arguments.split_first()) {
            (Some(guest), _) => (guest, &self.arguments),
            (None, Some((guest, arguments))) => (Path::new(guest), arguments),
            (None, None) => (Path::new(""), &[]),
        }
    }
}

#[derive(Debug, Args)]
struct Disasm {
    /// An ELF file, or hexadecimal words of instructions.
    #[arg(required = true, value_name = "FILE|WORD")]
    what: Vec<OsString>,
    #[command(flatten)]
    encodings: Encodings,
}

#[derive(Debug, Args)]
struct Asm {
    /// The source.
    source: PathBuf,
    /// The ELF file to be written.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    encodings: Encodings,
}

impl Cli {
    /// Does it, and gives the exit status.
    pub(crate) fn execute(self) -> Result<ExitCode, Trouble> {
        match self.command {
            Command::Run(arguments) => run::run(&arguments),
            Command::Disasm(arguments) => translate::disassemble(&arguments),
            Command::Asm(arguments) => translate::assemble(&arguments),
            Command::Paper(arguments) => paper::paper(&arguments),
            Command::Containers(arguments) => containers::containers(&arguments),
        }
    }
}

fn nodes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=MAX_NODES) => Ok(n),
        _ => Err(format!("a machine has 1 to {MAX_NODES} nodes")),
    }
}

fn cores(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=64) => Ok(n),
        _ => Err("a node has 1 to 64 cores".to_owned()),
    }
}

/// The memory of a node, of which many make up the simulator's own.
fn mebibytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=4096) => Ok(n),
        _ => Err("a node has 1 to 4096 MiB, which is 4 GiB".to_owned()),
    }
}

/// Tells people something. A failed write cannot be reported.
pub(crate) fn tell(text: impl Display) {
    writeln!(io::stderr(), "rae: {text}").ok();
}

/// The error of a write to the standard output.
fn printed(result: io::Result<()>) -> Result<(), Trouble> {
    result.map_err(|why| format!("standard output: {why}").into())
}

/// Reads a file whole. What is no regular file may have no end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.is_file() {
        return std::fs::read(path);
    }
    Err(io::Error::other("not a regular file"))
}

/// As [`read`], of text.
fn read_text(path: &Path) -> Result<String, Trouble> {
    Ok(String::from_utf8(read(path)?)?)
}

/// Refuses outputs that are one of the inputs, or one file.
fn check_names(outputs: &[&Path], inputs: &[&Path]) -> Result<(), Trouble> {
    match pgas_command_line::overwritten(outputs, inputs) {
        None => Ok(()),
        Some((output, other)) => {
            let (output, other) = (output.display(), other.display());
            Err(format!("{output}: the output is the same file as {other}").into())
        }
    }
}

/// A file that is written after the run can be written now: it is made, or left as it is.
fn can_be_written(path: &Path) -> Result<(), Trouble> {
    let opened = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    opened.map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(())
}

/// Reads a guest: assembly if the file's name ends in `.s`, otherwise ELF.
fn guest(path: &Path, profile: Profile) -> Result<pgas_riscv_sim::Image, Trouble> {
    let name = path.display();
    let is_assembly = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("s"));
    let bytes = read(path).map_err(|why| format!("{name}: {why}"))?;
    let image = if is_assembly {
        let text = String::from_utf8(bytes).map_err(|why| format!("{name}: {why}"))?;
        pgas_riscv_sim::asm::assemble(&text, profile)
    } else {
        pgas_riscv_sim::Image::from_elf(&bytes)
    };
    image.map_err(|why| format!("{name}: {why}").into())
}
