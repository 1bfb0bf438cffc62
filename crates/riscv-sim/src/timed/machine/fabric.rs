//! What the nodes share: the event queue, the packets under way and the mesh.

use super::{MOST_CORES, MOST_NODES};
use crate::timed::config::TimedConfig;
use crate::timed::mesh::{Class, Mesh, MeshEvent, MeshSink, Message};
use crate::timed::nic::mapping;
use crate::timed::packet::Request;
use crate::timed::queue::EventQueue;
use crate::timed::time::{Clock, Time};
use crate::timed::trace::{Row, Span, Trace};

/// What happens next somewhere.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// Something in the mesh.
    Mesh(MeshEvent),
    /// A request has been taken apart, and goes to the NIC's core.
    Arrive { packet: u32 },
    /// A reply has been taken apart, and goes to the core.
    Reply { packet: u32 },
    /// A miss of the core reaches its directory.
    CoreAsks { hart: u16 },
    /// A miss of the NIC reaches its directory.
    NicAsks { node: u16, entry: u8 },
    /// The directory's transaction on a line ends.
    Grant { node: u16, line: u64 },
    /// An MSHR entry may be idle.
    Close { node: u16, entry: u8 },
}

/// A remote operation under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) request: Request,
    pub(super) source: u16,
    /// The core that asked, counted over all nodes.
    pub(super) hart: u16,
    pub(super) issued: Time,
    pub(super) value: u64,
    /// The next packet in its NIC's input, or the next unused one.
    pub(super) next: u32,
}

pub(super) const NO_PACKET: u32 = u32::MAX;

/// Who causes an event: a core by its instructions, or anything else in its node, the router among
/// it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cause {
    /// One of a node's cores.
    Core {
        node: u16,
        core: u16,
    },
    Node(u16),
}

impl Cause {
    const fn number(self, n_cores: u16) -> usize {
        let each = n_cores as usize + 1;
        match self {
            Self::Core { node, core } => each * node as usize + core as usize,
            Self::Node(node) => each * node as usize + n_cores as usize,
        }
    }
}

/// The events with the numbers that break ties in time: first who caused the event, then how many
/// it had caused before; behind them packets that are ready to leave a router, by their queues. All
/// depend only on what came before in simulated time, not on what was simulated first.
#[derive(Debug)]
pub(super) struct Agenda {
    queue: EventQueue<Event>,
    n_caused: Vec<u64>,
    /// How many cores a node has.
    n_cores: u16,
    /// Who causes what is being pushed.
    cause: usize,
    /// The reply that the mesh has just delivered, and when it will have been taken apart.
    delivered: Option<(Time, u32)>,
    /// When something waits to happen in each node, the mesh left out, in no order.
    inside: Vec<Vec<Time>>,
    /// How many requests are on their way to each node, in the mesh or about to enter it.
    towards: Vec<u32>,
    receive: Time,
    mapping: Time,
    /// When each node's packetizer can take the next request and the next reply apart.
    receives: Vec<[Time; 2]>,
    /// For how long a packet keeps it from the next one.
    busy: Time,
}

/// What is busy for so long with each that comes to it takes this one at `at`, or when it is free.
pub(super) fn turn(free: &mut Time, at: Time, busy: Time) -> Time {
    if busy == Time::ZERO {
        return at;
    }
    let begun = at.max(*free);
    *free = begun + busy;
    begun
}

/// Below lies how many events a cause had caused before.
const CAUSE_SHIFT: u32 = 46;

/// The causes of the largest machine: the cores of a router and itself. The mesh has fewer routers
/// than twice the nodes, for its last row need not be full.
const MOST_CAUSES: usize = (MOST_CORES as usize + 1) * 2 * MOST_NODES as usize;

const _: () = assert!(MOST_CAUSES < 1 << (u64::BITS - CAUSE_SHIFT));

impl Agenda {
    pub(super) fn next_time(&self) -> Time {
        self.queue.next_time()
    }

    /// When the next thing happens inside `node`, among what is known to happen.
    pub(super) fn next_inside(&self, node: u16) -> Time {
        let times = self.inside[usize::from(node)].iter();
        times.copied().min().unwrap_or(Time::NEVER)
    }

    /// Whether a request is on its way to `node` and has not been delivered.
    pub(super) fn is_sought(&self, node: u16) -> bool {
        self.towards[usize::from(node)] > 0
    }

    pub(super) fn pop(&mut self) -> Option<(Time, Event)> {
        self.queue.pop()
    }

    /// An event inside `node` is being handled, which causes what follows.
    pub(super) fn inside(&mut self, now: Time, node: u16) {
        let times = &mut self.inside[usize::from(node)];
        if let Some(at) = times.iter().position(|&time| time == now) {
            times.swap_remove(at);
        }
        self.caused_by(Cause::Node(node));
    }

    /// The reply that the event in the mesh which has just been handled delivered.
    pub(super) fn take_delivered(&mut self) -> Option<(Time, u32)> {
        self.delivered.take()
    }

    pub(super) fn caused_by(&mut self, cause: Cause) {
        self.cause = cause.number(self.n_cores);
    }

    /// `event` happens inside `node` at `at`.
    pub(super) fn push(&mut self, at: Time, node: u16, event: Event) {
        self.inside[usize::from(node)].push(at);
        self.push_event(at, event);
    }

    fn push_event(&mut self, at: Time, event: Event) {
        let n_caused = &mut self.n_caused[self.cause];
        *n_caused += 1;
        let order = (self.cause as u64) << CAUSE_SHIFT | *n_caused;
        self.queue.push(at, order, event);
    }
}

impl MeshSink for Agenda {
    fn schedule(&mut self, at: Time, event: MeshEvent) {
        // A packet is handed over when its core is simulated, and its queue may be empty by then or
        // not: so either the core or the packet before it causes the event. The queue, which has
        // one such event at a time, is the same in both cases.
        if let MeshEvent::Ready(queue) = event {
            let order = (self.n_caused.len() as u64) << CAUSE_SHIFT | u64::from(queue);
            return self.queue.push(at, order, Event::Mesh(event));
        }
        self.push_event(at, Event::Mesh(event));
    }

    fn deliver(&mut self, at: Time, message: Message) {
        let node = message.target;
        let packet = message.tag;
        let free = &mut self.receives[usize::from(node)][message.class as usize];
        let at = turn(free, at, self.busy);
        match message.class {
            Class::Request => {
                self.towards[usize::from(node)] -= 1;
                let at = at + self.receive + self.mapping;
                self.push(at, node, Event::Arrive { packet });
            }
            Class::Reply => self.delivered = Some((at + self.receive, packet)),
        }
    }
}

#[derive(Debug)]
pub(super) struct Fabric {
    pub(super) agenda: Agenda,
    pub(super) mesh: Mesh,
    pub(super) packets: Vec<Packet>,
    pub(super) trace: Option<Trace>,
    unused: u32,
    flit_bits: u32,
    send: Time,
    lookup: Time,
    /// When each node's packetizer can make the next request and the next reply.
    sends: Vec<[Time; 2]>,
}

impl Fabric {
    pub(super) fn new(config: &TimedConfig, n_nodes: u16, n_cores: u16) -> Self {
        let clock = Clock::from_mhz(config.core.clock_mhz);
        let mesh = Mesh::new(&config.mesh, n_nodes, config.nic.input_packets);
        let agenda = Agenda {
            queue: EventQueue::new(),
            n_caused: vec![0; (usize::from(n_cores) + 1) * mesh.n_routers()],
            n_cores,
            cause: 0,
            delivered: None,
            inside: vec![Vec::new(); usize::from(n_nodes)],
            towards: vec![0; usize::from(n_nodes)],
            receive: clock.cycles(config.nic.receive_cycles),
            mapping: clock.cycles(config.nic.mapping_cycles),
            receives: vec![[Time::ZERO; 2]; usize::from(n_nodes)],
            busy: clock.cycles(config.nic.packet_cycles),
        };
        Self {
            agenda,
            mesh,
            packets: Vec::new(),
            trace: None,
            unused: NO_PACKET,
            flit_bits: config.mesh.flit_bits,
            send: clock.cycles(config.nic.send_cycles),
            lookup: clock.cycles(config.core.lookup_cycles),
            sends: vec![[Time::ZERO; 2]; usize::from(n_nodes)],
        }
    }

    /// The shortest time from an event anywhere else to one inside a node: what the last link of a
    /// packet takes.
    pub(super) fn arrival(&self) -> Time {
        self.mesh.last_link() + self.agenda.receive
    }

    /// The time within which nothing that a core does can reach another node, or another core of
    /// its own.
    pub(super) fn lookahead(&self) -> Time {
        let n_hops = u32::from(self.agenda.n_cores == 1);
        self.lookup + self.send + self.mesh.unloaded(n_hops, 1) + self.agenda.receive
    }

    /// A core issues `request` at `now`; its packet reaches the router at the time that is given
    /// back.
    pub(super) fn issue(
        &mut self,
        now: Time,
        (source, hart): (u16, u16),
        request: Request,
    ) -> Time {
        let packet = Packet {
            request,
            source,
            hart,
            issued: now,
            value: 0,
            next: NO_PACKET,
        };
        let packet = if self.unused == NO_PACKET {
            self.packets.push(packet);
            u32::try_from(self.packets.len() - 1).expect("fewer than 2^32 packets")
        } else {
            let at = self.unused;
            self.unused = self.packets[at as usize].next;
            self.packets[at as usize] = packet;
            at
        };
        self.agenda.towards[usize::from(request.target)] += 1;
        let at = self.made(source, Class::Request, now + self.lookup);
        let message = Message {
            target: request.target,
            class: Class::Request,
            n_flits: request.n_request_flits(self.flit_bits),
            tag: packet,
        };
        self.mesh.inject(at, source, message, &mut self.agenda);
        at
    }

    /// When a packet that can be made at `at` will have been.
    fn made(&mut self, node: u16, class: Class, at: Time) -> Time {
        let free = &mut self.sends[usize::from(node)][class as usize];
        turn(free, at, self.agenda.busy) + self.send
    }

    /// The NIC has executed a packet's request; the result is there at `done`.
    pub(super) fn respond(&mut self, done: Time, packet: u32, value: u64) {
        let state = &mut self.packets[packet as usize];
        state.value = value;
        let message = Message {
            target: state.source,
            class: Class::Reply,
            n_flits: state.request.n_reply_flits(self.flit_bits),
            tag: packet,
        };
        let from = state.request.target;
        let at = self.made(from, Class::Reply, done);
        self.mesh.inject(at, from, message, &mut self.agenda);
    }

    /// Records that the remote operation of a packet was under way, or executed, from `start` to
    /// `end` in a row of `node`.
    pub(super) fn record(&mut self, packet: u32, node: u16, row: Row, start: Time, end: Time) {
        let Some(trace) = &mut self.trace else {
            return;
        };
        let Packet {
            request, source, ..
        } = &self.packets[packet as usize];
        let peer = if row == Row::Nic {
            *source
        } else {
            request.target
        };
        trace.record(Span {
            node,
            row,
            name: mapping::lookup(request.operation, request.bytes).local,
            start,
            end,
            address: request.address,
            peer: Some(peer),
        });
    }

    /// Records what happened to a line of `node`.
    pub(super) fn record_line(
        &mut self,
        node: u16,
        row: Row,
        (start, end): (Time, Time),
        address: u64,
    ) {
        if let Some(trace) = &mut self.trace {
            trace.record(Span {
                node,
                row,
                name: "line",
                start,
                end,
                address,
                peer: None,
            });
        }
    }

    pub(super) fn discard(&mut self, packet: u32) {
        self.packets[packet as usize].next = self.unused;
        self.unused = packet;
    }
}
