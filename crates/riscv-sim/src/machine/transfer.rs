//! Remote operations without a clock: the object's node is found, and the action done there at
//! once.

use std::ops::Range;

use super::Machine;
use super::bulk::Bulk;
use crate::hart::{Cause, Hart, Trap};
use crate::remote::{Action, RemoteRequest};

/// A word that a core reserved through the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    target: usize,
    address: u64,
    n_bytes: u64,
}

impl Machine {
    /// The object look-aside buffer: 0 is the node itself, `k` is node `k - 1`, on every node.
    pub(super) fn node_of(&self, node: usize, object: u64) -> Option<usize> {
        match object {
            0 => Some(node),
            object => usize::try_from(object - 1)
                .ok()
                .filter(|target| *target < self.nodes.len()),
        }
    }

    /// The addresses of a node's memory that a request reaches: as object 0 all that it has.
    pub(super) fn reached(&self, target: usize, request: &RemoteRequest) -> Range<u64> {
        match request.object {
            0 => self.nodes[target].ram.start()..self.nodes[target].ram.end(),
            _ => self.shared.clone(),
        }
    }

    /// The node that a request of `node` goes to, if there is such an object and everything asked
    /// for may be reached.
    pub(crate) fn target_of(&self, node: usize, request: &RemoteRequest) -> Option<usize> {
        let target = self.node_of(node, request.object)?;
        let reached = match Bulk::of(node, target, request) {
            Some(bulk) => self.first_outside(&bulk).is_none(),
            None => {
                let end = request.address.checked_add(n_bytes(&request.action));
                let reached = self.reached(target, request);
                request.address >= reached.start && end.is_some_and(|end| end <= reached.end)
            }
        };
        reached.then_some(target)
    }

    /// The trap of an instruction whose request has no target.
    pub(super) fn trap_of(&self, node: usize, request: &RemoteRequest) -> Trap {
        let target = self.node_of(node, request.object);
        let bulk = target.and_then(|target| Bulk::of(node, target, request));
        let element = bulk.and_then(|bulk| self.first_outside(&bulk));
        element.unwrap_or_else(|| {
            let cause = match request.writes() {
                true => Cause::StoreFault,
                false => Cause::LoadFault,
            };
            Trap::new(cause, request.address)
        })
    }

    /// Does what a core asks for with one word and gives the answer; `None` if there is no such
    /// object or address.
    pub(crate) fn transfer(
        &mut self,
        node: usize,
        core: usize,
        request: &RemoteRequest,
    ) -> Option<u64> {
        let RemoteRequest {
            object,
            address,
            action,
            ..
        } = *request;
        let word = Reservation {
            target: self.node_of(node, object)?,
            address,
            n_bytes: n_bytes(&action),
        };
        let conditional = matches!(action, Action::StoreConditional(..));
        if conditional && self.give_up_reservation(node, core) != Some(word) {
            return Some(1);
        }
        let target = self.target_of(node, request)?;
        let answer = action.apply(address, &mut self.nodes[target].ram)?;
        let bytes = (address, word.n_bytes);
        if !matches!(action, Action::Store(..) | Action::StoreConditional(..)) {
            self.tell_debugger(target, (node, core), bytes, false);
        }
        if request.writes() {
            self.tell_debugger(target, (node, core), bytes, true);
            self.was_written(target);
            self.break_reservations(target, None, address, word.n_bytes);
        }
        if let Action::LoadReserved(_) = action {
            self.give_up_reservation(node, core);
            self.n_reservations += 1;
            self.nodes[node].reservations[core] = Some(word);
        }
        if object != 0 {
            self.nodes[node].counts.asked(&action);
            self.nodes[target].counts.served += 1;
        }
        Some(answer)
    }

    /// Takes a core's reservation through the network away, and gives it.
    pub(super) fn give_up_reservation(&mut self, node: usize, core: usize) -> Option<Reservation> {
        let reservation = self.nodes[node].reservations[core].take();
        self.n_reservations -= usize::from(reservation.is_some());
        reservation
    }

    /// Whether somebody has to be told of what a core writes to its own node's memory: whoever
    /// reserved a word through the network, or another core of the node.
    pub(crate) fn is_watched(&self, node: usize, core: usize) -> bool {
        let harts = &self.nodes[node].harts;
        let reserved = |(other, hart): (usize, &Hart)| other != core && hart.has_reservation();
        self.n_reservations > 0 || harts.len() > 1 && (0..).zip(harts).any(reserved)
    }

    /// Bytes of `target`'s memory were written, by that core of it if by one: reservations of
    /// others that overlap them are gone.
    pub(crate) fn break_reservations(
        &mut self,
        target: usize,
        writer: Option<usize>,
        address: u64,
        n_bytes: u64,
    ) {
        for (core, hart) in self.nodes[target].harts.iter_mut().enumerate() {
            if writer != Some(core) {
                hart.break_reservation(address, n_bytes);
            }
        }
        if self.n_reservations == 0 {
            return;
        }
        for reservation in self
            .nodes
            .iter_mut()
            .flat_map(|node| &mut node.reservations)
        {
            if reservation.is_some_and(|it| {
                it.target == target
                    && it.address < address.saturating_add(n_bytes)
                    && address < it.address + it.n_bytes
            }) {
                *reservation = None;
                self.n_reservations -= 1;
            }
        }
    }
}

/// The bytes of the word that an action is about.
const fn n_bytes(action: &Action) -> u64 {
    match action {
        Action::Load(width)
        | Action::LoadReserved(width)
        | Action::Store(width, _)
        | Action::Atomic(_, width, _)
        | Action::CompareSwap(width, ..)
        | Action::StoreConditional(width, _) => width.bytes(),
        Action::Bulk { width, .. } => *width,
    }
}
