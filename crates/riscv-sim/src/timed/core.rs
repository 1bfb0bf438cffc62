//! The timing of an in-order core that starts one instruction a cycle.
//!
//! Whoever executes the instructions tells the core about each: what it was and which registers it
//! used. A result that is not there after one cycle (a multiplication's, a load's, a remote
//! operation's) makes the first instruction wait that uses its register. Registers are bits of a
//! mask: `x1` to `x31` are bits 1 to 31, `f0` to `f31` are bits 32 to 63.

use serde::Serialize;

use super::cache::Line;
use super::config::TimedConfig;
use super::time::{Clock, Time};

/// A kind of instruction that stays inside the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Its result is there in the next cycle.
    Integer,
    /// Integer multiplication.
    Multiply,
    /// Integer division or remainder, which keeps the core busy.
    Divide,
    /// Floating point, but for division and square root.
    Float,
    /// Floating-point division or square root, which keeps the core busy.
    FloatDivide,
}

/// Why a core does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parked {
    /// It does.
    No,
    /// A line has to come from the directory.
    Miss,
    /// A line of instructions has to.
    Fetch,
    /// A remote operation has to be over.
    Remote,
    /// Its program has ended.
    Halted,
}

/// What the core counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CoreStats {
    /// Instructions that it started.
    pub instructions: u64,
    /// Loads, stores and atomics on its own memory.
    pub local_accesses: u64,
    /// Operations that it sent to a NIC.
    pub remote_operations: u64,
    /// Picoseconds that it waited for registers within the node.
    pub register_wait_ps: u64,
    /// Picoseconds that it waited for lines.
    pub memory_wait_ps: u64,
    /// Picoseconds that it waited for instructions.
    pub fetch_wait_ps: u64,
    /// Picoseconds that it waited for remote operations.
    pub remote_wait_ps: u64,
    /// Picoseconds of all remote operations, from their issue to their result.
    pub remote_latency_ps: u64,
    /// The longest of them.
    pub remote_latency_most_ps: u64,
}

impl CoreStats {
    /// What two cores counted together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            instructions: self.instructions + other.instructions,
            local_accesses: self.local_accesses + other.local_accesses,
            remote_operations: self.remote_operations + other.remote_operations,
            register_wait_ps: self.register_wait_ps + other.register_wait_ps,
            memory_wait_ps: self.memory_wait_ps + other.memory_wait_ps,
            fetch_wait_ps: self.fetch_wait_ps + other.fetch_wait_ps,
            remote_wait_ps: self.remote_wait_ps + other.remote_wait_ps,
            remote_latency_ps: self.remote_latency_ps + other.remote_latency_ps,
            remote_latency_most_ps: self
                .remote_latency_most_ps
                .max(other.remote_latency_most_ps),
        }
    }
}

/// How long a `wfi` takes, which waits for interrupts that do not come.
const WAIT_CYCLES: u32 = 200;

/// The configured costs as times.
#[derive(Clone, Copy, Debug)]
struct Costs {
    multiply: Time,
    divide: Time,
    float: Time,
    float_divide: Time,
    taken: Time,
    wait: Time,
}

/// One core.
#[derive(Debug)]
pub struct Core {
    clock: Clock,
    cycle: Time,
    costs: Costs,
    n_outstanding_most: u32,
    now: Time,
    parked: Parked,
    /// The line that has the last instruction, if instructions have a cache.
    fetched: Option<Line>,
    /// Registers whose result was not there in the cycle after their instruction.
    late: u64,
    /// When the last of them is there at the latest.
    late_until: Time,
    /// When the results of late registers are there; [`Time::NEVER`] if nobody knows yet.
    ready: [Time; 64],
    n_outstanding: u32,
    /// It is parked until all remote operations are over, not just one.
    waits_for_all: bool,
    /// What it counted.
    pub stats: CoreStats,
}

impl Core {
    /// A core at time zero.
    #[must_use]
    pub fn new(config: &TimedConfig) -> Self {
        let clock = Clock::from_mhz(config.core.clock_mhz);
        let core = &config.core;
        Self {
            clock,
            cycle: clock.period(),
            costs: Costs {
                multiply: clock.cycles(core.multiply_cycles),
                divide: clock.cycles(core.divide_cycles.max(1)),
                float: clock.cycles(core.float_cycles),
                float_divide: clock.cycles(core.float_divide_cycles.max(1)),
                taken: clock.cycles(core.taken_branch_penalty),
                wait: clock.cycles(WAIT_CYCLES),
            },
            n_outstanding_most: core.outstanding_remote,
            now: Time::ZERO,
            parked: Parked::No,
            fetched: None,
            late: 0,
            late_until: Time::ZERO,
            ready: [Time::ZERO; 64],
            n_outstanding: 0,
            waits_for_all: false,
            stats: CoreStats::default(),
        }
    }

    /// When the next instruction can start, as far as is known.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Its clock.
    #[must_use]
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Why it does not go on.
    #[must_use]
    pub const fn parked(&self) -> Parked {
        self.parked
    }

    /// How many remote operations are under way.
    #[must_use]
    pub const fn n_outstanding(&self) -> u32 {
        self.n_outstanding
    }

    /// Whether an instruction starts before `horizon` that reads or writes the registers that
    /// `uses` gives; it is only asked if some register is late. Waits for those that are on their
    /// way, if it is known how long.
    #[inline(always)]
    pub fn may_start(&mut self, uses: impl FnOnce() -> u64, horizon: Time) -> bool {
        if self.late != 0 {
            if self.now >= self.late_until {
                self.late = 0;
            } else {
                let waits_for = self.late & uses();
                if waits_for != 0 {
                    self.wait_for(waits_for);
                }
            }
        }
        self.now < horizon && self.parked == Parked::No
    }

    #[inline(never)]
    fn wait_for(&mut self, mut registers: u64) {
        let mut until = self.now;
        let waited_for = registers;
        while registers != 0 {
            until = until.max(self.ready[registers.trailing_zeros() as usize]);
            registers &= registers - 1;
        }
        if until == Time::NEVER {
            if self.parked == Parked::No {
                self.parked = Parked::Remote;
            }
            return;
        }
        self.late &= !waited_for;
        let until = self.clock.next_edge(until);
        self.stats.register_wait_ps += until.since(self.now).ps();
        self.now = until;
    }

    /// An instruction of `class` starts, and writes the registers in `writes`.
    #[inline]
    pub fn retire(&mut self, class: Class, writes: u64) {
        self.stats.instructions += 1;
        match class {
            Class::Integer => self.now += self.cycle,
            Class::Multiply => self.late_result(writes, self.costs.multiply),
            Class::Float => self.late_result(writes, self.costs.float),
            Class::Divide => self.now += self.costs.divide,
            Class::FloatDivide => self.now += self.costs.float_divide,
        }
    }

    /// An instruction starts whose result is there `latency` later.
    #[inline]
    pub(super) fn late_result(&mut self, writes: u64, latency: Time) {
        let ready = self.now + latency;
        self.now += self.cycle;
        if ready > self.now && writes != 0 {
            self.late |= writes;
            self.late_until = self.late_until.max(ready);
            self.ready[writes.trailing_zeros() as usize] = ready;
        }
    }

    /// The instruction that has started jumps.
    #[inline]
    pub(super) fn jump(&mut self) {
        self.now += self.costs.taken;
    }

    /// Whether a jump takes any time.
    #[must_use]
    pub fn has_jump_cost(&self) -> bool {
        self.costs.taken > Time::ZERO
    }

    /// An access to the node's own memory starts.
    #[inline]
    pub(super) fn count_access(&mut self) {
        self.stats.instructions += 1;
        self.stats.local_accesses += 1;
    }

    /// The access that has started keeps the core for `latency`.
    pub(super) fn block(&mut self, latency: Time) {
        self.stats.memory_wait_ps += latency.since(self.cycle).ps();
        self.now += latency.max(self.cycle);
    }

    /// The access that has started misses.
    pub(super) fn park_for_line(&mut self) {
        self.parked = Parked::Miss;
    }

    /// The line of which the last instruction came.
    pub(super) const fn fetched(&self) -> Option<Line> {
        self.fetched
    }

    /// Instructions come of that line from now on.
    pub(super) const fn fetch(&mut self, line: Line) {
        self.fetched = Some(line);
    }

    /// The line of instructions is there `latency` later.
    pub(super) fn fetch_late(&mut self, latency: Time) {
        self.stats.fetch_wait_ps += latency.ps();
        self.now += latency;
    }

    /// The line of instructions has to come from the directory.
    pub(super) fn park_for_instructions(&mut self) {
        self.parked = Parked::Fetch;
    }

    /// The line that the core waits for is there at `at`.
    pub(super) fn line_arrives(&mut self, at: Time) {
        if self.parked == Parked::Fetch {
            let until = self.clock.next_edge(at).max(self.now);
            self.stats.fetch_wait_ps += until.since(self.now).ps();
            self.now = until;
            self.parked = Parked::No;
            return;
        }
        let until = self.clock.next_edge(at).max(self.now + self.cycle);
        self.stats.memory_wait_ps += until.since(self.now + self.cycle).ps();
        self.now = until;
        self.parked = Parked::No;
    }

    /// A remote operation starts, whose result, if any, goes to `register`. With as many under way
    /// as there may be, the core waits for one to be over.
    pub(super) fn issue_remote(&mut self, register: Option<u8>) {
        self.stats.remote_operations += 1;
        self.now += self.cycle;
        self.n_outstanding += 1;
        if let Some(register) = register {
            self.late |= 1 << register;
            self.late_until = Time::NEVER;
            self.ready[usize::from(register)] = Time::NEVER;
        }
        if self.n_outstanding >= self.n_outstanding_most {
            self.parked = Parked::Remote;
        }
    }

    /// The remote operation that was issued at `issued` is over at `at`. Says whether that lets the
    /// core go on.
    pub(super) fn remote_completes(
        &mut self,
        register: Option<u8>,
        issued: Time,
        at: Time,
    ) -> bool {
        self.n_outstanding -= 1;
        let latency = at.since(issued).ps();
        self.stats.remote_latency_ps += latency;
        self.stats.remote_latency_most_ps = self.stats.remote_latency_most_ps.max(latency);
        if let Some(register) = register {
            self.ready[usize::from(register)] = at;
            let late = (0..64_usize).filter(|bit| self.late >> bit & 1 != 0);
            let until = late.map(|register| self.ready[register]).max();
            self.late_until = until.unwrap_or(Time::ZERO);
        }
        if self.parked != Parked::Remote || self.waits_for_all && self.n_outstanding > 0 {
            return false;
        }
        self.waits_for_all = false;
        let until = self.clock.next_edge(at).max(self.now);
        self.stats.remote_wait_ps += until.since(self.now).ps();
        self.now = until;
        self.parked = Parked::No;
        true
    }

    /// Whether no remote operation is under way; if one is, the core waits for all.
    pub(super) fn drained(&mut self) -> bool {
        if self.n_outstanding > 0 {
            self.wait_for_all();
        }
        self.n_outstanding == 0
    }

    /// The core goes on when no remote operation is under way.
    pub(super) fn wait_for_all(&mut self) {
        self.parked = Parked::Remote;
        self.waits_for_all = true;
    }

    /// The core does nothing for a while, for it waits for an interrupt.
    pub(super) fn pause(&mut self) {
        self.now += self.costs.wait;
    }

    /// The program has ended.
    pub(super) fn halt(&mut self) {
        self.parked = Parked::Halted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(outstanding_remote: u32) -> Core {
        let mut config = TimedConfig::default();
        config.core.outstanding_remote = outstanding_remote;
        Core::new(&config)
    }

    fn cycles(n: u64) -> Time {
        Time::from_ps(n * 500)
    }

    const X5: u64 = 1 << 5;
    const X6: u64 = 1 << 6;

    #[test]
    fn a_multiplication_delays_only_who_uses_its_result() {
        let mut core = core(1);
        core.retire(Class::Multiply, X5);
        assert!(core.may_start(|| X6, Time::NEVER));
        assert_eq!(core.now(), cycles(1));
        core.retire(Class::Integer, X6);
        assert!(core.may_start(|| X5 | X6, Time::NEVER));
        assert_eq!(core.now(), cycles(3));
        assert_eq!(core.stats.register_wait_ps, cycles(1).ps());
    }

    #[test]
    fn a_division_keeps_the_core_busy() {
        let mut core = core(1);
        core.retire(Class::Divide, X5);
        assert!(core.may_start(|| X6, Time::NEVER));
        assert_eq!(core.now(), cycles(20));
    }

    #[test]
    fn nothing_starts_at_or_behind_the_horizon() {
        let mut core = core(1);
        core.retire(Class::Multiply, X5);
        assert!(!core.may_start(|| X5, cycles(3)));
        assert!(core.may_start(|| X5, cycles(4)));
    }

    #[test]
    fn a_core_with_one_remote_operation_waits_at_once_and_one_with_two_at_the_second() {
        let mut one = core(1);
        one.issue_remote(Some(5));
        assert!(!one.may_start(|| X6, Time::NEVER));
        assert!(one.remote_completes(Some(5), Time::ZERO, Time::from_ps(10_001)));
        assert!(one.may_start(|| X5, Time::NEVER));
        assert_eq!(one.now(), Time::from_ps(10_500));

        let mut two = core(2);
        two.issue_remote(Some(5));
        assert!(two.may_start(|| X6, Time::NEVER));
        two.retire(Class::Integer, X6);
        assert!(!two.may_start(|| X5, Time::NEVER));
        assert_eq!(two.parked(), Parked::Remote);
        assert!(two.remote_completes(Some(5), Time::ZERO, cycles(50)));
        assert!(two.may_start(|| X5, Time::NEVER));
        two.issue_remote(None);
        assert!(!two.drained());
        assert!(two.remote_completes(None, cycles(50), cycles(90)));
        assert!(two.drained());
        assert_eq!(two.stats.remote_latency_most_ps, cycles(50).ps());
    }
}
