//! The functional machine as the timed one drives it: harts run while their cores' timing lets
//! them, and remote operations are done when and where a NIC executes them.

mod issue;

use super::machine::{CorePort, Processor};
use super::packet::Request;
use super::timekeeper::{Met, Timekeeper};
use crate::error::{Error, Result};
use crate::hart::{Hart, Stop};
use crate::machine::debug::Watcher;
use crate::machine::{Halt, Machine, Node, Outcome, Place};
use crate::remote::{Destination, RemoteRequest};
use issue::{Bulk, InFlight, Issue};

/// Why a hart stopped.
#[derive(Clone, Copy, Debug)]
enum Run {
    /// Its core's timing lets it no further.
    Over,
    /// It stands at a remote instruction.
    Remote(RemoteRequest, Met),
    /// Anything else.
    Stopped(Stop),
}

/// What a hart is doing.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Executing instructions, or about to end because its node has.
    Runs,
    /// It stands at a remote instruction that has not been issued.
    Issues(Issue),
    /// It stands at a remote instruction that has been, as the operation of this tag.
    Waits(u32),
    /// It stands at a bulk transfer.
    Moves(Bulk),
    /// Its node has ended.
    Ended,
}

#[derive(Debug)]
struct Guest {
    state: State,
    in_flight: Vec<Option<InFlight>>,
}

/// All harts and memories.
#[derive(Debug)]
pub(super) struct Guests {
    machine: Machine,
    n_cores: usize,
    /// Core by core, node after node.
    guests: Vec<Guest>,
    /// What a hart wrote in its turn that somebody has to be told of.
    written: Vec<(u64, u64)>,
    /// More than one remote operation may be under way, so that a hart goes on behind one.
    goes_on: bool,
    error: Option<Error>,
    failure: Option<Outcome>,
}

impl Guests {
    pub(super) fn new(machine: Machine, outstanding_remote: u32) -> Self {
        let guest = || Guest {
            state: State::Runs,
            in_flight: vec![None; outstanding_remote as usize],
        };
        Self {
            guests: machine
                .nodes()
                .iter()
                .flat_map(|node| node.harts())
                .map(|_| guest())
                .collect(),
            n_cores: machine.nodes().first().map_or(1, Node::n_cores),
            written: Vec::new(),
            machine,
            goes_on: outstanding_remote > 1,
            error: None,
            failure: None,
        }
    }

    pub(super) const fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(super) fn into_machine(self) -> Machine {
        self.machine
    }

    pub(super) const fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Why the run is over although guests have not ended.
    pub(super) fn verdict(&mut self) -> Option<Result<Outcome>> {
        let error = self.error.take().map(Err);
        error.or_else(|| self.failure.map(Ok))
    }

    /// The node of a hart, and its core's number there.
    const fn place_of(&self, hart: usize) -> (usize, usize) {
        if self.n_cores == 1 {
            (hart, 0)
        } else {
            (hart / self.n_cores, hart % self.n_cores)
        }
    }

    /// Runs a hart until it may not go on, or something but a plain instruction comes.
    fn execute_instructions(&mut self, number: usize, port: &mut CorePort<'_>) -> Result<bool> {
        let (node, core) = self.place_of(number);
        let is_watched = self.machine.is_watched(node, core);
        let stop = self.run_hart(number, is_watched, port);
        if is_watched {
            for (address, n_bytes) in std::mem::take(&mut self.written) {
                self.machine
                    .break_reservations(node, Some(core), address, n_bytes);
            }
        }
        match stop {
            Run::Over => return Ok(false),
            Run::Remote(request, met) => return self.meet(number, request, met, port),
            Run::Stopped(Stop::Wait) => {
                port.pause();
                self.machine.wait(node, core)?;
            }
            Run::Stopped(Stop::Host) => self.machine.host_call(node)?,
            Run::Stopped(Stop::Region) => self.machine.node_mut(node).mark(core),
            Run::Stopped(Stop::Trap(trap)) => {
                // A system call may ask what time it is.
                self.hart(number).set_cycles(port.cycles());
                if !self.machine.unhandled(node, core, trap)? {
                    port.pause();
                }
            }
            Run::Stopped(Stop::Budget | Stop::Remote(_)) => {}
        }
        Ok(true)
    }

    /// Runs a hart as far as its core's timing lets it.
    fn run_hart(&mut self, number: usize, is_watched: bool, port: &mut CorePort<'_>) -> Run {
        let (node, core) = self.place_of(number);
        let mut shown_cycles = None;
        loop {
            let place = Place { node, core };
            let (hart, ram, debugger) = self.machine.debugged_hart(place);
            let written = is_watched.then_some(&mut self.written);
            let mut timekeeper = Timekeeper::new(port, shown_cycles, written);
            let stop = match debugger {
                None => hart.run(ram, u64::MAX, &mut timekeeper),
                Some(debugger) => {
                    let mut watcher = Watcher {
                        inner: &mut timekeeper,
                        debugger,
                        place,
                    };
                    hart.run(ram, u64::MAX, &mut watcher)
                }
            };
            if let Stop::Remote(request) = stop {
                return Run::Remote(request, timekeeper.stopped_at_remote());
            }
            if !timekeeper.stopped(hart.pc()) {
                return match stop {
                    Stop::Budget => Run::Over,
                    stop => Run::Stopped(stop),
                };
            }
            let cycles = port.cycles();
            hart.set_cycles(cycles);
            shown_cycles = Some(cycles);
        }
    }

    /// Whether the hart's node has ended, by this core or another one.
    fn has_ended(&mut self, number: usize) -> bool {
        let (node, _) = self.place_of(number);
        let Some(code) = self.machine.nodes()[node].exit_code() else {
            return false;
        };
        if code != 0 && self.failure.is_none() {
            self.failure = Some(Outcome::Failure { node, code });
        }
        true
    }

    fn hart(&mut self, number: usize) -> &mut Hart {
        let (node, core) = self.place_of(number);
        self.machine.hart_and_ram(node, core).0
    }

    /// The run ends with an error; but a debugger looks at a fault.
    fn stop_with(&mut self, error: Error, port: &mut CorePort<'_>) {
        match (error, self.machine.debugger_mut()) {
            (Error::Fault(fault), Some(debugger)) => debugger.stop(Halt::Fault(fault)),
            (error, _) => {
                self.error.get_or_insert(error);
                port.halt();
            }
        }
    }
}

impl Processor for Guests {
    fn run(&mut self, hart: u16, port: &mut CorePort<'_>) {
        let hart = usize::from(hart);
        while !self.machine.is_halted() {
            let state = if self.has_ended(hart) {
                State::Ended
            } else {
                self.guests[hart].state
            };
            let goes_on = match state {
                State::Runs => match self.execute_instructions(hart, port) {
                    Ok(goes_on) => goes_on,
                    Err(error) => return self.stop_with(error, port),
                },
                State::Issues(issue) => self.try_issue(hart, issue, port),
                State::Moves(bulk) => self.move_on(hart, bulk, port),
                State::Waits(_) => false,
                State::Ended => {
                    if port.may_start(0) && port.drained() {
                        port.halt();
                    }
                    false
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    fn execute(&mut self, hart: u16, request: &Request) -> u64 {
        let hart = usize::from(hart);
        let (node, core) = self.place_of(hart);
        let operation = self.guests[hart].in_flight[request.tag as usize];
        let answer = operation.and_then(|it| self.machine.transfer(node, core, &it.request));
        answer.expect("the target was looked up when the operation was issued")
    }

    fn complete(&mut self, hart: u16, request: &Request, value: u64) {
        let number = usize::from(hart);
        let (node, core) = self.place_of(number);
        let tag = request.tag;
        let slot = &mut self.guests[number].in_flight[tag as usize];
        let Some(InFlight { request, local }) = slot.take() else {
            return;
        };
        if let Some((address, n_bytes)) = local {
            let ram = self.machine.node_mut(node).ram_mut();
            let written = ram.write(address, n_bytes, value);
            debug_assert!(written, "all elements were looked up beforehand");
            let bytes = (address, n_bytes);
            self.machine.tell_debugger(node, (node, core), bytes, true);
            self.machine.was_written(node);
            self.machine
                .break_reservations(node, None, address, n_bytes);
            return;
        }
        let state = &mut self.guests[number].state;
        let (hart, _) = self.machine.hart_and_ram(node, core);
        // Replies to earlier operations may come first: they are not what it waits for.
        if matches!(state, State::Waits(own) if *own == tag) {
            *state = State::Runs;
            hart.complete(request.destination, value);
        } else if let Destination::Integer(rd @ 1..32) = request.destination {
            hart.set_x(rd, value);
        }
    }

    fn is_over(&self) -> bool {
        self.error.is_some() || self.failure.is_some() || self.machine.is_halted()
    }
}
