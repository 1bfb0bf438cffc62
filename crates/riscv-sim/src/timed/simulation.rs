//! Guests on the timed machine.

use serde::Serialize;

use super::config::TimedConfig;
use super::guests::Guests;
use super::machine::{Ended, Machine as TimedMachine, MachineStats};
use super::time::Time;
use super::trace::Trace;
use crate::error::{Error, Result};
use crate::machine::{Halt, Machine, Node, Outcome, Place, Stats};

/// How far the simulation of one core goes before it looks whether it has gone far enough, in
/// nanoseconds; that of several goes a part of this each.
const STRETCH_NS: u64 = 100_000;
/// But so far at least.
const LEAST_NS: u64 = 100;

/// What a timed run counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SimulationStats {
    /// What the guests did.
    pub guests: Stats,
    /// What the machine did for it.
    pub machine: MachineStats,
}

/// Guests on the timed machine.
///
/// # Examples
/// ```
/// use pgas_riscv_sim::timed::config::TimedConfig;
/// use pgas_riscv_sim::timed::simulation::Simulation;
/// use pgas_riscv_sim::elf::Segment;
/// use pgas_riscv_sim::memory::RAM_BASE;
/// use pgas_riscv_sim::{Image, Machine, MachineConfig, Outcome};
///
/// // `li a0, 0; li a7, 93; ecall`: the system call that ends a program.
/// let code = [0x0000_0513_u32, 0x05d0_0893, 0x0000_0073];
/// let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
/// let n_bytes = bytes.len() as u64;
/// let segment = Segment { address: RAM_BASE, bytes, n_bytes };
/// let image = Image { entry: RAM_BASE, segments: vec![segment], ..Image::default() };
/// let machine = Machine::new(&MachineConfig::default(), &image)?;
/// let mut simulation = Simulation::new(machine, &TimedConfig::default())?;
/// assert_eq!(simulation.run(1000)?, Outcome::Success);
/// assert_eq!(simulation.stats().machine.nodes.len(), 6);
/// # Ok::<(), pgas_riscv_sim::Error>(())
/// ```
#[derive(Debug)]
pub struct Simulation {
    guests: Guests,
    timed: TimedMachine,
}

impl Simulation {
    /// Puts the guests of `machine`, which has not run, on a timed machine.
    ///
    /// # Errors
    /// [`Error::Config`] if a parameter is out of range.
    pub fn new(mut machine: Machine, config: &TimedConfig) -> Result<Self> {
        machine.set_clock_mhz(config.core.clock_mhz);
        let nodes = machine.nodes();
        let n_nodes = u16::try_from(nodes.len()).unwrap_or(u16::MAX);
        let n_cores = nodes.first().map_or(1, Node::n_cores);
        let n_cores = u16::try_from(n_cores).unwrap_or(u16::MAX);
        let timed = TimedMachine::with_cores(config, n_nodes, n_cores);
        Ok(Self {
            timed: timed.map_err(|error| Error::Config(error.to_string()))?,
            guests: Guests::new(machine, config.core.outstanding_remote),
        })
    }

    /// The guests.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        self.guests.machine()
    }

    /// The guests, to be changed.
    pub fn machine_mut(&mut self) -> &mut Machine {
        self.guests.machine_mut()
    }

    /// The guests alone, when the simulation is over.
    #[must_use]
    pub fn into_machine(self) -> Machine {
        self.guests.into_machine()
    }

    /// How far it has come.
    #[must_use]
    pub fn now(&self) -> Time {
        self.timed.now()
    }

    /// Records what happens from now on.
    pub fn set_trace(&mut self, trace: Trace) {
        self.timed.set_trace(trace);
    }

    /// The recording so far, if there is one.
    #[must_use]
    pub fn trace(&self) -> Option<&Trace> {
        self.timed.trace()
    }

    /// Runs until every node ended, or one failed.
    ///
    /// # Errors
    /// [`Error::Fault`] if a guest traps and has no handler; [`Error::NoEnd`] after about
    /// `max_instructions` of all cores, of which a process of Linux that waits does one now and
    /// then.
    pub fn run(&mut self, max_instructions: u64) -> Result<Outcome> {
        loop {
            if let Some(outcome) = self.run_for(self.stretch())? {
                return Ok(outcome);
            }
            if self.machine().n_steps() >= max_instructions {
                return Err(Error::NoEnd(max_instructions));
            }
        }
    }

    /// The simulated time in which all cores together run so many instructions that whoever limits
    /// or interrupts a run may look in between.
    #[must_use]
    pub fn stretch(&self) -> Time {
        let n_cores: usize = self.machine().nodes().iter().map(Node::n_cores).sum();
        Time::from_ns((STRETCH_NS / n_cores.max(1) as u64).max(LEAST_NS))
    }

    /// Runs as [`run`](Self::run) does, but only for that much simulated time; `None` if it did not
    /// end.
    ///
    /// # Errors
    /// As [`run`](Self::run), without [`Error::NoEnd`].
    pub fn run_for(&mut self, span: Time) -> Result<Option<Outcome>> {
        let until = self.timed.now().saturating_add(span);
        let ended = self.timed.run(&mut self.guests, until);
        if let Some(verdict) = self.guests.verdict() {
            return verdict.map(Some);
        }
        match ended {
            Ended::Halted => Ok(Some(Outcome::Success)),
            Ended::Stuck => Err(Error::AllWait),
            Ended::TimeLimit | Ended::Stopped => Ok(None),
        }
    }

    /// Runs as [`run_for`](Self::run_for) does, for the debugger of its machine. `first` runs
    /// before all others, as far as nothing can reach it. Says why it stopped, if it did. Simulated
    /// times are as without a debugger.
    ///
    /// # Errors
    /// As [`run_for`](Self::run_for), but a fault is a halt.
    pub fn debug_for(&mut self, span: Time, first: Option<Place>) -> Result<Option<Halt>> {
        if let Some(Place { node, core }) = first {
            let n_cores = self.machine().nodes()[node].n_cores();
            let hart = u16::try_from(node * n_cores + core).unwrap_or(u16::MAX);
            self.timed.run_first(hart, &mut self.guests);
        }
        let ended = match self.run_for(span)? {
            None => None,
            Some(Outcome::Success) => Some(Halt::Ended { node: 0, code: 0 }),
            Some(Outcome::Failure { node, code }) => Some(Halt::Ended { node, code }),
        };
        let Some(debugger) = self.machine_mut().debugger_mut() else {
            return Ok(ended);
        };
        if let Some(halt) = ended {
            debugger.stop(halt);
        }
        Ok(debugger.halt().cloned())
    }

    /// What was counted.
    #[must_use]
    pub fn stats(&self) -> SimulationStats {
        SimulationStats {
            guests: self.machine().stats(),
            machine: self.timed.stats(),
        }
    }
}
