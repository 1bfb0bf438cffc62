//! A two-dimensional mesh of routers: XY routing, virtual cut-through, credits, and links that two packets never share.
//!
//! Each router has five inputs (its own node and four neighbours) with a queue for requests and one for replies, so that
//! requests that wait for a busy NIC never hold up the replies that would free it. A packet moves on when its head is through
//! the router, the link is free and the next queue has room for all of it; it then holds the link for as many cycles as it
//! has flits. Between packets that want the same link turns are taken round robin. An uncontended hop is one event.

use serde::Serialize;

use super::config::MeshConfig;
use super::time::{Clock, Time};

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
    /// Picoseconds in which each output of each router was busy: node, east, west, south, north; router after router.
    pub link_busy_ps: Vec<u64>,
}

const N_PORTS: usize = 5;
const LOCAL: usize = 0;
const EAST: usize = 1;
const WEST: usize = 2;
const SOUTH: usize = 3;
const NORTH: usize = 4;
const N_CLASSES: usize = 2;
const NONE: u32 = u32::MAX;

/// The input at which a packet arrives that left by that output.
const OPPOSITE: [usize; N_PORTS] = [LOCAL, WEST, EAST, NORTH, SOUTH];

#[derive(Clone, Copy, Debug)]
struct Flight {
    message: Message,
    ready: Time,
    next: u32,
    /// Which slot of its queue it occupies.
    slot: u8,
}

/// One input queue of a router, for one class.
#[derive(Clone, Copy, Debug)]
struct Queue {
    head: u32,
    tail: u32,
    /// When the last packet to leave has left with all its flits.
    free: Time,
}

/// One output of a router.
#[derive(Clone, Copy, Debug)]
struct Output {
    free: Time,
    /// One bit for each of the router's queues whose front wants this output.
    waiting: u16,
    /// Which queue's turn it was last.
    last: u8,
    /// When the next [`MeshEvent::Free`] is due.
    wake: Time,
}

/// The network of all nodes.
#[derive(Debug)]
pub struct Mesh {
    columns: u16,
    /// Column and row of each router.
    places: Vec<(u16, u16)>,
    cycle: Time,
    router: Time,
    link: Time,
    buffer_packets: usize,
    input_packets: u32,
    queues: Vec<Queue>,
    /// When each slot of each queue is free; [`Time::NEVER`] while a packet is in it.
    slots: Vec<Time>,
    outputs: Vec<Output>,
    /// Request packets that each NIC holds or is being sent.
    held: Vec<u32>,
    flights: Vec<Flight>,
    unused: u32,
    stats: MeshStats,
}

impl Mesh {
    /// A network of `n_nodes` nodes, row after row, each of whose NICs holds up to `input_packets` requests.
    #[must_use]
    pub fn new(config: &MeshConfig, n_nodes: u16, input_packets: u32) -> Self {
        let clock = Clock::from_mhz(config.clock_mhz);
        let columns = columns(config, n_nodes);
        // Rows are full, so that XY routing meets no gap: the routers behind the last node only pass packets on.
        let rows = n_nodes.div_ceil(columns);
        let n_routers = usize::from(columns) * usize::from(rows);
        let n_queues = n_routers * N_PORTS * N_CLASSES;
        let buffer_packets = super::index(u64::from(config.buffer_packets));
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
        };
        Self {
            columns,
            places: (0..rows)
                .flat_map(|y| (0..columns).map(move |x| (x, y)))
                .collect(),
            cycle: clock.period(),
            router: clock.cycles(config.router_cycles),
            link: clock.cycles(config.link_cycles),
            buffer_packets,
            input_packets,
            queues: vec![queue; n_queues],
            slots: vec![Time::ZERO; n_queues * buffer_packets],
            outputs: vec![output; n_routers * N_PORTS],
            held: vec![0; n_routers],
            flights: Vec::new(),
            unused: NONE,
            stats: MeshStats {
                link_busy_ps: vec![0; n_routers * N_PORTS],
                ..MeshStats::default()
            },
        }
    }

    /// The time that a packet of `n_flits` needs from its injection until its last flit is delivered, `n_hops` links between
    /// routers away, if it meets no other.
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
        let (from_x, from_y) = self.places[usize::from(from)];
        let (to_x, to_y) = self.places[usize::from(to)];
        let (x, y) = (from_x.abs_diff(to_x), from_y.abs_diff(to_y));
        u32::from(x) + u32::from(y)
    }

    /// How many routers there are: at least as many as nodes, since rows are full.
    #[must_use]
    pub fn n_routers(&self) -> usize {
        self.held.len()
    }

    /// What it counted.
    #[must_use]
    pub fn stats(&self) -> &MeshStats {
        &self.stats
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

    /// Hands a packet to the router of node `from` at `at`, which may be ahead of time, but not before the last packet of its
    /// class that was handed to that router.
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
        let queue = queue_of(usize::from(from), LOCAL, message.class);
        self.enqueue(queue, flight, sink);
    }

    /// The NIC of `node` has taken one request out of its input.
    pub fn consumed(&mut self, now: Time, node: u16, sink: &mut impl MeshSink) {
        self.held[usize::from(node)] -= 1;
        let output = usize::from(node) * N_PORTS + LOCAL;
        if self.outputs[output].waiting != 0 {
            self.wake(output, now, sink);
        }
    }

    /// The router in which `event` happens.
    #[must_use]
    pub fn router_of(&self, event: MeshEvent) -> u16 {
        match event {
            MeshEvent::Ready(queue) => node_of(queue as usize / (N_PORTS * N_CLASSES)),
            MeshEvent::Free(output) => node_of(output as usize / N_PORTS),
        }
    }

    /// Does what happens at `now`.
    pub fn handle(&mut self, now: Time, event: MeshEvent, sink: &mut impl MeshSink) {
        match event {
            MeshEvent::Ready(queue) => self.ready(now, queue as usize, sink),
            MeshEvent::Free(output) => self.free(now, output as usize, sink),
        }
    }

    fn ready(&mut self, now: Time, queue: usize, sink: &mut impl MeshSink) {
        let router = queue / (N_PORTS * N_CLASSES);
        let message = self.front(queue).message;
        let output = router * N_PORTS + self.route(router, usize::from(message.target));
        if self.outputs[output].free <= now
            && let Some(slot) = self.room(now, output, message.class)
        {
            self.depart(now, queue, output, slot, sink);
            return;
        }
        self.outputs[output].waiting |= 1 << (queue % (N_PORTS * N_CLASSES));
        self.wake_when_possible(now, output, message.class, sink);
    }

    fn free(&mut self, now: Time, output: usize, sink: &mut impl MeshSink) {
        // Another wake-up has been set in the meantime: this one is out of date.
        if self.outputs[output].wake != now {
            return;
        }
        self.outputs[output].wake = Time::NEVER;
        if self.outputs[output].free > now {
            self.wake(output, self.outputs[output].free, sink);
            return;
        }
        let first = output / N_PORTS * N_PORTS * N_CLASSES;
        let n_queues = N_PORTS * N_CLASSES;
        let Output { waiting, last, .. } = self.outputs[output];
        for step in 1..=n_queues {
            let index = (usize::from(last) + step) % n_queues;
            if waiting & 1 << index == 0 {
                continue;
            }
            let class = self.front(first + index).message.class;
            if let Some(slot) = self.room(now, output, class) {
                self.outputs[output].waiting &= !(1 << index);
                self.depart(now, first + index, output, slot, sink);
                return;
            }
            self.wake_when_possible(now, output, class, sink);
        }
    }

    /// Sends the packet in front of `queue` out by `output`, into `slot` of the queue behind it.
    fn depart(
        &mut self,
        now: Time,
        queue: usize,
        output: usize,
        slot: u8,
        sink: &mut impl MeshSink,
    ) {
        let flight_at = self.queues[queue].head;
        let flight = self.flights[flight_at as usize];
        let occupied = Time::from_ps(self.cycle.ps() * u64::from(flight.message.n_flits));
        self.stats.wait_ps += now.since(flight.ready.max(self.queues[queue].free)).ps();
        self.stats.link_busy_ps[output] += occupied.ps();
        let after = now + occupied;
        let port = &mut self.outputs[output];
        port.free = after;
        port.last = u8::try_from(queue % (N_PORTS * N_CLASSES)).unwrap_or_default();
        if port.waiting != 0 {
            self.wake(output, after, sink);
        }
        self.leave(queue, flight, after, sink);
        let router = output / N_PORTS;
        match output % N_PORTS {
            LOCAL => {
                self.discard(flight_at);
                sink.deliver(after + self.link - self.cycle, flight.message);
            }
            port => {
                self.stats.hops += 1;
                let next = queue_of(
                    self.neighbour(router, port),
                    OPPOSITE[port],
                    flight.message.class,
                );
                self.slots[next * self.buffer_packets + usize::from(slot)] = Time::NEVER;
                let flight = &mut self.flights[flight_at as usize];
                flight.slot = slot;
                flight.ready = now + self.link + self.router;
                self.enqueue(next, flight_at, sink);
            }
        }
    }

    /// Takes the front packet out of its queue, which it will have left completely at `after`.
    fn leave(&mut self, queue: usize, flight: Flight, after: Time, sink: &mut impl MeshSink) {
        let state = &mut self.queues[queue];
        state.head = flight.next;
        state.free = after;
        if flight.next == NONE {
            state.tail = NONE;
        } else {
            let ready = self.flights[flight.next as usize].ready.max(after);
            self.schedule_ready(queue, ready, sink);
        }
        let port = queue / N_CLASSES % N_PORTS;
        if port == LOCAL {
            return;
        }
        self.slots[queue * self.buffer_packets + usize::from(flight.slot)] = after;
        let router = queue / (N_PORTS * N_CLASSES);
        let upstream = self.neighbour(router, port) * N_PORTS + OPPOSITE[port];
        if self.outputs[upstream].waiting != 0 {
            self.wake(upstream, after, sink);
        }
    }

    fn enqueue(&mut self, queue: usize, flight: u32, sink: &mut impl MeshSink) {
        self.flights[flight as usize].next = NONE;
        let state = &mut self.queues[queue];
        if state.head == NONE {
            state.head = flight;
            state.tail = flight;
            let ready = self.flights[flight as usize].ready.max(state.free);
            self.schedule_ready(queue, ready, sink);
        } else {
            self.flights[state.tail as usize].next = flight;
            state.tail = flight;
        }
    }

    fn schedule_ready(&self, queue: usize, at: Time, sink: &mut impl MeshSink) {
        sink.schedule(at, MeshEvent::Ready(small(queue)));
    }

    /// Has `output` look at its waiting packets at `at`, or earlier if it was going to.
    fn wake(&mut self, output: usize, at: Time, sink: &mut impl MeshSink) {
        if at < self.outputs[output].wake {
            self.outputs[output].wake = at;
            sink.schedule(at, MeshEvent::Free(small(output)));
        }
    }

    /// Wakes `output` when its link and room behind it are known to be free. If nobody knows yet when there will be room,
    /// whoever makes it wakes the output.
    fn wake_when_possible(
        &mut self,
        now: Time,
        output: usize,
        class: Class,
        sink: &mut impl MeshSink,
    ) {
        let room = match (output % N_PORTS, class) {
            (LOCAL, _) => now,
            (port, class) => {
                let next = queue_of(
                    self.neighbour(output / N_PORTS, port),
                    OPPOSITE[port],
                    class,
                );
                let start = next * self.buffer_packets;
                let slots = &self.slots[start..start + self.buffer_packets];
                slots.iter().copied().min().unwrap_or(Time::NEVER)
            }
        };
        let at = room.max(self.outputs[output].free);
        if at > now && at != Time::NEVER {
            self.wake(output, at, sink);
        }
    }

    /// A place for a packet behind `output`, which for the node itself is its NIC's input.
    fn room(&mut self, now: Time, output: usize, class: Class) -> Option<u8> {
        let router = output / N_PORTS;
        let port = output % N_PORTS;
        if port == LOCAL {
            if class == Class::Request {
                if self.held[router] >= self.input_packets {
                    return None;
                }
                self.held[router] += 1;
            }
            return Some(0);
        }
        let next = queue_of(self.neighbour(router, port), OPPOSITE[port], class);
        let start = next * self.buffer_packets;
        let slots = &self.slots[start..start + self.buffer_packets];
        let slot = slots.iter().position(|&free| free <= now)?;
        u8::try_from(slot).ok()
    }

    /// The output on the way from a router to a node: first along the row, then along the column.
    fn route(&self, router: usize, target: usize) -> usize {
        let (x, y) = self.places[router];
        let (to_x, to_y) = self.places[target];
        if to_x != x {
            if to_x > x { EAST } else { WEST }
        } else if to_y != y {
            if to_y > y { SOUTH } else { NORTH }
        } else {
            LOCAL
        }
    }

    fn neighbour(&self, router: usize, port: usize) -> usize {
        match port {
            EAST => router + 1,
            WEST => router - 1,
            SOUTH => router + usize::from(self.columns),
            NORTH => router - usize::from(self.columns),
            _ => router,
        }
    }

    fn front(&self, queue: usize) -> &Flight {
        &self.flights[self.queues[queue].head as usize]
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

const fn queue_of(router: usize, port: usize, class: Class) -> usize {
    (router * N_PORTS + port) * N_CLASSES + class as usize
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "there are at most 2^16 routers and fewer than 2^32 queues and packets"
)]
const fn small(index: usize) -> u32 {
    index as u32
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
