//! A router: its input queues and its outputs.

use super::{Message, small};
use crate::timed::time::Time;

pub(super) const N_PORTS: usize = 5;
pub(super) const LOCAL: usize = 0;
pub(super) const EAST: usize = 1;
pub(super) const WEST: usize = 2;
pub(super) const SOUTH: usize = 3;
pub(super) const NORTH: usize = 4;
pub(super) const N_CLASSES: usize = 2;
pub(super) const N_QUEUES: usize = N_PORTS * N_CLASSES;
pub(super) const NONE: u32 = u32::MAX;

/// The input at which a packet arrives that left by that output.
pub(super) const OPPOSITE: [usize; N_PORTS] = [LOCAL, WEST, EAST, NORTH, SOUTH];

#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) message: Message,
    pub(super) ready: Time,
    pub(super) next: u32,
    /// Which slot of its queue it occupies.
    pub(super) slot: u8,
}

/// One input queue of a router, for one class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) head: u32,
    pub(super) tail: u32,
    /// When the last packet to leave has left with all its flits.
    pub(super) free: Time,
}

/// One output of a router.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub(super) free: Time,
    /// One bit for each of the router's queues whose front wants this output.
    pub(super) waiting: u16,
    /// Which queue's turn it was last.
    pub(super) last: u8,
    /// When the next [`MeshEvent::Free`] is due.
    pub(super) wake: Time,
    /// How long it has been busy.
    pub(super) busy: Time,
}

/// One router.
#[derive(Clone, Debug)]
pub(super) struct Router {
    pub(super) queues: [Queue; N_QUEUES],
    pub(super) outputs: [Output; N_PORTS],
    /// The routers behind the outputs; itself where there is none.
    pub(super) neighbours: [usize; N_PORTS],
    /// Column and row.
    pub(super) place: (u16, u16),
    /// Request packets that its NIC holds or is being sent.
    pub(super) held: u32,
}

impl Router {
    pub(super) fn new(number: usize, columns: u16) -> Self {
        let queue = Queue {
            head: NONE,
            tail: NONE,
            free: Time::ZERO,
        };
        let output = Output {
            free: Time::ZERO,
            waiting: 0,
            last: 0,
            wake: Time::NEVER,
            busy: Time::ZERO,
        };
        let columns = usize::from(columns);
        let mut neighbours = [number; N_PORTS];
        neighbours[EAST] = number + 1;
        neighbours[WEST] = number.saturating_sub(1);
        neighbours[SOUTH] = number + columns;
        neighbours[NORTH] = number.saturating_sub(columns);
        let coordinate = |at| u16::try_from(at).unwrap_or(u16::MAX);
        Self {
            queues: [queue; N_QUEUES],
            outputs: [output; N_PORTS],
            neighbours,
            place: (coordinate(number % columns), coordinate(number / columns)),
            held: 0,
        }
    }
}

/// An input queue or an output of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) router: usize,
    pub(super) index: usize,
}

impl At {
    /// Its number in an event.
    pub(super) const fn number(self) -> u32 {
        small(self.router) << NUMBER_SHIFT | small(self.index)
    }

    pub(super) const fn of(number: u32) -> Self {
        Self {
            router: (number >> NUMBER_SHIFT) as usize,
            index: (number & ((1 << NUMBER_SHIFT) - 1)) as usize,
        }
    }
}

const NUMBER_SHIFT: u32 = 4;
