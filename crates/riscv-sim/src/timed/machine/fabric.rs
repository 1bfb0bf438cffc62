//! What the nodes share: the event queue, the packets under way and the mesh.

use crate::timed::config::TimedConfig;
use crate::timed::mesh::{Class, Mesh, MeshEvent, MeshSink, Message};
use crate::timed::packet::Request;
use crate::timed::queue::EventQueue;
use crate::timed::time::{Clock, Time};

/// What happens next somewhere.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A packet has been made and goes to the router.
    Inject { packet: u32 },
    /// Something in the mesh.
    Mesh(MeshEvent),
    /// A request has been taken apart, and goes to the NIC's core.
    Arrive { packet: u32 },
    /// A reply has been taken apart, and goes to the core.
    Reply { packet: u32 },
    /// A miss of the core reaches its directory.
    CoreAsks { node: u16 },
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
    pub(super) is_reply: bool,
    pub(super) issued: Time,
    pub(super) value: u64,
    /// The next packet in its NIC's input, or the next unused one.
    pub(super) next: u32,
}

impl Packet {
    /// The node whose router it enters next.
    pub(super) fn sender(&self) -> u16 {
        if self.is_reply {
            self.request.target
        } else {
            self.source
        }
    }
}

pub(super) const NO_PACKET: u32 = u32::MAX;

/// The events with the numbers that break ties in time: first the node that caused the event, then how many it had caused
/// before. Both depend only on what that node did before, not on which of two nodes was simulated first.
#[derive(Debug)]
pub(super) struct Agenda {
    queue: EventQueue<Event>,
    n_caused: Vec<u64>,
    /// The node whose event is being handled.
    cause: u16,
    receive: Time,
    mapping: Time,
}

const CAUSE_SHIFT: u32 = 48;

impl Agenda {
    pub(super) fn next_time(&self) -> Time {
        self.queue.next_time()
    }

    pub(super) fn pop(&mut self) -> Option<(Time, Event)> {
        self.queue.pop()
    }

    pub(super) fn caused_by(&mut self, node: u16) {
        self.cause = node;
    }

    pub(super) fn push(&mut self, at: Time, event: Event) {
        let n_caused = &mut self.n_caused[usize::from(self.cause)];
        *n_caused += 1;
        let order = u64::from(self.cause) << CAUSE_SHIFT | *n_caused;
        self.queue.push(at, order, event);
    }
}

impl MeshSink for Agenda {
    fn schedule(&mut self, at: Time, event: MeshEvent) {
        self.push(at, Event::Mesh(event));
    }

    fn deliver(&mut self, at: Time, message: Message) {
        let packet = message.tag;
        match message.class {
            Class::Request => {
                let at = at + self.receive + self.mapping;
                self.push(at, Event::Arrive { packet });
            }
            Class::Reply => self.push(at + self.receive, Event::Reply { packet }),
        }
    }
}

#[derive(Debug)]
pub(super) struct Fabric {
    pub(super) agenda: Agenda,
    pub(super) mesh: Mesh,
    pub(super) packets: Vec<Packet>,
    unused: u32,
    flit_bits: u32,
    send: Time,
    lookup: Time,
}

impl Fabric {
    pub(super) fn new(config: &TimedConfig, n_nodes: u16) -> Self {
        let clock = Clock::from_mhz(config.core.clock_mhz);
        let mesh = Mesh::new(&config.mesh, n_nodes, config.nic.input_packets);
        let agenda = Agenda {
            queue: EventQueue::new(),
            n_caused: vec![0; mesh.n_routers()],
            cause: 0,
            receive: clock.cycles(config.nic.receive_cycles),
            mapping: clock.cycles(config.nic.mapping_cycles),
        };
        Self {
            agenda,
            mesh,
            packets: Vec::new(),
            unused: NO_PACKET,
            flit_bits: config.mesh.flit_bits,
            send: clock.cycles(config.nic.send_cycles),
            lookup: clock.cycles(config.core.lookup_cycles),
        }
    }

    /// The time within which nothing that a core does can reach another node.
    pub(super) fn lookahead(&self) -> Time {
        self.lookup + self.send + self.mesh.unloaded(1, 1)
    }

    /// A core issues `request` at `now`; its packet reaches the router at the time that is given back.
    pub(super) fn issue(&mut self, now: Time, source: u16, request: Request) -> Time {
        let packet = Packet {
            request,
            source,
            is_reply: false,
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
        let at = now + self.lookup + self.send;
        self.agenda.push(at, Event::Inject { packet });
        at
    }

    /// The NIC has executed a packet's request; the result is there at `done`.
    pub(super) fn respond(&mut self, done: Time, packet: u32, value: u64) {
        let state = &mut self.packets[packet as usize];
        state.is_reply = true;
        state.value = value;
        self.agenda.push(done + self.send, Event::Inject { packet });
    }

    /// A packet goes to its router.
    pub(super) fn inject(&mut self, now: Time, packet: u32) {
        let Packet {
            request,
            source,
            is_reply,
            ..
        } = self.packets[packet as usize];
        let (from, target, class, n_flits) = if is_reply {
            let n_flits = request.n_reply_flits(self.flit_bits);
            (request.target, source, Class::Reply, n_flits)
        } else {
            let n_flits = request.n_request_flits(self.flit_bits);
            (source, request.target, Class::Request, n_flits)
        };
        let message = Message {
            target,
            class,
            n_flits,
            tag: packet,
        };
        self.mesh.inject(now, from, message, &mut self.agenda);
    }

    pub(super) fn discard(&mut self, packet: u32) {
        self.packets[packet as usize].next = self.unused;
        self.unused = packet;
    }
}
