//! The functional machine as the timed one drives it: harts run while their cores' timing lets them, and remote operations
//! are done when and where a NIC executes them.

use std::hint::black_box;

use super::machine::{CorePort, Processor};
use super::packet::{Operation, Request};
use super::timekeeper::Timekeeper;
use crate::error::{Error, Result};
use crate::hart::{Hart, Stop};
use crate::machine::debug::Watcher;
use crate::machine::{Halt, Machine, Node, Outcome, Place};
use crate::remote::{Action, AtomicOp, Destination, Direction, RemoteRequest, Width};

/// A bulk transfer under way.
#[derive(Clone, Copy, Debug)]
struct Bulk {
    request: RemoteRequest,
    target: u16,
    direction: Direction,
    local: u64,
    width: u64,
    step: u64,
    n_elements: u64,
    n_issued: u64,
}

/// A remote instruction that has not been issued.
#[derive(Clone, Copy, Debug)]
struct Issue {
    request: RemoteRequest,
    target: u16,
    /// The core has been told of the instruction, for what it read here.
    is_told: bool,
}

/// Why a hart stopped.
#[derive(Clone, Copy, Debug)]
enum Run {
    /// Its core's timing lets it no further.
    Over,
    /// It stands at a remote instruction, of which the core has been told already or not.
    Remote(RemoteRequest, bool),
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

/// A remote operation under way.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    request: RemoteRequest,
    /// Where the answer goes in the asking node's memory, and how many bytes of it, if it is part of a bulk load.
    local: Option<(u64, u64)>,
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
            Run::Remote(request, is_told) => return self.meet(number, request, is_told, port),
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

    /// The hart has come to a remote instruction. Says whether it goes on.
    fn meet(
        &mut self,
        number: usize,
        request: RemoteRequest,
        is_told: bool,
        port: &mut CorePort<'_>,
    ) -> Result<bool> {
        let (node, core) = self.place_of(number);
        let target = self.machine.target_of(node, &request);
        let target = target.and_then(|target| u16::try_from(target).ok());
        let Some(target) = target else {
            return self.machine.refuse(node, core, &request).map(|()| true);
        };
        if let Action::Bulk {
            direction,
            local,
            width,
            n_elements,
            stride,
        } = request.action
        {
            self.guests[number].state = State::Moves(Bulk {
                request,
                target,
                direction,
                local,
                width,
                step: stride.wrapping_mul(width),
                n_elements,
                n_issued: 0,
            });
            return Ok(true);
        }
        let issue = Issue {
            request,
            target,
            is_told,
        };
        Ok(self.try_issue(number, issue, port))
    }

    /// Issues an operation if its core may go on; otherwise the hart stays there.
    fn try_issue(&mut self, number: usize, issue: Issue, port: &mut CorePort<'_>) -> bool {
        let may_start = port.may_start(0);
        if may_start {
            self.issue(number, issue, port);
        } else {
            self.guests[number].state = State::Issues(issue);
        }
        may_start
    }

    fn issue(&mut self, number: usize, issue: Issue, port: &mut CorePort<'_>) {
        let Issue {
            request,
            target,
            is_told,
        } = issue;
        // A result that no register mask names has nobody to wait for it, and a reservation is for what follows: the hart
        // stays at such an instruction.
        let goes_on = self.goes_on
            && !matches!(request.destination, Destination::Extended(_))
            && !matches!(
                request.action,
                Action::LoadReserved(_) | Action::StoreConditional(..)
            );
        // The target's word is looked at now, so that the host has it at hand when the NIC executes the operation.
        let target_ram = self.machine.nodes()[usize::from(target)].ram();
        black_box(target_ram.read(request.address, 1));
        let tag = self.enter(
            number,
            InFlight {
                request,
                local: None,
            },
        );
        let destination = match request.destination {
            Destination::Integer(rd) if (1..32).contains(&rd) && goes_on => Some(rd),
            _ => None,
        };
        let packet = packet(&request, target, destination, tag);
        if is_told {
            port.remote_part(packet);
        } else {
            port.remote(packet);
        }
        if goes_on {
            self.hart(number).complete(Destination::None, 0);
            self.guests[number].state = State::Runs;
        } else {
            port.wait_for_remote();
            self.guests[number].state = State::Waits(tag);
        }
    }

    /// Issues elements of a bulk transfer while there may be more under way; the transfer ends when all are over.
    fn move_on(&mut self, number: usize, mut bulk: Bulk, port: &mut CorePort<'_>) -> bool {
        let (node, core) = self.place_of(number);
        while bulk.n_issued < bulk.n_elements {
            if !port.may_start(0) {
                self.guests[number].state = State::Moves(bulk);
                return false;
            }
            let offset = bulk.n_issued.wrapping_mul(bulk.step);
            let local = bulk.local.wrapping_add(offset);
            let width = match bulk.width {
                1 => Width::U8,
                2 => Width::U16,
                4 => Width::U32,
                _ => Width::U64,
            };
            let (action, local) = match bulk.direction {
                Direction::Load => (Action::Load(width), Some((local, bulk.width))),
                Direction::Store => {
                    let ram = self.machine.nodes()[node].ram();
                    let value = ram.read(local, bulk.width).unwrap_or_default();
                    let bytes = (local, bulk.width);
                    self.machine.tell_debugger(node, (node, core), bytes, false);
                    (Action::Store(width, value), None)
                }
            };
            let request = RemoteRequest {
                address: bulk.request.address.wrapping_add(offset),
                action,
                ..bulk.request
            };
            let tag = self.enter(number, InFlight { request, local });
            port.remote_part(Request {
                into_memory: local.is_some(),
                ..packet(&request, bulk.target, None, tag)
            });
            bulk.n_issued += 1;
        }
        if !port.drained() {
            self.guests[number].state = State::Moves(bulk);
            return false;
        }
        self.hart(number).complete(Destination::None, 0);
        self.guests[number].state = State::Runs;
        true
    }

    fn hart(&mut self, number: usize) -> &mut Hart {
        let (node, core) = self.place_of(number);
        self.machine.hart_and_ram(node, core).0
    }

    fn enter(&mut self, number: usize, operation: InFlight) -> u32 {
        let in_flight = &mut self.guests[number].in_flight;
        let free = in_flight.iter().position(Option::is_none);
        let tag = free.expect("a core issues no more than it may have under way");
        in_flight[tag] = Some(operation);
        u32::try_from(tag).unwrap_or(u32::MAX)
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

/// The operation as the NIC gets it.
fn packet(request: &RemoteRequest, target: u16, register: Option<u8>, tag: u32) -> Request {
    let (operation, width) = match request.action {
        Action::Load(width) => (Operation::Load, width),
        Action::Store(width, _) => (Operation::Store, width),
        Action::CompareSwap(width, ..) => (Operation::CompareSwap, width),
        Action::LoadReserved(width) => (Operation::LoadReserved, width),
        Action::StoreConditional(width, _) => (Operation::StoreConditional, width),
        Action::Atomic(op, width, _) => (atomic(op), width),
        Action::Bulk { .. } => (Operation::Load, Width::U64),
    };
    let (operand, replacement) = match request.action {
        Action::Store(_, value)
        | Action::Atomic(_, _, value)
        | Action::StoreConditional(_, value) => (value, 0),
        Action::CompareSwap(_, expected, new) => (expected, new),
        _ => (0, 0),
    };
    Request {
        target,
        operation,
        bytes: u8::try_from(width.bytes()).unwrap_or(8),
        address: request.address,
        operand,
        replacement,
        register,
        into_memory: false,
        tag,
    }
}

const fn atomic(op: AtomicOp) -> Operation {
    match op {
        AtomicOp::Swap => Operation::Swap,
        AtomicOp::Add => Operation::Add,
        AtomicOp::Xor => Operation::Xor,
        AtomicOp::And => Operation::And,
        AtomicOp::Or => Operation::Or,
        AtomicOp::Min => Operation::Min,
        AtomicOp::Max => Operation::Max,
        AtomicOp::Minu => Operation::MinUnsigned,
        AtomicOp::Maxu => Operation::MaxUnsigned,
    }
}
