//! A two-dimensional mesh of routers: XY routing, virtual cut-through, credits, and links that two
//! packets never share.
//!
//! Each router has five inputs (its own node and four neighbours) with a queue for requests and one
//! for replies, so that requests that wait for a busy NIC never hold up the replies that would free
//! it. A packet moves on when its head is through the router, the link is free and the next queue
//! has room for all of it; it then holds the link for as many cycles as it has flits. Between
//! packets that want the same link turns are taken round robin. An uncontended hop is one event.

mod router;

use serde::Serialize;

use super::config::MeshConfig;
use super::time::{Clock, Time};
use router::{
    At, EAST, Flight, LOCAL, N_CLASSES, N_QUEUES, NONE, NORTH, OPPOSITE, Output, Queue, Router,
    SOUTH, WEST,
};

/// Which of the two virtual networks a packet uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Asks a NIC for something; may have to wait until that has room.
    Request,
    /// Answers; is always taken at once.
    Reply,
}

/// What travels: the mesh knows no more of a packet than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Where it goes.
    pub target: u16,
    /// On which virtual network.
    pub class: Class,
    /// How long it is.
    pub n_flits: u32,
    /// The caller's name for it.
    pub tag: u32,
}

/// Something that happens inside the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeshEvent {
    /// The packet in front of that queue is through the router.
    Ready(u32),
    /// A link can take a packet again.
    Free(u32),
}

/// Where the mesh puts what follows from a step.
pub trait MeshSink {
    /// `event` happens at `at`.
    fn schedule(&mut self, at: Time, event: MeshEvent);

    /// The last flit of `message` reaches the NIC of its target at `at`.
    fn deliver(&mut self, at: Time, message: Message);
}

/// What the mesh counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MeshStats {
    /// Packets that were sent.
    pub packets: u64,
    /// Flits of these packets.
    pub flits: u64,
    /// Links between routers that packets crossed.
    pub hops: u64,
    /// Picoseconds that packets, ready to leave a router, waited for a link or for room behind it.
    pub wait_ps: u64,
    /// Picoseconds in which each output of each router was busy: node, east, west, south, north;
    /// router after router.
    pub link_busy_ps: Vec<u64>,
}

/// The network of all nodes.
#[derive(Debug)]
pub struct Mesh {
    cycle: Time,
    router: Time,
    link: Time,
    buffer_packets: usize,
    input_packets: u32,
    routers: Vec<Router>,
    /// When each slot of each queue is free; [`Time::NEVER`] while a packet is in it.
    slots: Vec<Time>,
    flights: Vec<Flight>,
    unused: u32,
    /// What it counted, but for what each output did.
    stats: MeshStats,
}

impl Mesh {
    /// A network of `n_nodes` nodes, row after row, each of whose NICs holds up to `input_packets`
    /// requests.
    #[must_use]
    pub fn new(config: &MeshConfig, n_nodes: u16, input_packets: u32) -> Self {
        let clock = Clock::from_mhz(config.clock_mhz);
        let columns = columns(config, n_nodes);
        // Rows are full, so that XY routing meets no gap: the routers behind the last node only
        // pass packets on.
        let n_routers = usize::from(columns) * usize::from(n_nodes.div_ceil(columns));
        let buffer_packets = super::index(u64::from(config.buffer_packets));
        Self {
            cycle: clock.period(),
            router: clock.cycles(config.router_cycles),
            link: clock.cycles(config.link_cycles),
            buffer_packets,
            input_packets,
            routers: (0..n_routers)
                .map(|number| Router::new(number, columns))
                .collect(),
            slots: vec![Time::ZERO; n_routers * N_QUEUES * buffer_packets],
            flights: Vec::new(),
            unused: NONE,
            stats: MeshStats::default(),
        }
    }

    /// The time that a packet of `n_flits` needs from its injection until its last flit is
    /// delivered, `n_hops` links between routers away, if it meets no other.
    #[must_use]
    pub fn unloaded(&self, n_hops: u32, n_flits: u32) -> Time {
        let hop = (self.router + self.link).ps();
        let tail = self.cycle.ps() * (u64::from(n_flits) - 1);
        Time::from_ps(hop * (u64::from(n_hops) + 1) + tail)
    }

    /// The shortest time from anything that happens in the mesh to a delivery that it leads to.
    #[must_use]
    pub fn last_link(&self) -> Time {
        self.link
    }

    /// How many links between routers lie on the way from one node to another.
    #[must_use]
    pub fn distance(&self, from: u16, to: u16) -> u32 {
        let (from_x, from_y) = self.routers[usize::from(from)].place;
        let (to_x, to_y) = self.routers[usize::from(to)].place;
        u32::from(from_x.abs_diff(to_x)) + u32::from(from_y.abs_diff(to_y))
    }

    /// How many routers there are: at least as many as nodes, since rows are full.
    #[must_use]
    pub fn n_routers(&self) -> usize {
        self.routers.len()
    }

    /// What it counted.
    #[must_use]
    pub fn stats(&self) -> MeshStats {
        let outputs = self.routers.iter().flat_map(|router| &router.outputs);
        MeshStats {
            link_busy_ps: outputs.map(|output| output.busy.ps()).collect(),
            ..self.stats.clone()
        }
    }

    /// How many packets are under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        let mut n_unused = 0;
        let mut at = self.unused;
        while at != NONE {
            n_unused += 1;
            at = self.flights[at as usize].next;
        }
        self.flights.len() - n_unused
    }

    /// Hands a packet to the router of node `from` at `at`, which may be ahead of time, but not
    /// before the last packet of its class that was handed to that router.
    pub fn inject(&mut self, at: Time, from: u16, message: Message, sink: &mut impl MeshSink) {
        self.stats.packets += 1;
        self.stats.flits += u64::from(message.n_flits);
        let flight = Flight {
            message,
            ready: at + self.router,
            next: NONE,
            slot: 0,
        };
        let flight = self.store(flight);
        let queue = At {
            router: usize::from(from),
            index: queue_of(LOCAL, message.class),
        };
        self.enqueue(queue, flight, sink);
    }

    /// The NIC of `node` has taken one request out of its input.
    pub fn consumed(&mut self, now: Time, node: u16, sink: &mut impl MeshSink) {
        let router = usize::from(node);
        let state = &mut self.routers[router];
        state.held -= 1;
        if state.outputs[LOCAL].waiting != 0 {
            let index = LOCAL;
            self.wake(At { router, index }, now, sink);
        }
    }

    /// The router in which `event` happens.
    #[must_use]
    pub fn router_of(&self, event: MeshEvent) -> u16 {
        let (MeshEvent::Ready(number) | MeshEvent::Free(number)) = event;
        node_of(At::of(number).router)
    }

    /// Does what happens at `now`.
    #[inline]
    pub fn handle(&mut self, now: Time, event: MeshEvent, sink: &mut impl MeshSink) {
        match event {
            MeshEvent::Ready(queue) => self.ready(now, At::of(queue), sink),
            MeshEvent::Free(output) => self.free(now, At::of(output), sink),
        }
    }

    fn ready(&mut self, now: Time, queue: At, sink: &mut impl MeshSink) {
        let router = queue.router;
        let Message { target, class, .. } = self.front(queue).message;
        let index = self.route(router, usize::from(target));
        let output = At { router, index };
        if self.routers[router].outputs[index].free <= now
            && let Some(slot) = self.room(now, output, class)
        {
            self.depart(now, queue, index, slot, sink);
            return;
        }
        self.routers[router].outputs[index].waiting |= 1 << queue.index;
        self.wake_when_possible(now, output, class, sink);
    }

    fn free(&mut self, now: Time, output: At, sink: &mut impl MeshSink) {
        let At { router, index } = output;
        let state = &mut self.routers[router].outputs[index];
        // Another wake-up has been set in the meantime: this one is out of date.
        if state.wake != now {
            return;
        }
        state.wake = Time::NEVER;
        let Output {
            waiting,
            last,
            free,
            ..
        } = *state;
        if free > now {
            self.wake(output, free, sink);
            return;
        }
        for step in 1..=N_QUEUES {
            let queue = At {
                router,
                index: (usize::from(last) + step) % N_QUEUES,
            };
            if waiting & 1 << queue.index == 0 {
                continue;
            }
            let class = self.front(queue).message.class;
            if let Some(slot) = self.room(now, output, class) {
                self.routers[router].outputs[index].waiting &= !(1 << queue.index);
                self.depart(now, queue, index, slot, sink);
                return;
            }
            self.wake_when_possible(now, output, class, sink);
        }
    }

    /// Sends the packet in front of `queue` out by its router's output `port`, into `slot` of the
    /// queue behind it.
    fn depart(&mut self, now: Time, queue: At, port: usize, slot: u8, sink: &mut impl MeshSink) {
        let router = &mut self.routers[queue.router];
        let Queue { head, free, .. } = router.queues[queue.index];
        let flight = &mut self.flights[head as usize];
        let Flight {
            message,
            ready,
            next,
            slot: left,
        } = *flight;
        let occupied = Time::from_ps(self.cycle.ps() * u64::from(message.n_flits));
        let after = now + occupied;
        self.stats.wait_ps += now.since(ready.max(free)).ps();
        let output = &mut router.outputs[port];
        output.busy += occupied;
        output.free = after;
        output.last = small_index(queue.index);
        let others_wait = output.waiting != 0;
        let behind = At {
            router: router.neighbours[port],
            index: queue_of(OPPOSITE[port], message.class),
        };
        flight.slot = slot;
        flight.ready = now + self.link + self.router;
        if others_wait {
            let index = port;
            self.wake(At { index, ..queue }, after, sink);
        }
        self.leave(queue, (next, left), after, sink);
        if port == LOCAL {
            self.discard(head);
            sink.deliver(after + self.link - self.cycle, message);
        } else {
            self.stats.hops += 1;
            let slots = self.slots_of(behind);
            self.slots[slots + usize::from(slot)] = Time::NEVER;
            self.enqueue(behind, head, sink);
        }
    }

    /// The front packet leaves its queue, completely at `after`, with the slot `left` in it; `next`
    /// is the new front.
    fn leave(&mut self, queue: At, (next, left): (u32, u8), after: Time, sink: &mut impl MeshSink) {
        let router = &mut self.routers[queue.router];
        let state = &mut router.queues[queue.index];
        state.head = next;
        state.free = after;
        let port = queue.index / N_CLASSES;
        let upstream = At {
            router: router.neighbours[port],
            index: OPPOSITE[port],
        };
        if next == NONE {
            state.tail = NONE;
        } else {
            let ready = self.flights[next as usize].ready.max(after);
            sink.schedule(ready, MeshEvent::Ready(queue.number()));
        }
        if port == LOCAL {
            return;
        }
        let slots = self.slots_of(queue);
        self.slots[slots + usize::from(left)] = after;
        if self.routers[upstream.router].outputs[upstream.index].waiting != 0 {
            self.wake(upstream, after, sink);
        }
    }

    fn enqueue(&mut self, queue: At, flight: u32, sink: &mut impl MeshSink) {
        let entry = &mut self.flights[flight as usize];
        entry.next = NONE;
        let state = &mut self.routers[queue.router].queues[queue.index];
        let last = std::mem::replace(&mut state.tail, flight);
        if last == NONE {
            state.head = flight;
            let ready = entry.ready.max(state.free);
            sink.schedule(ready, MeshEvent::Ready(queue.number()));
        } else {
            self.flights[last as usize].next = flight;
        }
    }

    /// Has `output` look at its waiting packets at `at`, or earlier if it was going to.
    fn wake(&mut self, output: At, at: Time, sink: &mut impl MeshSink) {
        let state = &mut self.routers[output.router].outputs[output.index];
        if at < state.wake {
            state.wake = at;
            sink.schedule(at, MeshEvent::Free(output.number()));
        }
    }

    /// Wakes `output` when its link and room behind it are known to be free. If nobody knows yet
    /// when there will be room, whoever makes it wakes the output.
    fn wake_when_possible(
        &mut self,
        now: Time,
        output: At,
        class: Class,
        sink: &mut impl MeshSink,
    ) {
        let room = if output.index == LOCAL {
            now
        } else {
            let slots = self.slots_behind(output, class).iter();
            slots.copied().min().unwrap_or(Time::NEVER)
        };
        let free = self.routers[output.router].outputs[output.index].free;
        let at = room.max(free);
        if at > now && at != Time::NEVER {
            self.wake(output, at, sink);
        }
    }

    /// A place for a packet behind `output`, which for the node itself is its NIC's input.
    fn room(&mut self, now: Time, output: At, class: Class) -> Option<u8> {
        if output.index == LOCAL {
            if class == Class::Request {
                let router = &mut self.routers[output.router];
                if router.held >= self.input_packets {
                    return None;
                }
                router.held += 1;
            }
            return Some(0);
        }
        let slots = self.slots_behind(output, class);
        let slot = slots.iter().position(|&free| free <= now)?;
        Some(small_index(slot))
    }

    fn slots_of(&self, queue: At) -> usize {
        (queue.router * N_QUEUES + queue.index) * self.buffer_packets
    }

    fn slots_behind(&self, output: At, class: Class) -> &[Time] {
        let behind = At {
            router: self.routers[output.router].neighbours[output.index],
            index: queue_of(OPPOSITE[output.index], class),
        };
        let start = self.slots_of(behind);
        &self.slots[start..start + self.buffer_packets]
    }

    /// The output on the way from a router to a node: first along the row, then along the column.
    fn route(&self, router: usize, target: usize) -> usize {
        let (x, y) = self.routers[router].place;
        let (to_x, to_y) = self.routers[target].place;
        // Where a packet goes is as good as random, so this is arithmetic, not branches.
        let along_row = EAST * usize::from(to_x > x) + WEST * usize::from(to_x < x);
        let along_column = SOUTH * usize::from(to_y > y) + NORTH * usize::from(to_y < y);
        along_row + along_column * usize::from(to_x == x)
    }

    fn front(&self, queue: At) -> &Flight {
        let head = self.routers[queue.router].queues[queue.index].head;
        &self.flights[head as usize]
    }

    fn store(&mut self, flight: Flight) -> u32 {
        if self.unused == NONE {
            self.flights.push(flight);
            return small(self.flights.len() - 1);
        }
        let at = self.unused;
        self.unused = self.flights[at as usize].next;
        self.flights[at as usize] = flight;
        at
    }

    fn discard(&mut self, flight: u32) {
        self.flights[flight as usize].next = self.unused;
        self.unused = flight;
    }
}

/// How many routers stand in a row.
fn columns(config: &MeshConfig, n_nodes: u16) -> u16 {
    let given = u16::try_from(config.columns).unwrap_or(u16::MAX);
    if given > 0 {
        return given.min(n_nodes.max(1));
    }
    let root = n_nodes.isqrt();
    (root + u16::from(root * root < n_nodes)).max(1)
}

const fn queue_of(port: usize, class: Class) -> usize {
    port * N_CLASSES + class as usize
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "there are at most 2^16 routers and fewer than 2^32 packets"
)]
const fn small(index: usize) -> u32 {
    index as u32
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a router has ten queues, and a queue at most 255 slots"
)]
const fn small_index(index: usize) -> u8 {
    index as u8
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "nodes are counted in 16 bits"
)]
const fn node_of(router: usize) -> u16 {
    router as u16
}

#[cfg(test)]
mod tests;
