//! What a debugger asks of a machine: to stop at instructions and at accesses to memory, and to do
//! one instruction of a core.
//!
//! The machine goes on as it does without a debugger, and all cores stop together.

use std::collections::BTreeSet;

use super::{Fault, Machine, Node};
use crate::error::{Error, Result};
use crate::hart::{Hart, Nobody, Observer, Stop};
use crate::isa::Decoded;
use crate::memory::Ram;

/// A core of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The node.
    pub node: usize,
    /// The core's number in it.
    pub core: usize,
}

/// Which accesses a watchpoint stops at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// Those that write.
    Writes,
    /// Those that read.
    Reads,
    /// All.
    All,
}

impl Watched {
    const fn contains(self, writes: bool) -> bool {
        match self {
            Self::Writes => writes,
            Self::Reads => !writes,
            Self::All => true,
        }
    }
}

/// Bytes at the same address of every node whose accesses stop the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watchpoint {
    /// Where they start.
    pub address: u64,
    /// How many they are.
    pub n_bytes: u64,
    /// Which accesses.
    pub watched: Watched,
}

/// An access that a watchpoint was set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which watchpoint.
    pub watchpoint: Watchpoint,
    /// The node whose memory it is.
    pub node: usize,
    /// The core whose instruction it was, of that node or of another one.
    pub by: Place,
    /// Whether it wrote.
    pub writes: bool,
    /// Where the bytes that were read or written start.
    pub address: u64,
    /// How many they are.
    pub n_bytes: u64,
}

/// Why the machine stopped for its debugger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The core did the instruction that was asked for.
    Stepped(Place),
    /// The core is at a breakpoint.
    Breakpoint(Place),
    /// A watched word was accessed, and the instruction that did is over.
    Watchpoint(Access),
    /// An instruction could not be carried out; its core still stands there.
    Fault(Box<Fault>),
    /// All nodes have ended, or this one has failed.
    Ended {
        /// Which one.
        node: usize,
        /// Its code.
        code: u64,
    },
}

/// Where a run under a debugger is among the turns of its nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    place: Option<Place>,
    /// What is left of its turn.
    left: u64,
    /// Somebody has had a turn since all had theirs.
    ran: bool,
}

/// What a machine does for a debugger.
#[derive(Debug, Default)]
pub struct Debugger {
    breakpoints: BTreeSet<u64>,
    watchpoints: BTreeSet<Watchpoint>,
    halt: Option<Halt>,
    /// A core that stops behind its next instruction, and whether it has begun that.
    step: Option<(Place, bool)>,
    /// A core that stands at a breakpoint where it stopped before, and goes on from there.
    leaves: Option<Place>,
    turn: Turn,
}

impl Debugger {
    /// Stops before the instruction at an address. False if it does already.
    pub fn add_breakpoint(&mut self, address: u64) -> bool {
        self.breakpoints.insert(address)
    }

    /// No longer stops there. False if it did not.
    pub fn remove_breakpoint(&mut self, address: u64) -> bool {
        self.breakpoints.remove(&address)
    }

    /// Stops behind accesses. False if it does already.
    pub fn add_watchpoint(&mut self, watchpoint: Watchpoint) -> bool {
        self.watchpoints.insert(watchpoint)
    }

    /// No longer stops at them. False if it did not.
    pub fn remove_watchpoint(&mut self, watchpoint: Watchpoint) -> bool {
        self.watchpoints.remove(&watchpoint)
    }

    /// Goes on from the last halt: until something happens, or until that core has done one
    /// instruction.
    pub fn resume(&mut self, step: Option<Place>) {
        if let Some(Halt::Breakpoint(place)) = self.halt.take() {
            self.leaves = Some(place);
        }
        self.step = step.map(|place| (place, false));
    }

    /// Why the machine stands still, if it does.
    #[must_use]
    pub const fn halt(&self) -> Option<&Halt> {
        self.halt.as_ref()
    }

    /// The machine stops, if it does not for another reason.
    pub(crate) fn stop(&mut self, halt: Halt) {
        self.halt.get_or_insert(halt);
    }

    /// Whether a core may do its next instruction.
    fn lets(&mut self, place: Place, pc: u64) -> bool {
        if self.halt.is_some() {
            return false;
        }
        if self.step == Some((place, true)) {
            self.halt = Some(Halt::Stepped(place));
            return false;
        }
        if self.leaves != Some(place) && self.breakpoints.contains(&pc) {
            self.halt = Some(Halt::Breakpoint(place));
            return false;
        }
        true
    }

    /// A core does its next instruction.
    fn goes_on(&mut self, place: Place) {
        if self.leaves == Some(place) {
            self.leaves = None;
        }
        if let Some((stepping, has_begun)) = &mut self.step {
            *has_begun |= *stepping == place;
        }
    }

    /// An instruction of `by` reads or writes these bytes of a node's memory.
    pub(crate) fn access(
        &mut self,
        node: usize,
        by: Place,
        (address, n_bytes): (u64, u64),
        writes: bool,
    ) {
        let end = address.saturating_add(n_bytes);
        let overlaps = |it: &&Watchpoint| {
            it.watched.contains(writes)
                && it.address < end
                && address < it.address.saturating_add(it.n_bytes)
        };
        if let Some(&watchpoint) = self.watchpoints.iter().find(overlaps) {
            self.stop(Halt::Watchpoint(Access {
                watchpoint,
                node,
                by,
                writes,
                address,
                n_bytes,
            }));
        }
    }
}

/// Listens to a core for a debugger, and for whoever listens to it anyway.
#[derive(Debug)]
pub(crate) struct Watcher<'a, O> {
    pub(crate) inner: O,
    pub(crate) debugger: &'a mut Debugger,
    pub(crate) place: Place,
}

impl<O: Observer> Observer for Watcher<'_, O> {
    const LISTENS: bool = true;

    fn before(&mut self, pc: u64, insn: &Decoded) -> bool {
        if !self.debugger.lets(self.place, pc) || !self.inner.before(pc, insn) {
            return false;
        }
        self.debugger.goes_on(self.place);
        true
    }

    fn access(&mut self, address: u64, n_bytes: u64, writes: bool) {
        self.inner.access(address, n_bytes, writes);
        let Place { node, .. } = self.place;
        self.debugger
            .access(node, self.place, (address, n_bytes), writes);
    }
}

impl Machine {
    /// Has the machine stop for a debugger from now on, or no longer.
    pub fn set_debugger(&mut self, debugger: Option<Debugger>) {
        self.debugger = debugger.map(Box::new);
    }

    /// What it does for its debugger, if it has one.
    pub fn debugger_mut(&mut self) -> Option<&mut Debugger> {
        self.debugger.as_deref_mut()
    }

    /// Whether it stands still for its debugger.
    #[must_use]
    pub(crate) fn is_halted(&self) -> bool {
        let debugger = self.debugger.as_ref();
        debugger.is_some_and(|debugger| debugger.halt.is_some())
    }

    /// A core, its node's memory, and the debugger.
    pub(crate) fn debugged_hart(
        &mut self,
        Place { node, core }: Place,
    ) -> (&mut Hart, &mut Ram, Option<&mut Debugger>) {
        let Self {
            nodes, debugger, ..
        } = self;
        let Node { harts, ram, .. } = &mut nodes[node];
        (&mut harts[core], ram, debugger.as_deref_mut())
    }

    /// Lets a core run as far as the debugger, if there is one, lets it.
    pub(super) fn run_hart(&mut self, place: Place, budget: u64) -> Stop {
        let (hart, ram, debugger) = self.debugged_hart(place);
        let Some(debugger) = debugger else {
            return hart.run(ram, budget, &mut Nobody);
        };
        let mut watcher = Watcher {
            inner: Nobody,
            debugger,
            place,
        };
        hart.run(ram, budget, &mut watcher)
    }

    /// The debugger hears of an access that is no part of an instruction of the node itself.
    pub(crate) fn tell_debugger(
        &mut self,
        node: usize,
        (by, core): (usize, usize),
        bytes: (u64, u64),
        writes: bool,
    ) {
        if let Some(debugger) = &mut self.debugger {
            let by = Place { node: by, core };
            debugger.access(node, by, bytes, writes);
        }
    }

    /// Runs at most about so many instructions for the debugger, node after node as without one;
    /// if `only` names cores, the others do not run. Says why it stopped, if it did.
    ///
    /// # Errors
    /// As [`run_some`](Self::run_some), but a fault is a halt.
    ///
    /// # Panics
    /// If it has no debugger.
    pub fn debug_some(&mut self, n_instructions: u64, only: &[Place]) -> Result<Option<Halt>> {
        let end = self.n_executed.saturating_add(n_instructions);
        let mut chosen = only.iter().cycle();
        loop {
            let ended = match chosen.next() {
                Some(place) => self.debug_alone(*place),
                None => self.debug_turn(),
            };
            let ended = match ended {
                Err(Error::Fault(fault)) => Some(Halt::Fault(fault)),
                ended => ended?,
            };
            let debugger = self.debugger.as_mut().expect("the caller has set one");
            if let Some(halt) = ended {
                debugger.stop(halt);
            }
            let halt = debugger.halt.clone();
            if halt.is_some() || self.n_executed >= end || self.lock_waits.take_pause() {
                return Ok(halt);
            }
        }
    }

    /// One core runs, and the others do not. If it is in its turn, that goes on.
    fn debug_alone(&mut self, place: Place) -> Result<Option<Halt>> {
        let Place { node, .. } = place;
        if self.nodes[node].exit_code().is_some() || self.is_asleep(node) {
            self.n_executed += self.quantum;
            return Ok(None);
        }
        let turn = self
            .debugger
            .as_ref()
            .map_or_else(Turn::default, |it| it.turn);
        if turn.place == Some(place) {
            return self.debug_turn();
        }
        // Who runs between others may write where they, or it, reserved a word.
        if let Some(Place { node, core }) = turn.place.filter(|_| turn.left > 0) {
            self.end_of_turn(node, core);
        }
        self.part_of_turn(place, self.quantum)?;
        self.end_of_turn(node, place.core);
        if let Some(debugger) = &mut self.debugger {
            debugger.turn.ran = true;
        }
        Ok(self.ended(node))
    }

    /// The rest of a core's turn, or if all have had theirs the end of the round.
    fn debug_turn(&mut self) -> Result<Option<Halt>> {
        let debugger = self.debugger.as_mut().expect("the caller has set one");
        let turn = std::mem::take(&mut debugger.turn);
        let Place { node, core } = turn.place.unwrap_or(Place { node: 0, core: 0 });
        let Some(next) = self.awake.next(node) else {
            if !turn.ran && self.sleepers.are_none() {
                return Ok(Some(Halt::Ended { node: 0, code: 0 }));
            }
            self.end_of_round(turn.ran)?;
            return Ok(None);
        };
        let is_begun = next == node && turn.left > 0;
        let (core, left) = if is_begun {
            (core, turn.left)
        } else {
            (0, self.quantum)
        };
        let place = Place { node: next, core };
        let left = self.part_of_turn(place, left)?;
        let after = if left > 0 {
            (place, left)
        } else if core + 1 < self.nodes[next].n_cores() {
            let core = core + 1;
            (Place { core, ..place }, self.quantum)
        } else {
            let node = next + 1;
            (Place { node, core: 0 }, 0)
        };
        if let Some(debugger) = &mut self.debugger {
            debugger.turn = Turn {
                place: Some(after.0),
                left: after.1,
                ran: true,
            };
        }
        Ok(self.ended(next))
    }

    /// Lets a core run on in its turn; gives what is left of it.
    fn part_of_turn(&mut self, place: Place, left: u64) -> Result<u64> {
        let Place { node, core } = place;
        let before = self.nodes[node].n_instructions();
        let left = self.turn_of(node, core, left);
        self.n_executed += self.nodes[node].n_instructions() - before;
        left
    }

    /// A node that has ended has no more turns; if it failed, the run ends with it.
    fn ended(&mut self, node: usize) -> Option<Halt> {
        let code = self.nodes[node].exit_code()?;
        if code == 0 {
            self.awake.remove(node);
            return None;
        }
        Some(Halt::Ended { node, code })
    }
}
