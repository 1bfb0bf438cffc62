//! How the instructions of a hart meet the timing of its core.

use super::fabric::{Event, Fabric};
use crate::timed::core::{Class, Core, Parked};
use crate::timed::hierarchy::{Found, Hierarchy};
use crate::timed::packet::Request;
use crate::timed::time::Time;

/// The functional side of the machine: it holds registers and memories, and executes what the
/// timing lets start.
pub trait Processor {
    /// Executes instructions of a hart while [`CorePort::may_start`] lets them start, and tells the
    /// port about each. Harts are counted over all nodes: with one core a node, a hart's number is
    /// its node's.
    fn run(&mut self, hart: u16, core: &mut CorePort<'_>);

    /// The NIC of `request.target` executes what `hart` asked for on that node's memory, now; gives
    /// the value that the reply carries.
    fn execute(&mut self, hart: u16, request: &Request) -> u64;

    /// The reply to a request of `hart` has come: `value` goes into the request's register.
    fn complete(&mut self, hart: u16, request: &Request, value: u64);

    /// Whether the run should end at once; asked when a hart has run.
    fn is_over(&self) -> bool {
        false
    }
}

/// An access to the node's own memory, one line of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// The first level that it goes through.
    pub(super) first: usize,
    pub(super) line: u64,
    pub(super) write: bool,
    /// The access goes on into the line behind.
    pub(super) continues: bool,
}

/// The times that an access to the caches takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessTimes {
    pub(super) first: Time,
    pub(super) second: Time,
    /// What it takes in addition if another core has to be told.
    pub(super) neighbour: Time,
    pub(super) line_shift: u32,
}

/// A core while its hart runs.
///
/// For each instruction the hart asks [`CorePort::may_start`] and, if the answer is yes, executes
/// it and calls one of the other functions. A local access takes effect when its instruction
/// starts; a remote operation when the target's NIC executes it. Both lie between the operation's
/// issue and its end.
#[derive(Debug)]
pub struct CorePort<'a> {
    pub(super) node: u16,
    /// The core's number in its node.
    pub(super) index: u16,
    /// And over all nodes.
    pub(super) hart: u16,
    pub(super) core: &'a mut Core,
    pub(super) caches: &'a mut Hierarchy,
    pub(super) miss: &'a mut Option<Access>,
    pub(super) fabric: &'a mut Fabric,
    pub(super) horizon: Time,
    pub(super) times: AccessTimes,
}

impl CorePort<'_> {
    /// Whether an instruction may start that reads or writes the registers in `uses` (see
    /// [`crate::timed::core`]). If not, the hart has to return from [`Processor::run`], and will be
    /// run again when it may.
    #[inline]
    #[must_use]
    pub fn may_start(&mut self, uses: u64) -> bool {
        self.may_start_with(|| uses)
    }

    /// As [`may_start`](Self::may_start); the registers are asked for only where they matter.
    #[inline(always)]
    pub(crate) fn may_start_with(&mut self, uses: impl FnOnce() -> u64) -> bool {
        self.core.may_start(uses, self.horizon)
    }

    /// Whether instructions come through a cache, so that the hart has to ask for each of them by
    /// [`CorePort::fetch`] when it may start.
    #[must_use]
    pub fn has_fetches(&self) -> bool {
        self.caches.instructions_of(self.index.into()).is_some()
    }

    /// Whether the instruction of `bytes` bytes at `address` has come. If not, the hart has to
    /// return from [`Processor::run`], and asks again when it is run again.
    #[must_use]
    pub fn fetch(&mut self, address: u64, bytes: u64) -> bool {
        let line = address >> self.times.line_shift;
        let last = address.wrapping_add(bytes.saturating_sub(1)) >> self.times.line_shift;
        if self.core.fetched() == Some(last) {
            return true;
        }
        (self.core.fetched() == Some(line) || self.fetch_line(line))
            && (line == last || self.fetch_line(last))
    }

    fn fetch_line(&mut self, line: u64) -> bool {
        let Some(first) = self.caches.instructions_of(self.index.into()) else {
            return true;
        };
        self.core.fetch(line);
        let AccessTimes {
            second, neighbour, ..
        } = self.times;
        match self.caches.access(first, line, false) {
            Found::First => return true,
            Found::Second => self.core.fetch_late(second),
            Found::Neighbour => self.core.fetch_late(second + neighbour),
            Found::Nowhere => {
                self.core.park_for_instructions();
                let access = Access {
                    first,
                    line,
                    write: false,
                    continues: false,
                };
                self.ask_at(self.core.now() + second, access);
            }
        }
        false
    }

    /// The instruction that has just been told of jumped.
    #[inline]
    pub fn jump(&mut self) {
        self.core.jump();
    }

    /// Whether a jump takes any time.
    #[must_use]
    pub fn has_jump_cost(&self) -> bool {
        self.core.has_jump_cost()
    }

    /// When the next instruction can start.
    #[must_use]
    pub fn now(&self) -> Time {
        self.core.now()
    }

    /// The core's cycles so far.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.core.clock().count(self.core.now())
    }

    /// An instruction that stayed inside the core wrote the registers in `writes`.
    #[inline]
    pub fn retire(&mut self, class: Class, writes: u64) {
        self.core.retire(class, writes);
    }

    /// An instruction read `bytes` bytes at `address` in the node's own memory into the registers
    /// in `writes`.
    #[inline]
    pub fn load(&mut self, address: u64, bytes: u64, writes: u64) {
        self.access(address, bytes, writes, false);
    }

    /// An instruction wrote `bytes` bytes at `address` in the node's own memory; `writes` has the
    /// registers that a local atomic's result goes to.
    #[inline]
    pub fn store(&mut self, address: u64, bytes: u64, writes: u64) {
        self.access(address, bytes, writes, true);
    }

    #[inline]
    fn access(&mut self, address: u64, bytes: u64, writes: u64, write: bool) {
        self.core.count_access();
        let line = address >> self.times.line_shift;
        let last = address.wrapping_add(bytes.saturating_sub(1)) >> self.times.line_shift;
        let found = self.caches.access(self.index.into(), line, write);
        if found == Found::First && line == last {
            self.core.late_result(writes, self.times.first);
        } else {
            let access = Access {
                first: self.index.into(),
                line,
                write,
                continues: line != last,
            };
            self.slow_access(found, access);
        }
    }

    /// An access that is not served by one line of the first level: it keeps the core until it is
    /// over.
    #[cold]
    fn slow_access(&mut self, found: Found, access: Access) {
        match found {
            Found::First => self.core.block(self.times.first),
            Found::Second => self.core.block(self.times.first + self.times.second),
            Found::Neighbour => {
                let AccessTimes {
                    first,
                    second,
                    neighbour,
                    ..
                } = self.times;
                self.core.block(first + second + neighbour);
            }
            Found::Nowhere => return self.ask(access),
        }
        self.go_on(access);
    }

    /// Does what is left of an access when its first line is there.
    pub(super) fn go_on(&mut self, access: Access) {
        if access.continues {
            let access = Access {
                line: access.line + 1,
                continues: false,
                ..access
            };
            let found = self.caches.access(access.first, access.line, access.write);
            self.slow_access(found, access);
        }
    }

    fn ask(&mut self, access: Access) {
        let at = self.core.now() + self.times.first + self.times.second;
        self.core.park_for_line();
        self.ask_at(at, access);
    }

    fn ask_at(&mut self, at: Time, access: Access) {
        *self.miss = Some(access);
        let (node, hart) = (self.node, self.hart);
        let agenda = &mut self.fabric.agenda;
        agenda.push(at, node, Event::CoreAsks { hart });
    }

    /// An instruction issued a remote operation. Its result comes by [`Processor::complete`].
    pub fn remote(&mut self, request: Request) {
        self.core.stats.instructions += 1;
        self.remote_part(request);
    }

    /// An instruction that issues several remote operations issued one of them.
    pub fn remote_part(&mut self, request: Request) {
        let now = self.core.now();
        self.core.issue_remote(request.register);
        let injected = self.fabric.issue(now, (self.node, self.hart), request);
        // What follows comes back to this node no sooner.
        self.horizon = self.horizon.min(injected);
    }

    /// The hart stays at the remote operation that it has issued until that is over, though more
    /// might be under way.
    pub fn wait_for_remote(&mut self) {
        self.core.wait_for_all();
    }

    /// The instruction that has just read the word at `address` in the node's own memory writes it
    /// too.
    pub fn write_too(&mut self, address: u64) {
        if let Some(access) = self.miss {
            access.write = true;
            return;
        }
        let access = Access {
            first: self.index.into(),
            line: address >> self.times.line_shift,
            write: true,
            continues: false,
        };
        match self.caches.serve(access.first, access.line, true) {
            Found::First => {}
            // Others have to give the line up, as for a store.
            found => {
                self.caches.count_miss(access.first, found);
                self.slow_access(found, access);
            }
        }
    }

    /// Whether all remote operations of this core are over, as a fence demands before it starts. If
    /// not, the hart has to return from [`Processor::run`].
    #[must_use]
    pub fn drained(&mut self) -> bool {
        self.core.drained()
    }

    /// The hart waits for an interrupt: it goes on after a while, for none comes.
    pub fn pause(&mut self) {
        self.core.pause();
    }

    /// The hart has executed its last instruction.
    pub fn halt(&mut self) {
        self.core.halt();
    }

    /// Whether the core waits for something, so that [`CorePort::may_start`] will say no.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        self.core.parked() != Parked::No
    }
}
