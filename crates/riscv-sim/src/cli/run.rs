//! `rae run`.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgas_riscv_sim::gdb::{self, Debugged};
use pgas_riscv_sim::linux::{Folder, LinuxConfig};
use pgas_riscv_sim::{Error, Image, Machine, MachineConfig, Outcome};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::console::{Lost, as_it_is, by_node};
use super::{Run, TROUBLE, Trouble, can_be_written, check_names, guest, tell, timed};

/// Instructions between two looks at the clock.
const STEP: u64 = 20_000_000;

/// The exit status after an interrupt, as shells have it.
const INTERRUPTED: u8 = 130;

/// Between two progress lines.
pub(super) const PROGRESS: Duration = Duration::from_secs(2);

/// `START:END`, in hexadecimal.
pub(super) fn range(text: &str) -> Result<std::ops::Range<u64>, String> {
    let number = |text: &str| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        u64::from_str_radix(digits, 16).map_err(|why| format!("{text}: {why}"))
    };
    let (start, end) = text.split_once(':').ok_or("write START:END")?;
    Ok(number(start)?..number(end)?)
}

/// What the process on each node is given, if the guest is a program of Linux; nothing else takes
/// that.
fn process(arguments: &Run, image: &Image) -> Result<Option<LinuxConfig>, Trouble> {
    let path = |paths: &[PathBuf]| paths.first().map(|path| path.display().to_string());
    let text = |texts: &[OsString]| texts.first().map(|text| text.display().to_string());
    let (guest, own) = arguments.command();
    if !image.is_linux() {
        let given = [
            ("--files", path(&arguments.files)),
            ("--files-rw", path(&arguments.files_rw)),
            ("--env", text(&arguments.env)),
            ("--segment", arguments.segment.map(|mib| mib.to_string())),
            ("--seed", arguments.seed.map(|seed| seed.to_string())),
            ("--", text(own)),
        ];
        let given = given
            .into_iter()
            .find_map(|(option, value)| Some((option, value?)));
        return match given {
            None => Ok(None),
            Some((option, value)) => {
                let guest = guest.display();
                Err(format!("{option} {value}: {guest} is no program of Linux").into())
            }
        };
    }
    for variable in &arguments.env {
        let bytes = variable.as_encoded_bytes();
        if bytes.first() == Some(&b'=') || !bytes.contains(&b'=') {
            return Err(format!("--env {}: write NAME=VALUE", variable.display()).into());
        }
    }
    let bytes = |text: &OsString| text.as_encoded_bytes().to_vec();
    let folders = |paths: &[PathBuf], is_writable| {
        let folder = move |path: &PathBuf| Folder {
            path: path.clone(),
            is_writable,
        };
        paths.iter().map(folder).collect::<Vec<_>>()
    };
    let name = guest.as_os_str().to_owned();
    Ok(Some(LinuxConfig {
        arguments: [&name].into_iter().chain(own).map(bytes).collect(),
        program: super::read(guest)?.into(),
        environment: arguments.env.iter().map(bytes).collect(),
        folders: [
            folders(&arguments.files, false),
            folders(&arguments.files_rw, true),
        ]
        .concat(),
        seed: arguments.seed.unwrap_or_default(),
        segment_bytes: (arguments.segment.unwrap_or(0) as u64) << 20,
    }))
}

pub(super) fn run(arguments: &Run) -> Result<ExitCode, Trouble> {
    let interrupted = Interrupted::listen()?;
    let image = guest(arguments.command().0, arguments.encodings.profile())?;
    let config = MachineConfig {
        n_nodes: arguments.nodes,
        cores_per_node: arguments.cores,
        ram_bytes: arguments.memory << 20,
        shared: arguments.shared.clone(),
        profile: arguments.encodings.profile(),
        compare_swap: arguments.cas.into(),
        quantum: arguments.quantum,
        linux: process(arguments, &image)?,
    };
    if let (Some(path), false) = (&arguments.trace, arguments.timed) {
        let why = "without a clock nothing has a time: add --timed";
        return Err(format!("--trace {}: {why}", path.display()).into());
    }
    if let Some(shared) = &arguments.shared {
        let ram = config.ram();
        if shared.start < ram.start || shared.end > ram.end || shared.is_empty() {
            let (std::ops::Range { start, end }, memory) = (shared, ram);
            let why = format!("no part of the memory, which is {memory:x?}");
            return Err(format!("--shared {start:x}:{end:x}: {why}").into());
        }
    }
    check_outputs(arguments)?;
    let mut machine = Machine::new(&config, &image)?;
    set_consoles(&mut machine, &config, &interrupted.lost);
    let (outcome, mut machine) = if arguments.timed {
        timed::run(machine, arguments, &interrupted)?
    } else {
        let outcome = match debugged(&mut machine, arguments, &interrupted)? {
            true => to_the_end(&mut machine, arguments, &interrupted),
            false => Ok(None),
        };
        write_stats(arguments, &machine.stats())?;
        (outcome, machine)
    };
    let outcome = outcome?;
    // The ends of lines that are held back are written now.
    machine.set_console(Box::new(|_, _| {}));
    machine.set_error_console(Box::new(|_, _| {}));
    interrupted.lost.note(std::io::stdout().flush());
    match interrupted.lost.why() {
        None => Ok(exit_code(outcome, &machine)),
        Some(why) => Err(format!("standard output: {why}").into()),
    }
}

fn exit_code(outcome: Option<Outcome>, machine: &Machine) -> ExitCode {
    match outcome {
        None => {
            tell("interrupted");
            ExitCode::from(INTERRUPTED)
        }
        Some(Outcome::Success) => ExitCode::SUCCESS,
        Some(Outcome::Failure { node, code }) => {
            tell(format_args!("node {node} failed with code {code}"));
            if let Some(path) = machine.refused(node) {
                let path = path.display();
                tell(format_args!(
                    "it was refused {path}: --files grants folders to read, --files-rw to write"
                ));
            }
            // A status has eight bits; what does not fit must not look like success.
            ExitCode::from(u8::try_from(code).unwrap_or(TROUBLE - 1))
        }
    }
}

/// Whether the files that the run writes can be written, and are not read.
fn check_outputs(arguments: &Run) -> Result<(), Trouble> {
    let outputs = [arguments.stats.as_deref(), arguments.trace.as_deref()];
    let outputs: Vec<_> = outputs.into_iter().flatten().collect();
    let inputs = [Some(arguments.command().0), arguments.config.as_deref()];
    let inputs: Vec<_> = inputs.into_iter().flatten().collect();
    check_names(&outputs, &inputs)?;
    outputs.into_iter().try_for_each(can_be_written)
}

/// What guests write goes to this process's own outputs.
fn set_consoles(machine: &mut Machine, config: &MachineConfig, lost: &Lost) {
    // Nobody can be told that the standard error is lost.
    let unheard = Lost::default();
    let lost = lost.clone();
    if config.linux.is_some() && config.n_nodes > 1 {
        let n_nodes = config.n_nodes;
        machine.set_console(by_node(n_nodes, std::io::stdout(), lost));
        machine.set_error_console(by_node(n_nodes, std::io::stderr(), unheard));
    } else {
        machine.set_console(as_it_is(std::io::stdout(), lost));
        machine.set_error_console(as_it_is(std::io::stderr(), unheard));
    }
}

/// Lets a debugger run the machine first, if one is asked for. Says whether the run is to go on.
pub(super) fn debugged(
    run: &mut dyn Debugged,
    arguments: &Run,
    interrupted: &Interrupted,
) -> Result<bool, Trouble> {
    let Some(port) = arguments.gdb else {
        return Ok(true);
    };
    if arguments.gdb_node >= arguments.nodes {
        let (node, nodes) = (arguments.gdb_node, arguments.nodes);
        return Err(format!("--gdb-node {node}: there are {nodes} nodes").into());
    }
    let listener = TcpListener::bind(("127.0.0.1", port));
    let listener = listener.map_err(|why| format!("--gdb {port}: {why}"))?;
    // Whoever waits for GDB looks at no flag.
    interrupted.at_once.store(true, Ordering::Relaxed);
    if interrupted.is_asked() {
        return Ok(false);
    }
    let address = listener.local_addr()?;
    tell(format_args!("waiting for GDB at {address}"));
    let (connection, _) = listener.accept()?;
    let goes_on = gdb::serve(run, arguments.gdb_node, connection)?;
    interrupted.at_once.store(false, Ordering::Relaxed);
    Ok(goes_on)
}

/// Whether somebody asked the run to end, by an interrupt from the terminal or from whoever started
/// it. A second time, [`AT_ONCE`] later, ends the process at once. A run whose output is lost ends,
/// too.
pub(super) struct Interrupted {
    asked: Arc<AtomicBool>,
    /// Whether the first time ends the process, too.
    at_once: Arc<AtomicBool>,
    lost: Lost,
}

/// Signals that are nearer to each other are one request: `timeout` sends one to the process, and
/// one to all of its group.
const AT_ONCE: Duration = Duration::from_millis(500);

impl Interrupted {
    fn listen() -> Result<Self, Trouble> {
        let asked = Arc::new(AtomicBool::new(false));
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let listener = std::thread::Builder::new().name("signals".to_owned());
        let heard = Arc::clone(&asked);
        let at_once = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&at_once);
        listener.spawn(move || {
            let mut first = None;
            for signal in signals.forever() {
                heard.store(true, Ordering::Relaxed);
                let again = first.get_or_insert_with(Instant::now).elapsed() >= AT_ONCE;
                if again || ends.load(Ordering::Relaxed) {
                    drop(emulate_default_handler(signal));
                }
            }
        })?;
        let lost = Lost::default();
        Ok(Self {
            asked,
            at_once,
            lost,
        })
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) || self.lost.why().is_some()
    }
}

/// Writes what was counted, if somebody wants it.
pub(super) fn write_stats(arguments: &Run, stats: &impl serde::Serialize) -> Result<(), Trouble> {
    let Some(path) = &arguments.stats else {
        return Ok(());
    };
    let stats = serde_json::to_string_pretty(stats)?;
    std::fs::write(path, stats + "\n").map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(())
}

/// Runs until the end, or until somebody interrupts: that is no outcome.
fn to_the_end(
    machine: &mut Machine,
    arguments: &Run,
    interrupted: &Interrupted,
) -> Result<Option<Outcome>, Trouble> {
    let limit = arguments.max_instructions.unwrap_or(u64::MAX);
    let start = Instant::now();
    let mut said = start;
    let shows_progress = !arguments.quiet && std::io::stderr().is_terminal();
    loop {
        let left = limit.saturating_sub(machine.n_steps());
        if left == 0 {
            return Err(located(Error::NoEnd(limit), machine));
        }
        match machine.run_some(left.min(STEP)) {
            Ok(None) if interrupted.is_asked() => return Ok(None),
            Ok(None) => {}
            Ok(Some(outcome)) => return Ok(Some(outcome)),
            Err(why) => return Err(located(why, machine)),
        }
        if shows_progress && said.elapsed() >= PROGRESS {
            said = Instant::now();
            progress(machine, start.elapsed());
        }
    }
}

/// The error, with the option that sets the limit, and with where the guests are if that is the
/// question.
pub(super) fn located(why: Error, machine: &Machine) -> Trouble {
    let location = machine.location();
    match why {
        Error::NoEnd(limit) => format!("--max-instructions {limit}: {why}; {location}").into(),
        Error::AllWait => format!("{why}; {location}").into(),
        _ => why.into(),
    }
}

pub(super) fn progress(machine: &Machine, elapsed: Duration) {
    let nodes = machine.nodes();
    let ended = nodes
        .iter()
        .filter(|node| node.exit_code().is_some())
        .count();
    let n_millions = machine.n_instructions() / 1_000_000;
    let per_second = n_millions / elapsed.as_secs().max(1);
    tell(format_args!(
        "{n_millions} million instructions, {per_second} million a second, {ended} of {} nodes ended",
        nodes.len()
    ));
}
