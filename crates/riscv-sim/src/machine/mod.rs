//! Nodes joined by a network without a clock: every remote operation is done at once, and nodes
//! take turns in a fixed order.
//!
//! That order makes runs repeatable: a node runs for a fixed number of instructions, then the next
//! one does.

#![expect(
    clippy::cast_possible_truncation,
    reason = "the low bytes of a word are what is meant"
)]

mod bulk;
pub(crate) mod debug;
mod fault;
mod host;
mod idle;
mod locks;
mod node;
mod node_set;
mod processes;
mod sleep;
mod stats;
mod transfer;

pub use debug::{Access, Debugger, Halt, Place, Watched, Watchpoint};
pub use fault::Fault;
pub use node::Node;
pub use stats::{NodeStats, Region, Stats};

use std::ops::Range;

use node_set::NodeSet;

use crate::elf::Image;
use crate::error::{Error, Result};
use crate::hart::{Cause, CompareSwapForm, Hart, Stop, Trap};
use crate::isa::Profile;
use crate::linux::{LinuxConfig, PROCESS_BASE, Process};
use crate::memory::{RAM_BASE, Ram};
use crate::remote::{Action, RemoteRequest};
use crate::timed::time::{Clock, Time};

/// Instructions that a core may do beyond its turn while it holds a reservation: a loop of few
/// instructions around one, of which the architecture promises that it succeeds at last, fits into
/// it with room.
const GRACE: u64 = 64;

/// The clock of nodes whose time nobody models: that of the RAE paper's cores.
const CLOCK_MHZ: u32 = 2000;

/// The most nodes that a machine may have.
pub const MAX_NODES: usize = 1024;

/// The most instructions of a turn. A run can be given up between turns alone.
pub const MAX_QUANTUM: u64 = 1_000_000;

/// How a machine is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineConfig {
    /// How many nodes.
    pub n_nodes: usize,
    /// How many cores a node has. All start at the guest's entry with the same registers, `e10`
    /// (the node's number) and `e11` (how many nodes) among them; `mhartid` is the core's number in
    /// its node. A node ends when one of its cores ends it.
    pub cores_per_node: usize,
    /// The memory of a node, in bytes.
    pub ram_bytes: usize,
    /// The addresses that other nodes may reach, the same on every node; all memory if not given.
    pub shared: Option<Range<u64>>,
    /// Which encodings count.
    pub profile: Profile,
    /// Where the new value of a compare-and-swap is.
    pub compare_swap: CompareSwapForm,
    /// How many instructions a core runs before it is the next one's turn, at most
    /// [`MAX_QUANTUM`].
    pub quantum: u64,
    /// The guest is a program of Linux, and is given this.
    pub linux: Option<LinuxConfig>,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            n_nodes: 6,
            cores_per_node: 1,
            ram_bytes: 64 << 20,
            shared: None,
            profile: Profile::default(),
            compare_swap: CompareSwapForm::default(),
            quantum: 1000,
            linux: None,
        }
    }
}

impl MachineConfig {
    /// Whether there is memory for one more node: what cannot be had would else end the process.
    fn check_memory(&self, node: usize) -> Result<()> {
        let n_bytes = self.ram_bytes;
        Vec::<u8>::new().try_reserve_exact(n_bytes).map_err(|why| {
            let n_nodes = self.n_nodes;
            Error::Config(format!(
                "node {node} of {n_nodes} cannot have {n_bytes} bytes of memory: {why}"
            ))
        })
    }

    /// The addresses of a node's memory.
    #[must_use]
    pub fn ram(&self) -> Range<u64> {
        let start = match self.linux {
            None => RAM_BASE,
            Some(_) => PROCESS_BASE,
        };
        start..start + self.ram_bytes as u64
    }

    /// The addresses that other nodes may reach, if not all.
    fn shared(&self) -> Option<Range<u64>> {
        let segment = || self.linux.as_ref()?.segment(&self.ram());
        self.shared.clone().or_else(segment)
    }

    fn validate(&self) -> Result<()> {
        if !(1..=MAX_NODES).contains(&self.n_nodes) {
            return Err(Error::Config(format!(
                "a machine has 1 to {MAX_NODES} nodes, not {}",
                self.n_nodes
            )));
        }
        if !(1..=64).contains(&self.cores_per_node) {
            return Err(Error::Config(format!(
                "a node has 1 to 64 cores, not {}",
                self.cores_per_node
            )));
        }
        if self.ram_bytes as u64 > 1 << 32 {
            let what = "a node has at most 4 GiB of memory";
            return Err(Error::Config(what.to_owned()));
        }
        if !(1..=MAX_QUANTUM).contains(&self.quantum) {
            return Err(Error::Config(format!(
                "a core runs 1 to {MAX_QUANTUM} instructions in its turn, not {}",
                self.quantum
            )));
        }
        if self.linux.is_some() && self.cores_per_node != 1 {
            return Err(Error::Config(format!(
                "a process of Linux has one core, not {}",
                self.cores_per_node
            )));
        }
        let ram = self.ram();
        if let Some(linux) = &self.linux {
            linux.check_segment(&ram)?;
        }
        match &self.shared() {
            Some(shared)
                if shared.start < ram.start || shared.end > ram.end || shared.is_empty() =>
            {
                Err(Error::Config(format!(
                    "the shared segment {shared:#x?} does not lie in memory, which is {ram:#x?}"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every node ended with success.
    Success,
    /// A node ended with failure; the run ends with it.
    Failure {
        /// The node.
        node: usize,
        /// Its code, not 0.
        code: u64,
    },
}

/// What a guest writes, and who wrote it.
pub type Console = Box<dyn FnMut(usize, &[u8])>;

/// Nodes and what joins them.
pub struct Machine {
    nodes: Vec<Node>,
    /// The nodes' processes, if the guest is a program of Linux.
    processes: Vec<Process>,
    /// How long a cycle takes; without a clock an instruction takes one.
    cycle: Time,
    shared: Range<u64>,
    quantum: u64,
    image: Image,
    fromhost: Option<u64>,
    tohost: Option<u64>,
    /// Counts what was written to memories through the network, and what told a core something
    /// else.
    n_written: u64,
    /// Who sleeps, and what time it is for them.
    sleepers: sleep::Sleepers,
    lock_waits: locks::LockWaits,
    /// Nodes whose turn comes, in their order: those that sleep or have ended may be missing.
    awake: NodeSet,
    /// Instructions of all turns, looks of processes that wait, and elements of bulk transfers.
    n_executed: u64,
    /// How often processes that wait have looked whether they still do.
    n_asked: u64,
    moved: bulk::Moved,
    /// How many cores have a reservation through the network.
    n_reservations: usize,
    heap_start: u64,
    console: Console,
    /// Where errors go that programs of Linux write, if not there.
    errors: Option<Console>,
    /// Whom it stops for.
    debugger: Option<Box<Debugger>>,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("n_nodes", &self.nodes.len())
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// A machine whose nodes have all loaded `image`. What guests write goes nowhere until
    /// [`set_console`](Self::set_console).
    ///
    /// # Errors
    /// [`Error::Config`] if it cannot be built so, [`Error::OutsideMemory`] if the guest does not
    /// fit.
    pub fn new(config: &MachineConfig, image: &Image) -> Result<Self> {
        config.validate()?;
        let mut nodes = (0..config.n_nodes)
            .map(|number| {
                config.check_memory(number)?;
                Node::new(number, config, image)
            })
            .collect::<Result<Vec<Node>>>()?;
        let mut processes = Vec::new();
        if let Some(linux) = &config.linux {
            for (number, Node { harts, ram, .. }) in nodes.iter_mut().enumerate() {
                let process = Process::new(number, image, linux, &mut harts[0], ram)?;
                processes.push(process);
            }
        }
        // What a program of Linux calls so is its own.
        let host_word = |name| match config.linux {
            None => image.address_of(name),
            Some(_) => None,
        };
        let end_of_image = image.segments.iter().map(|s| s.address + s.n_bytes).max();
        Ok(Self {
            nodes,
            processes,
            cycle: Clock::from_mhz(CLOCK_MHZ).period(),
            shared: config.shared().unwrap_or(config.ram()),
            quantum: config.quantum,
            fromhost: host_word("fromhost"),
            tohost: host_word("tohost"),
            n_written: 0,
            sleepers: sleep::Sleepers::default(),
            lock_waits: locks::LockWaits::default(),
            awake: NodeSet::of_all(config.n_nodes),
            n_executed: 0,
            n_asked: 0,
            moved: bulk::Moved::default(),
            n_reservations: 0,
            heap_start: end_of_image.unwrap_or(RAM_BASE).next_multiple_of(4096),
            image: image.clone(),
            console: Box::new(|_, _| {}),
            errors: None,
            debugger: None,
        })
    }

    /// What is called with what a node's guest writes.
    pub fn set_console(&mut self, console: Console) {
        self.console = console;
    }

    /// What is called with what a process of Linux writes to its output for errors; without it that
    /// goes the same way as all else.
    pub fn set_error_console(&mut self, console: Console) {
        self.errors = Some(console);
    }

    /// Sets how many cycles pass in a microsecond, which the clocks of Linux show: of whole
    /// picoseconds, as on the timed machine.
    pub fn set_clock_mhz(&mut self, mhz: u32) {
        self.cycle = Clock::from_mhz(mhz).period();
    }

    /// The nodes, in their order.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node, to be looked into or changed.
    ///
    /// # Panics
    /// If there is none of that number.
    #[track_caller]
    pub fn node_mut(&mut self, node: usize) -> &mut Node {
        &mut self.nodes[node]
    }

    /// One of a node's cores, and the node's memory.
    pub(crate) fn hart_and_ram(&mut self, node: usize, core: usize) -> (&mut Hart, &mut Ram) {
        let Node { harts, ram, .. } = &mut self.nodes[node];
        (&mut harts[core], ram)
    }

    /// What was counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            nodes: self.nodes.iter().map(Node::stats).collect(),
        }
    }

    /// Instructions that all cores completed.
    #[must_use]
    pub fn n_instructions(&self) -> u64 {
        self.nodes.iter().map(Node::n_instructions).sum()
    }

    /// What a limit of instructions counts: also each look of a process of Linux that waits, and
    /// each element that a bulk transfer moves.
    #[must_use]
    pub fn n_steps(&self) -> u64 {
        let others = self.n_asked.saturating_add(self.moved.n_elements);
        self.n_instructions().saturating_add(others)
    }

    /// Runs until every node ended, or one failed.
    ///
    /// # Errors
    /// [`Error::Fault`] if a guest traps and has no handler; [`Error::NoEnd`] after about
    /// `max_instructions` of all cores; [`Error::AllWait`] if nobody can go on.
    pub fn run(&mut self, max_instructions: u64) -> Result<Outcome> {
        loop {
            if let Some(outcome) = self.run_some(max_instructions)? {
                return Ok(outcome);
            }
            if self.n_steps() >= max_instructions {
                return Err(Error::NoEnd(max_instructions));
            }
        }
    }

    /// Where the first nodes are that did not end, for people.
    #[must_use]
    pub fn location(&self) -> String {
        let unfinished = self.nodes.iter().enumerate();
        let unfinished = unfinished.filter(|(_, node)| node.exit_code().is_none());
        let mut cores = unfinished
            .flat_map(|(number, node)| (0..).zip(&node.harts).map(move |(k, it)| (number, k, it)));
        let several = self.nodes.iter().any(|node| node.harts.len() > 1);
        let place = |(number, core, hart): (usize, usize, &Hart)| {
            let pc = hart.pc();
            let core = if several {
                format!(", core {core},")
            } else {
                String::new()
            };
            let symbol = self.image.symbol_at(pc);
            let symbol = symbol.map(|(name, offset)| format!(" <{name}+{offset:#x}>"));
            format!(
                "node {number}{core} is at {pc:#x}{}",
                symbol.unwrap_or_default()
            )
        };
        let mut places: Vec<String> = cores.by_ref().take(4).map(place).collect();
        match cores.count() {
            0 => {}
            n => places.push(format!("{n} more did not end")),
        }
        places.join(", ")
    }

    /// Runs as [`run`](Self::run) does, but at most about `n_instructions`; `None` if it did not
    /// end.
    ///
    /// # Errors
    /// As [`run`](Self::run), without [`Error::NoEnd`].
    pub fn run_some(&mut self, n_instructions: u64) -> Result<Option<Outcome>> {
        let end = self.n_executed.saturating_add(n_instructions);
        while self.n_executed < end {
            let (mut first, mut ran) = (0, false);
            while let Some(node) = self.awake.next(first) {
                first = node + 1;
                ran = true;
                if let Some(code) = self.turns(node)? {
                    self.awake.remove(node);
                    if code != 0 {
                        return Ok(Some(Outcome::Failure { node, code }));
                    }
                }
            }
            if !ran && self.sleepers.are_none() {
                return Ok(Some(Outcome::Success));
            }
            self.end_of_round(ran)?;
            if self.lock_waits.take_pause() {
                break;
            }
        }
        Ok(None)
    }

    /// The turns of a node's cores; its code, if it has ended.
    fn turns(&mut self, node: usize) -> Result<Option<u64>> {
        let before = self.nodes[node].n_instructions();
        for core in 0..self.nodes[node].harts.len() {
            if self.nodes[node].exit_code().is_some() {
                break;
            }
            self.turn(node, core)?;
        }
        self.n_executed += self.nodes[node].n_instructions() - before;
        Ok(self.nodes[node].exit_code())
    }

    /// One core's turn.
    fn turn(&mut self, node: usize, core: usize) -> Result<()> {
        self.turn_of(node, core, self.quantum).map(|_| ())
    }

    /// As much of a core's turn; gives what is left of it if it stopped for a debugger.
    fn turn_of(&mut self, node: usize, core: usize, mut left: u64) -> Result<u64> {
        let mut grace = GRACE;
        while self.nodes[node].exit_code().is_none() {
            if left == 0 {
                if grace == 0 || !self.is_reserving(node, core) {
                    break;
                }
                left = 1;
                grace -= 1;
            }
            let before = self.nodes[node].harts[core].instret();
            let stop = self.run_hart(Place { node, core }, left);
            let goes_on = self.stopped(node, core, stop)?;
            left = left.saturating_sub(self.nodes[node].harts[core].instret() - before);
            if self.is_halted() && left > 0 {
                return Ok(left);
            }
            if !goes_on || self.moved.is_much() {
                break;
            }
        }
        self.end_of_turn(node, core);
        Ok(0)
    }

    /// Does what a core stopped for. Says whether it goes on in its turn.
    fn stopped(&mut self, node: usize, core: usize, stop: Stop) -> Result<bool> {
        match stop {
            Stop::Budget => {}
            Stop::Remote(request) => self.remote(node, core, &request)?,
            Stop::Host => self.host_call(node)?,
            Stop::Region => self.nodes[node].mark(core),
            Stop::Trap(trap) => return self.unhandled(node, core, trap),
            Stop::Wait => {
                self.wait(node, core)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn end_of_turn(&mut self, node: usize, core: usize) {
        // Another core may write from now on. A reservation that does not outlast the turn need not
        // be watched.
        let cores = self.nodes[node].harts.len();
        let hart = &mut self.nodes[node].harts[core];
        if cores > 1 {
            hart.break_any_reservation();
        }
        self.give_up_reservation(node, core);
        self.moved.end_turn();
    }

    /// Whether a core holds a reservation that it loses at the end of its turn.
    fn is_reserving(&self, node: usize, core: usize) -> bool {
        let Node {
            harts,
            reservations,
            ..
        } = &self.nodes[node];
        reservations[core].is_some() || harts.len() > 1 && harts[core].has_reservation()
    }

    fn remote(&mut self, node: usize, core: usize, request: &RemoteRequest) -> Result<()> {
        let answer = match request.action {
            Action::Bulk { .. } => match self.bulk(node, core, request) {
                // The core stays at the instruction, and comes to it again in its next turn.
                Some(false) => return Ok(()),
                moved => moved.map(|_| 0),
            },
            _ => self.transfer(node, core, request),
        };
        let Some(answer) = answer else {
            return self.refuse(node, core, request);
        };
        self.nodes[node].harts[core].complete(request.destination, answer);
        Ok(())
    }

    /// There is no such object or address: the instruction that asked traps.
    pub(crate) fn refuse(
        &mut self,
        node: usize,
        core: usize,
        request: &RemoteRequest,
    ) -> Result<()> {
        let trap = self.trap_of(node, request);
        if self.nodes[node].harts[core].trap(trap) {
            return Ok(());
        }
        let fault = self.fault(node, core, trap, Some(request));
        Err(Error::Fault(Box::new(fault)))
    }

    /// A trap that the guest has no handler for: a system call, or the end. Says whether the core
    /// goes on at once.
    pub(crate) fn unhandled(&mut self, node: usize, core: usize, trap: Trap) -> Result<bool> {
        // A call that comes here although there is a handler is that handler's own.
        let is_call = matches!(trap.cause, Cause::UserCall | Cause::MachineCall);
        if is_call && !self.nodes[node].harts[core].has_trap_handler() {
            if !self.processes.is_empty() {
                return self.process_call(node);
            }
            if self.environment_call(node, core) {
                return Ok(true);
            }
        }
        let fault = self.fault(node, core, trap, None);
        Err(Error::Fault(Box::new(fault)))
    }
}
