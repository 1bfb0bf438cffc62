//! The whole timed machine: nodes, the network between them, and the one queue of events that moves
//! them all.
//!
//! A core runs ahead of the events only as far as nothing can reach its node: up to the next event
//! inside it, up to the next start of another core plus the shortest time that a packet of that
//! needs, and up to the next event elsewhere plus as much, for that may start a core; if a packet
//! is on its way to the node, plus only what the last link takes. So every part sees everything in
//! order of simulated time, although cores run many instructions at a stretch.

mod fabric;
mod node;
mod port;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;

use super::config::{ConfigError, TimedConfig};
use super::core::{Core, CoreStats, Parked};
use super::directory::DirectoryStats;
use super::dram::DramStats;
use super::hierarchy::HierarchyStats;
use super::mesh::MeshStats;
use super::nic::NicStats;
use super::time::{Clock, Time};
use super::trace::{Row, Trace};
use fabric::{Cause, Event, Fabric};
use node::{CoreState, Cores, Node};
use port::AccessTimes;
pub use port::{CorePort, Processor};

/// The most nodes, and the most cores of one.
const MOST_NODES: u16 = 1024;
const MOST_CORES: u16 = 64;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All programs have ended, and nothing is under way.
    Halted,
    /// Nothing will ever happen again, though not all programs have ended.
    Stuck,
    /// The time given to [`Machine::run`] is over.
    TimeLimit,
    /// The processor wanted no more ([`Processor::is_over`]).
    Stopped,
}

/// What the parts of one node counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeStats {
    /// Cycles until the last instruction of its cores.
    pub cycles: u64,
    /// Its core, or all of its cores together.
    pub core: CoreStats,
    /// Their caches.
    #[serde(flatten)]
    pub caches: HierarchyStats,
    /// The directory.
    pub directory: DirectoryStats,
    /// The NIC.
    pub nic: NicStats,
    /// The memory.
    pub dram: DramStats,
}

/// What all parts of a machine counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MachineStats {
    /// When the last event had happened and the last instruction had ended.
    pub simulated_ps: u64,
    /// Events handled.
    pub events: u64,
    /// Instructions of all cores.
    pub instructions: u64,
    /// The network.
    pub mesh: MeshStats,
    /// The nodes in order.
    pub nodes: Vec<NodeStats>,
}

/// A machine of several nodes.
#[derive(Debug)]
pub struct Machine {
    nodes: Vec<Node>,
    n_cores: u16,
    fabric: Fabric,
    /// The cores that can go on, at the time of their next instruction.
    running: BinaryHeap<Reverse<(Time, u16)>>,
    times: AccessTimes,
    lookahead: Time,
    arrival: Time,
    now: Time,
    last_event: Time,
    n_events: u64,
}

impl Machine {
    /// A machine of `n_nodes` nodes, at least one, whose cores start at time zero.
    ///
    /// # Errors
    /// [`ConfigError`] if a value of the configuration is out of range.
    pub fn new(config: &TimedConfig, n_nodes: u16) -> Result<Self, ConfigError> {
        Self::with_cores(config, n_nodes, 1)
    }

    /// As [`new`](Self::new), with `n_cores` cores in each node, 1 to 64: each has a first-level
    /// cache of its own, and all share the second level, the directory and the NIC.
    ///
    /// # Errors
    /// [`ConfigError`] if a value of the configuration is out of range.
    pub fn with_cores(
        config: &TimedConfig,
        n_nodes: u16,
        n_cores: u16,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        // Cores are bits of a mask, and numbered over all nodes in 16 bits.
        let n_nodes = n_nodes.clamp(1, MOST_NODES);
        let n_cores = n_cores.clamp(1, MOST_CORES);
        let fabric = Fabric::new(config, n_nodes, n_cores);
        let clock = Clock::from_mhz(config.core.clock_mhz);
        Ok(Self {
            nodes: (0..n_nodes)
                .map(|number| {
                    config.check_memory(number, n_cores)?;
                    Ok(Node::new(number, config, n_cores))
                })
                .collect::<Result<_, ConfigError>>()?,
            n_cores,
            lookahead: fabric.lookahead(),
            arrival: fabric.arrival(),
            fabric,
            running: (0..n_nodes)
                .flat_map(|node| (0..n_cores).map(move |core| hart_of(node, core, n_cores)))
                .map(|hart| Reverse((Time::ZERO, hart)))
                .collect(),
            times: AccessTimes {
                first: clock.cycles(config.l1.hit_cycles),
                second: clock.cycles(config.l2.hit_cycles),
                neighbour: clock.cycles(config.directory.bus_cycles),
                line_shift: config.line_bytes.trailing_zeros(),
            },
            now: Time::ZERO,
            last_event: Time::ZERO,
            n_events: 0,
        })
    }

    /// How far the simulation has come: everything before has happened.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Records what happens from now on.
    pub fn set_trace(&mut self, trace: Trace) {
        self.fabric.trace = Some(trace);
    }

    /// The recording so far, if there is one.
    #[must_use]
    pub fn trace(&self) -> Option<&Trace> {
        self.fabric.trace.as_ref()
    }

    /// Runs until all programs have ended, or `until` with all that happens then.
    pub fn run(&mut self, processor: &mut impl Processor, until: Time) -> Ended {
        if processor.is_over() {
            return Ended::Stopped;
        }
        loop {
            let event_at = self.fabric.agenda.next_time();
            let core_at = self.next_running();
            let at = event_at.min(core_at);
            if at == Time::NEVER {
                return self.verdict();
            }
            if at > until {
                self.now = until;
                return Ended::TimeLimit;
            }
            self.now = at;
            if event_at <= core_at {
                if let Some((now, event)) = self.fabric.agenda.pop() {
                    self.n_events += 1;
                    self.last_event = now;
                    self.handle(now, event, processor);
                    if processor.is_over() {
                        return Ended::Stopped;
                    }
                }
            } else if let Some(Reverse((_, hart))) = self.running.pop() {
                self.run_core(hart, until, processor);
                if processor.is_over() {
                    return Ended::Stopped;
                }
            }
        }
    }

    /// Lets one core run before all others, as far as nothing can reach it; if it waits for
    /// something, it does not.
    pub fn run_first(&mut self, hart: u16, processor: &mut impl Processor) {
        let n_running = self.running.len();
        self.running.retain(|Reverse((_, other))| *other != hart);
        if self.running.len() < n_running {
            self.run_core(hart, Time::NEVER, processor);
        }
    }

    fn verdict(&self) -> Ended {
        let halted = |it: &CoreState| it.core.parked() == Parked::Halted;
        if self.nodes.iter().flat_map(|node| &node.cores).all(halted) {
            Ended::Halted
        } else {
            Ended::Stuck
        }
    }

    /// The node of a hart, and its core's number there.
    const fn place_of(&self, hart: u16) -> (u16, u16) {
        if self.n_cores == 1 {
            (hart, 0)
        } else {
            (hart / self.n_cores, hart % self.n_cores)
        }
    }

    fn core(&self, hart: u16) -> &Core {
        let (node, core) = self.place_of(hart);
        &self.nodes[usize::from(node)].cores[usize::from(core)].core
    }

    fn port(&mut self, hart: u16, horizon: Time) -> CorePort<'_> {
        let (node, index) = self.place_of(hart);
        let Node { cores, caches, .. } = &mut self.nodes[usize::from(node)];
        let CoreState { core, miss, .. } = &mut cores[usize::from(index)];
        CorePort {
            node,
            index,
            hart,
            core,
            caches,
            miss,
            fabric: &mut self.fabric,
            horizon,
            times: self.times,
        }
    }

    /// When the first of the cores that can go on does.
    fn next_running(&self) -> Time {
        let first = self.running.peek();
        first.map_or(Time::NEVER, |&Reverse((at, _))| at)
    }

    /// Runs a core up to the next event inside its node, and no further than nothing from outside
    /// can have come by then.
    fn run_core(&mut self, hart: u16, until: Time, processor: &mut impl Processor) {
        let (node, core) = self.place_of(hart);
        let others = self.next_running().saturating_add(self.lookahead);
        let siblings = self.siblings(node, core);
        let mut cores = self.nodes[usize::from(node)].cores.iter();
        let awaits = cores.any(|it| it.core.n_outstanding() > 0);
        let agenda = &mut self.fabric.agenda;
        let distance = if awaits || agenda.is_sought(node) {
            self.arrival
        } else {
            self.lookahead
        };
        let horizon = agenda
            .next_inside(node)
            .min(agenda.next_time().saturating_add(distance))
            .min(others)
            .min(siblings)
            .min(until.saturating_add(Time::from_ps(1)));
        agenda.caused_by(Cause::Core { node, core });
        processor.run(hart, &mut self.port(hart, horizon));
        self.let_run(hart);
    }

    /// When another core of the node goes on: cores that share memory and caches take turns in
    /// exact order of their instructions' times, the one with the lower number first where they are
    /// equal.
    fn siblings(&self, node: u16, core: u16) -> Time {
        if self.n_cores == 1 {
            return Time::NEVER;
        }
        let cores = (0..).zip(&self.nodes[usize::from(node)].cores);
        let running = cores.filter(|(at, it)| *at != core && it.core.parked() == Parked::No);
        let starts = running.map(|(at, it)| {
            let tie = Time::from_ps(u64::from(at > core));
            it.core.now().saturating_add(tie)
        });
        starts.min().unwrap_or(Time::NEVER)
    }

    /// A core that can go on is queued for its next instruction.
    fn let_run(&mut self, hart: u16) {
        let core = self.core(hart);
        if core.parked() == Parked::No {
            self.running.push(Reverse((core.now(), hart)));
        }
    }

    fn handle(&mut self, now: Time, event: Event, processor: &mut impl Processor) {
        let fabric = &mut self.fabric;
        match event {
            Event::Mesh(event) => {
                let router = fabric.mesh.router_of(event);
                fabric.agenda.caused_by(Cause::Node(router));
                fabric.mesh.handle(now, event, &mut fabric.agenda);
                if let Some((at, packet)) = fabric.agenda.take_delivered() {
                    self.deliver(at, packet, processor);
                }
            }
            Event::Arrive { packet } => {
                let node = fabric.packets[packet as usize].request.target;
                fabric.agenda.inside(now, node);
                self.nodes[usize::from(node)].arrive(now, packet, fabric, processor);
            }
            Event::Reply { packet } => {
                let node = fabric.packets[packet as usize].source;
                fabric.agenda.inside(now, node);
                self.reply(now, packet, processor);
            }
            Event::CoreAsks { hart } => {
                let (node, core) = self.place_of(hart);
                let fabric = &mut self.fabric;
                fabric.agenda.inside(now, node);
                let state = &mut self.nodes[usize::from(node)];
                let served = state.core_asks(now, core.into(), fabric);
                self.go_on(node, served);
            }
            Event::NicAsks { node, entry } => {
                fabric.agenda.inside(now, node);
                self.nodes[usize::from(node)].nic_asks(now, entry, fabric);
            }
            Event::Close { node, entry } => {
                fabric.agenda.inside(now, node);
                self.nodes[usize::from(node)].close(now, entry, fabric, processor);
            }
            Event::Grant { node, line } => {
                fabric.agenda.inside(now, node);
                let state = &mut self.nodes[usize::from(node)];
                let served = state.grant(now, line, fabric, processor);
                self.go_on(node, served);
            }
        }
    }

    /// The line that some cores of a node waited for is there.
    fn go_on(&mut self, node: u16, mut served: Cores) {
        while served != 0 {
            let core = served.trailing_zeros();
            served &= served - 1;
            let miss = &mut self.nodes[usize::from(node)].cores[core as usize].miss;
            let access = miss.take();
            let core = u16::try_from(core).expect("a node has up to 64 cores");
            let hart = hart_of(node, core, self.n_cores);
            if let Some(access) = access {
                self.port(hart, Time::ZERO).go_on(access);
            }
            self.let_run(hart);
        }
    }

    /// A reply will have come at `at`. A core that waits for it sees nothing else in between, so it
    /// can have the reply now.
    fn deliver(&mut self, at: Time, packet: u32, processor: &mut impl Processor) {
        let state = &self.fabric.packets[packet as usize];
        let node = state.source;
        let waits = self.core(state.hart).parked() == Parked::Remote;
        if waits && !state.request.into_memory {
            self.reply(at, packet, processor);
        } else {
            let agenda = &mut self.fabric.agenda;
            agenda.push(at, node, Event::Reply { packet });
        }
    }

    fn reply(&mut self, now: Time, packet: u32, processor: &mut impl Processor) {
        let state = self.fabric.packets[packet as usize];
        let hart = state.hart;
        processor.complete(hart, &state.request, state.value);
        let (node, core) = self.place_of(hart);
        let row = Row::Remote(core.into(), state.request.tag);
        self.fabric.record(packet, node, row, state.issued, now);
        self.fabric.discard(packet);
        let core = &mut self.nodes[usize::from(node)].cores[usize::from(core)].core;
        if core.remote_completes(state.request.register, state.issued, now) {
            self.let_run(hart);
        }
    }

    /// What everything counted so far.
    #[must_use]
    pub fn stats(&self) -> MachineStats {
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .map(|node| NodeStats {
                cycles: node.cycles(),
                core: node.core_stats(),
                caches: node.caches.stats(),
                directory: node.directory.stats,
                nic: node.nic.stats,
                dram: node.dram.stats,
            })
            .collect();
        let cores = self.nodes.iter().flat_map(|node| &node.cores);
        let cores = cores.map(|it| it.core.now());
        let end = cores.fold(self.last_event, Time::max);
        MachineStats {
            simulated_ps: end.ps(),
            events: self.n_events,
            instructions: nodes.iter().map(|node| node.core.instructions).sum(),
            mesh: self.fabric.mesh.stats(),
            nodes,
        }
    }
}

/// The number of a node's core over all nodes.
const fn hart_of(node: u16, core: u16, n_cores: u16) -> u16 {
    node * n_cores + core
}

#[cfg(test)]
mod tests;
