//! A hart at a remote instruction: it is issued, element by element if it is a bulk transfer, as
//! soon as the core may have one more operation under way.

use std::hint::black_box;

use super::{Guests, State};
use crate::error::Result;
use crate::remote::{Action, AtomicOp, Destination, Direction, RemoteRequest, Width};
use crate::timed::core::Class;
use crate::timed::machine::CorePort;
use crate::timed::packet::{Operation, Request};
use crate::timed::timekeeper::Met;

/// A bulk transfer under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk {
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
pub(super) struct Issue {
    request: RemoteRequest,
    target: u16,
    met: Met,
}

/// A remote operation under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) request: RemoteRequest,
    /// Where the answer goes in the asking node's memory, and how many bytes of it, if it is part
    /// of a bulk load.
    pub(super) local: Option<(u64, u64)>,
}

impl Guests {
    /// The hart has come to a remote instruction. Says whether it goes on.
    pub(super) fn meet(
        &mut self,
        number: usize,
        request: RemoteRequest,
        met: Met,
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
            if n_elements == 0 {
                port.retire(Class::Integer, 0);
            }
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
            met,
        };
        Ok(self.try_issue(number, issue, port))
    }

    /// Issues an operation if its core may go on; otherwise the hart stays there.
    pub(super) fn try_issue(
        &mut self,
        number: usize,
        issue: Issue,
        port: &mut CorePort<'_>,
    ) -> bool {
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
            met,
        } = issue;
        // A result that no register mask names has nobody to wait for it, and a reservation is for
        // what follows, as what an atomic acquires is: the hart stays at such an instruction.
        let goes_on = self.goes_on
            && !met.acquires
            && !matches!(request.destination, Destination::Extended(_))
            && !matches!(
                request.action,
                Action::LoadReserved(_) | Action::StoreConditional(..)
            );
        // The target's word is looked at now, so that the host has it at hand when the NIC executes
        // the operation.
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
        if met.is_told {
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

    /// Issues elements of a bulk transfer while there may be more under way; the transfer ends when
    /// all are over.
    pub(super) fn move_on(
        &mut self,
        number: usize,
        mut bulk: Bulk,
        port: &mut CorePort<'_>,
    ) -> bool {
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
            let packet = Request {
                into_memory: local.is_some(),
                ..packet(&request, bulk.target, None, tag)
            };
            if bulk.n_issued == 0 {
                port.remote(packet);
            } else {
                port.remote_part(packet);
            }
            bulk.n_issued += 1;
            self.machine.count_moved(1);
        }
        if !port.drained() {
            self.guests[number].state = State::Moves(bulk);
            return false;
        }
        self.hart(number).complete(Destination::None, 0);
        self.guests[number].state = State::Runs;
        true
    }

    fn enter(&mut self, number: usize, operation: InFlight) -> u32 {
        let in_flight = &mut self.guests[number].in_flight;
        let free = in_flight.iter().position(Option::is_none);
        let tag = free.expect("a core issues no more than it may have under way");
        in_flight[tag] = Some(operation);
        u32::try_from(tag).unwrap_or(u32::MAX)
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
