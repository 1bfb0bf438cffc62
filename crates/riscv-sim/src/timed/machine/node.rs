//! A node: its cores' timing, its caches, directory, NIC and memory, and what they do when an event
//! reaches them.

use super::fabric::{Event, Fabric, NO_PACKET, turn};
use super::port::{Access, Processor};
use crate::timed::cache::State;
use crate::timed::config::TimedConfig;
use crate::timed::core::{Core, CoreStats};
use crate::timed::directory::{Agent, Answer, Directory, Grant, Right};
use crate::timed::dram::Dram;
use crate::timed::hierarchy::{Found, Hierarchy};
use crate::timed::nic::mshr::{Entry, Subentry};
use crate::timed::nic::{Accepted, Idle, Nic, Released, mapping};
use crate::timed::time::{Clock, Time};
use crate::timed::trace::Row;

/// The times that requests inside a node take.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeTimes {
    directory: Time,
    bus: Time,
    busy: Time,
    nic_lookup: Time,
    line_shift: u32,
}

impl NodeTimes {
    pub(super) fn new(config: &TimedConfig) -> Self {
        let clock = Clock::from_mhz(config.core.clock_mhz);
        Self {
            directory: clock.cycles(config.directory.cycles),
            bus: clock.cycles(config.directory.bus_cycles),
            busy: clock.cycles(config.directory.busy_cycles),
            nic_lookup: clock.cycles(config.nic.hit_cycles),
            line_shift: config.line_bytes.trailing_zeros(),
        }
    }
}

/// Requests that the NIC has not taken yet, first come first served.
#[derive(Debug)]
struct Input {
    head: u32,
    tail: u32,
    /// The first of them found no room in the MSHRs.
    stalled: bool,
}

/// A core's timing, and what it waits for in its node.
#[derive(Debug)]
pub(super) struct CoreState {
    pub(super) core: Core,
    /// The access that it waits for.
    pub(super) miss: Option<Access>,
    /// It has asked the directory for its line.
    asks: bool,
    /// Another core of the node has, and it waits with that one.
    joined: bool,
}

/// The cores that an event lets go on, one bit each.
pub(super) type Cores = u64;

#[derive(Debug)]
pub(super) struct Node {
    number: u16,
    times: NodeTimes,
    pub(super) cores: Vec<CoreState>,
    pub(super) caches: Hierarchy,
    pub(super) directory: Directory,
    pub(super) nic: Nic,
    pub(super) dram: Dram,
    /// When the directory takes the next request, if it takes one at a time.
    directory_free: Time,
    input: Input,
}

impl Node {
    pub(super) fn new(number: u16, config: &TimedConfig, n_cores: u16) -> Self {
        let core = |_| CoreState {
            core: Core::new(config),
            miss: None,
            asks: false,
            joined: false,
        };
        Self {
            number,
            times: NodeTimes::new(config),
            cores: (0..n_cores).map(core).collect(),
            caches: Hierarchy::new(config, n_cores.into()),
            directory: Directory::new(),
            nic: Nic::new(config),
            dram: Dram::new(&config.dram, config.line_bytes),
            directory_free: Time::ZERO,
            input: Input {
                head: NO_PACKET,
                tail: NO_PACKET,
                stalled: false,
            },
        }
    }

    /// Cycles until the last instruction of its cores.
    pub(super) fn cycles(&self) -> u64 {
        let ends = self
            .cores
            .iter()
            .map(|it| it.core.clock().count(it.core.now()));
        ends.max().unwrap_or(0)
    }

    /// What its cores counted together.
    pub(super) fn core_stats(&self) -> CoreStats {
        let all = self.cores.iter().map(|it| it.core.stats);
        all.fold(CoreStats::default(), CoreStats::plus)
    }

    /// A request has come to the NIC's core.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        packet: u32,
        fabric: &mut Fabric,
        processor: &mut impl Processor,
    ) {
        fabric.packets[packet as usize].next = NO_PACKET;
        if self.input.head == NO_PACKET {
            self.input.head = packet;
        } else {
            fabric.packets[self.input.tail as usize].next = packet;
        }
        self.input.tail = packet;
        if !self.input.stalled {
            self.take_input(now, fabric, processor);
        }
    }

    /// Something has been executed or released: a request that found no room may find some now.
    fn retry_input(&mut self, now: Time, fabric: &mut Fabric, processor: &mut impl Processor) {
        if std::mem::take(&mut self.input.stalled) {
            self.take_input(now, fabric, processor);
        }
    }

    fn take_input(&mut self, now: Time, fabric: &mut Fabric, processor: &mut impl Processor) {
        while self.input.head != NO_PACKET {
            let packet = self.input.head;
            let state = fabric.packets[packet as usize];
            let operation = state.request.operation;
            let line = state.request.address >> self.times.line_shift;
            let subentry = Subentry {
                code: mapping::lookup(operation, state.request.bytes).code,
                packet,
            };
            match self.nic.accept(now, line, subentry, operation.writes()) {
                Accepted::Full => {
                    self.input.stalled = true;
                    return;
                }
                Accepted::Waits => {}
                Accepted::Run(done) => {
                    let begun = done - self.times.nic_lookup;
                    execute(begun, done, packet, fabric, processor);
                }
                Accepted::Fetch(entry, evicted) => {
                    self.give_up(now, evicted);
                    // The request takes its place at the directory at once, and is there when the
                    // NIC has looked the line up.
                    self.nic_asks(now + self.times.nic_lookup, entry, fabric);
                }
            }
            self.input.head = state.next;
            fabric.mesh.consumed(now, self.number, &mut fabric.agenda);
        }
    }

    /// The NIC has given a line up of its own accord.
    fn give_up(&mut self, now: Time, released: Option<Released>) {
        if let Some(Released { line, dirty }) = released {
            self.directory.release(Agent::Nic, line);
            self.write_back(now, line, dirty);
        }
    }

    fn write_back(&mut self, now: Time, line: u64, dirty: bool) {
        if dirty {
            self.dram.write(now + self.times.directory, line);
        }
    }

    /// A core's miss reaches the directory. Gives the core if another one has brought the line in
    /// the meantime.
    pub(super) fn core_asks(&mut self, now: Time, core: usize, fabric: &mut Fabric) -> Cores {
        let Some(access) = self.cores[core].miss else {
            return 0;
        };
        if self.cores.len() > 1 {
            let others = self.cores.iter();
            let mut asking = others.filter(|it| it.asks).filter_map(|it| it.miss);
            if asking.any(|it| it.line == access.line) {
                self.cores[core].joined = true;
                return 0;
            }
            if self.serve(now, core, access) {
                return 1 << core;
            }
        }
        self.ask_for(now, core, access, fabric);
        0
    }

    /// Asks the directory for a core.
    fn ask_for(&mut self, now: Time, core: usize, access: Access, fabric: &mut Fabric) {
        let want = if access.write {
            Right::Exclusive
        } else {
            Right::Shared
        };
        self.cores[core].asks = true;
        self.ask(now, Agent::Core, access.line, want, fabric);
    }

    /// Has a core that waits take its line from the second level. False if that does not hold it in
    /// a state that serves.
    fn serve(&mut self, now: Time, core: usize, access: Access) -> bool {
        let at = match self.caches.serve(access.first, access.line, access.write) {
            Found::Nowhere => return false,
            Found::Neighbour => now + self.times.bus,
            Found::First | Found::Second => now,
        };
        self.cores[core].core.line_arrives(at);
        true
    }

    /// The NIC's miss reaches the directory at `now`.
    pub(super) fn nic_asks(&mut self, now: Time, entry: u8, fabric: &mut Fabric) {
        let line = self.nic.mshrs().entry(entry).line;
        self.ask(now, Agent::Nic, line, self.nic.want(entry), fabric);
    }

    fn ask(&mut self, now: Time, agent: Agent, line: u64, want: Right, fabric: &mut Fabric) {
        let begun = turn(&mut self.directory_free, now, self.times.busy);
        self.directory.stats.busy_wait_ps += begun.since(now).ps();
        let decided = begun + self.times.directory;
        let over_bus = decided + self.times.bus;
        let ready = match self.directory.request(agent, line, want) {
            Answer::Wait => return,
            Answer::Upgrade => decided,
            Answer::Fetch => self.dram.read(decided, line),
            Answer::Recall(right) if agent == Agent::Nic => {
                let state = match right {
                    Right::Exclusive => self.caches.invalidate(line),
                    Right::Shared => self.caches.downgrade(line),
                };
                let left = (right == Right::Shared).then_some(Right::Shared);
                let source = self.directory.recalled(line, left);
                if right == Right::Shared {
                    self.write_back(now, line, state == Some(State::Modified));
                }
                // A copy that the core could write comes over the bus; for any other, memory is as
                // good.
                if source == Answer::Fetch && state < Some(State::Exclusive) {
                    over_bus.max(self.dram.read(decided, line))
                } else {
                    over_bus
                }
            }
            Answer::Recall(_) => match self.nic.recall(line) {
                None => return,
                Some(released) => {
                    self.write_back(now, line, released.dirty);
                    self.directory.recalled(line, None);
                    over_bus
                }
            },
        };
        self.schedule_grant(ready, line, fabric);
    }

    fn schedule_grant(&self, at: Time, line: u64, fabric: &mut Fabric) {
        let node = self.number;
        fabric.agenda.push(at, node, Event::Grant { node, line });
    }

    /// A line has come to whoever asked for it. Gives the cores that can go on.
    pub(super) fn grant(
        &mut self,
        now: Time,
        line: u64,
        fabric: &mut Fabric,
        processor: &mut impl Processor,
    ) -> Cores {
        let Grant {
            agent,
            right,
            waiting,
        } = self.directory.grant(line);
        let cores = match agent {
            Agent::Core => self.fill_cores(now, line, right, fabric),
            Agent::Nic => {
                self.fill_nic(now, line, right, fabric, processor);
                0
            }
        };
        if let Some((agent, want)) = waiting {
            self.ask(now, agent, line, want, fabric);
        }
        cores
    }

    /// A line has come to the core that asked for it, and to those that waited with it.
    fn fill_cores(&mut self, now: Time, line: u64, right: Right, fabric: &mut Fabric) -> Cores {
        let wants = |it: &CoreState| it.miss.is_some_and(|access| access.line == line);
        let asker = self.cores.iter().position(|it| it.asks && wants(it));
        let asker = asker.expect("a line is granted to the core that asked for it");
        let address = line << self.times.line_shift;
        let waited = (self.cores[asker].core.now(), now);
        let row = Row::Misses(u32::try_from(asker).unwrap_or(u32::MAX));
        fabric.record_line(self.number, row, waited, address);
        self.cores[asker].asks = false;
        self.fill_core(now, asker, line, right);
        let mut filled = 1 << asker;
        for core in 0..self.cores.len() {
            let state = &mut self.cores[core];
            let Some(access) = state.miss.filter(|it| state.joined && it.line == line) else {
                continue;
            };
            state.joined = false;
            if self.serve(now, core, access) {
                filled |= 1 << core;
            } else if self.cores.iter().any(|it| it.asks && wants(it)) {
                self.cores[core].joined = true;
            } else {
                self.ask_for(now, core, access, fabric);
            }
        }
        filled
    }

    fn fill_core(&mut self, now: Time, core: usize, line: u64, right: Right) {
        let access = self.cores[core].miss;
        let write = access.is_some_and(|access| access.write);
        let first = access.map_or(core, |access| access.first);
        let state = match right {
            Right::Shared => State::Shared,
            Right::Exclusive if write => State::Modified,
            Right::Exclusive => State::Exclusive,
        };
        if let Some((victim, dirty)) = self.caches.fill(first, line, state) {
            self.directory.release(Agent::Core, victim);
            self.write_back(now, victim, dirty);
        }
        self.cores[core].core.line_arrives(now);
    }

    fn fill_nic(
        &mut self,
        now: Time,
        line: u64,
        right: Right,
        fabric: &mut Fabric,
        processor: &mut impl Processor,
    ) {
        let entry = self
            .nic
            .entry_for(line)
            .expect("a line is granted to the entry that asked for it");
        let node = self.number;
        if !self.nic.filled(entry, right) {
            fabric
                .agenda
                .push(now, node, Event::NicAsks { node, entry });
            return;
        }
        while let Some((request, done)) = self.nic.next_pending(now, entry) {
            let begun = done - self.times.nic_lookup;
            execute(begun, done, request.packet, fabric, processor);
        }
        if let Some(at) = self.nic.close_at(entry) {
            fabric.agenda.push(at, node, Event::Close { node, entry });
        }
        self.retry_input(now, fabric, processor);
    }

    /// An MSHR entry may have become idle.
    pub(super) fn close(
        &mut self,
        now: Time,
        entry: u8,
        fabric: &mut Fabric,
        processor: &mut impl Processor,
    ) {
        let node = self.number;
        let Entry { line, since, .. } = *self.nic.mshrs().entry(entry);
        match self.nic.close(now, entry) {
            Idle::NotYet => return,
            Idle::BusyUntil(at) => {
                fabric.agenda.push(at, node, Event::Close { node, entry });
                return;
            }
            Idle::Kept => {}
            Idle::Released {
                released,
                recalled: false,
                ..
            } => self.give_up(now, Some(released)),
            Idle::Released {
                released, again, ..
            } => {
                self.write_back(now, line, released.dirty);
                self.directory.recalled(line, None);
                let at = now + self.times.directory + self.times.bus;
                self.schedule_grant(at, line, fabric);
                if again {
                    fabric
                        .agenda
                        .push(now, node, Event::NicAsks { node, entry });
                }
            }
        }
        let address = line << self.times.line_shift;
        fabric.record_line(node, Row::Mshr(entry), (since, now), address);
        if let Some((entry, evicted)) = self.nic.next_displaced(line) {
            self.give_up(now, evicted);
            fabric
                .agenda
                .push(now, node, Event::NicAsks { node, entry });
        }
        self.retry_input(now, fabric, processor);
    }
}

/// The value of a remote operation is computed here and now; it occupies the NIC's cache until
/// `done`, when its reply leaves.
fn execute(
    begun: Time,
    done: Time,
    packet: u32,
    fabric: &mut Fabric,
    processor: &mut impl Processor,
) {
    let state = &fabric.packets[packet as usize];
    let value = processor.execute(state.hart, &state.request);
    let node = state.request.target;
    fabric.record(packet, node, Row::Nic, begun, done);
    fabric.respond(done, packet, value);
}
