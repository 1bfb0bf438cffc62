//! Remote operations without a clock: the object's node is found, and the action done there at
//! once.

use super::Machine;
use crate::hart::Hart;
use crate::remote::{Action, Direction, RemoteRequest};

/// One bulk transfer, between two nodes or within one.
#[derive(Clone, Copy, Debug)]
struct Bulk {
    direction: Direction,
    here: usize,
    there: usize,
    local: u64,
    remote: u64,
    width: u64,
    step: u64,
    n_elements: u64,
}

impl Bulk {
    /// Where element `k` lies of those that start at `start`.
    const fn place(&self, start: u64, k: u64) -> u64 {
        start.wrapping_add(k.wrapping_mul(self.step))
    }
}

/// The memory that a request is about.
enum Asked {
    Bulk(Bulk),
    /// A word of so many bytes.
    Word(u64),
}

impl Asked {
    fn by(here: usize, there: usize, request: &RemoteRequest) -> Self {
        match request.action {
            Action::Load(width)
            | Action::LoadReserved(width)
            | Action::Store(width, _)
            | Action::Atomic(_, width, _)
            | Action::CompareSwap(width, ..)
            | Action::StoreConditional(width, _) => Self::Word(width.bytes()),
            Action::Bulk {
                direction,
                local,
                width,
                n_elements,
                stride,
            } => Self::Bulk(Bulk {
                direction,
                here,
                there,
                local,
                remote: request.address,
                width,
                step: stride.wrapping_mul(width),
                n_elements,
            }),
        }
    }
}

/// A word that a core reserved through the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    target: usize,
    address: u64,
    n_bytes: u64,
}

impl Machine {
    /// The object look-aside buffer: 0 is the node itself, `k` is node `k - 1`, on every node.
    fn node_of(&self, node: usize, object: u64) -> Option<usize> {
        match object {
            0 => Some(node),
            object => usize::try_from(object - 1)
                .ok()
                .filter(|target| *target < self.nodes.len()),
        }
    }

    /// Whether other nodes may reach these addresses.
    fn is_shared(&self, address: u64, n_bytes: u64) -> bool {
        let end = address.checked_add(n_bytes);
        address >= self.shared.start && end.is_some_and(|end| end <= self.shared.end)
    }

    /// The node that a request of `node` goes to, if there is such an object and everything asked
    /// for may be reached.
    pub(crate) fn target_of(&self, node: usize, request: &RemoteRequest) -> Option<usize> {
        let target = self.node_of(node, request.object)?;
        let address = request.address;
        let reached = match Asked::by(node, target, request) {
            Asked::Bulk(bulk) => self.is_reached(&bulk),
            Asked::Word(n_bytes) => self.is_shared(address, n_bytes),
        };
        reached.then_some(target)
    }

    /// Does what a core asks for and gives the answer; `None` if there is no such object or
    /// address.
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
        let target = self.node_of(node, object)?;
        let n_bytes = match Asked::by(node, target, request) {
            Asked::Bulk(bulk) => {
                self.bulk(core, &bulk)?;
                self.nodes[node].counts.asked(&action);
                return Some(0);
            }
            Asked::Word(n_bytes) => n_bytes,
        };
        let word = Reservation {
            target,
            address,
            n_bytes,
        };
        let conditional = matches!(action, Action::StoreConditional(..));
        if conditional && self.give_up_reservation(node, core) != Some(word) {
            return Some(1);
        }
        if !self.is_shared(address, word.n_bytes) {
            return None;
        }
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
        self.nodes[node].counts.asked(&action);
        self.nodes[target].counts.served += 1;
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

    /// Whether all elements lie in memory here and in shared memory there.
    fn is_reached(&self, bulk: &Bulk) -> bool {
        let here = &self.nodes[bulk.here].ram;
        bulk.n_elements <= here.n_bytes() as u64
            && (0..bulk.n_elements).all(|k| {
                here.contains(bulk.place(bulk.local, k), bulk.width)
                    && self.is_shared(bulk.place(bulk.remote, k), bulk.width)
            })
    }

    /// Moves elements one after another, for that core. Nothing moves if one of them lies outside
    /// of what may be reached.
    fn bulk(&mut self, core: usize, bulk: &Bulk) -> Option<()> {
        if !self.is_reached(bulk) {
            return None;
        }
        for k in 0..bulk.n_elements {
            let here = (bulk.here, bulk.place(bulk.local, k));
            let there = (bulk.there, bulk.place(bulk.remote, k));
            let (from, to) = match bulk.direction {
                Direction::Load => (there, here),
                Direction::Store => (here, there),
            };
            let value = self.nodes[from.0].ram.read(from.1, bulk.width)?;
            if !self.nodes[to.0].ram.write(to.1, bulk.width, value) {
                return None;
            }
            let by = (bulk.here, core);
            self.tell_debugger(from.0, by, (from.1, bulk.width), false);
            self.tell_debugger(to.0, by, (to.1, bulk.width), true);
            self.break_reservations(to.0, None, to.1, bulk.width);
        }
        self.was_written(match bulk.direction {
            Direction::Load => bulk.here,
            Direction::Store => bulk.there,
        });
        self.nodes[bulk.there].counts.served += bulk.n_elements;
        Some(())
    }
}
