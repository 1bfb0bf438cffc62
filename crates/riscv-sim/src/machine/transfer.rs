//! Remote operations without a clock: the object's node is found, and the action done there at once.

use super::Machine;
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

    /// The node that a request of `node` goes to, if there is such an object and everything asked for may be reached.
    pub(crate) fn target_of(&self, node: usize, request: &RemoteRequest) -> Option<usize> {
        let target = self.node_of(node, request.object)?;
        let address = request.address;
        let reached = match request.action {
            Action::Load(width)
            | Action::LoadReserved(width)
            | Action::Store(width, _)
            | Action::Atomic(_, width, _)
            | Action::CompareSwap(width, ..)
            | Action::StoreConditional(width, _) => self.is_shared(address, width.bytes()),
            Action::Bulk {
                direction,
                local,
                width,
                n_elements,
                stride,
            } => self.is_reached(&Bulk {
                direction,
                here: node,
                there: target,
                local,
                remote: address,
                width,
                step: stride.wrapping_mul(width),
                n_elements,
            }),
        };
        reached.then_some(target)
    }

    /// Does what `node` asks for and gives the answer; `None` if there is no such object or address.
    pub(crate) fn transfer(&mut self, node: usize, request: &RemoteRequest) -> Option<u64> {
        let RemoteRequest {
            object,
            address,
            action,
            ..
        } = *request;
        let target = self.node_of(node, object)?;
        let (width, value) = match action {
            Action::Bulk {
                direction,
                local,
                width,
                n_elements,
                stride,
            } => {
                let bulk = Bulk {
                    direction,
                    here: node,
                    there: target,
                    local,
                    remote: address,
                    width,
                    step: stride.wrapping_mul(width),
                    n_elements,
                };
                self.bulk(&bulk)?;
                self.nodes[node].counts.asked(&action);
                return Some(0);
            }
            Action::Load(width)
            | Action::LoadReserved(width)
            | Action::Store(width, _)
            | Action::Atomic(_, width, _)
            | Action::CompareSwap(width, ..) => (width, action),
            Action::StoreConditional(width, _) => {
                if self.nodes[node].remote_reservation.take()
                    != Some((object, address, width.bytes()))
                {
                    return Some(1);
                }
                (width, action)
            }
        };
        if !self.is_shared(address, width.bytes()) {
            return None;
        }
        let answer = value.apply(address, &mut self.nodes[target].ram)?;
        if request.writes() {
            for hart in &mut self.nodes[target].harts {
                hart.break_reservation(address, width.bytes());
            }
        }
        if let Action::LoadReserved(_) = action {
            self.nodes[node].remote_reservation = Some((object, address, width.bytes()));
        }
        self.nodes[node].counts.asked(&action);
        self.nodes[target].counts.served += 1;
        Some(answer)
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

    /// Moves elements one after another. Nothing moves if one of them lies outside of what may be reached.
    fn bulk(&mut self, bulk: &Bulk) -> Option<()> {
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
            for hart in &mut self.nodes[to.0].harts {
                hart.break_reservation(to.1, bulk.width);
            }
        }
        self.nodes[bulk.there].counts.served += bulk.n_elements;
        Some(())
    }
}
