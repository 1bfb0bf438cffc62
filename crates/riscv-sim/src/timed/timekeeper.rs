//! Listens to a hart, and tells its core's timing what each instruction was.

use super::core::Class;
use super::insn::{InsnTiming, Kind, acquires, releases, table};
use super::machine::CorePort;
use crate::hart::Observer;
use crate::isa::Decoded;

/// What is known of a remote instruction that a hart has come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Met {
    /// The core has been told of it already, since it read something here.
    pub(super) is_told: bool,
    /// What follows it has to wait for it.
    pub(super) acquires: bool,
}

/// An observer of one hart for one stretch of instructions.
#[derive(Debug)]
pub(super) struct Timekeeper<'a, 'b> {
    port: &'a mut CorePort<'b>,
    table: &'static [InsnTiming],
    /// The instruction under way may touch memory, has not yet, and the core has not been told of
    /// it.
    is_open: bool,
    /// The instruction under way is an atomic that what follows has to wait for.
    acquires: bool,
    /// The registers that it writes.
    writes: u64,
    /// Where the next instruction stands if the one under way does not jump; nothing if jumps cost
    /// nothing.
    next: Option<u64>,
    has_jump_cost: bool,
    has_fetches: bool,
    /// What the hart's cycle counter has been set to, if it has.
    shown_cycles: Option<u64>,
    /// The next instruction reads a counter, and the hart has to be told the cycles first.
    wants_cycles: bool,
    /// What the hart wrote here, if somebody has to be told: addresses and numbers of bytes.
    written: Option<&'a mut Vec<(u64, u64)>>,
}

impl<'a, 'b> Timekeeper<'a, 'b> {
    pub(super) fn new(
        port: &'a mut CorePort<'b>,
        shown_cycles: Option<u64>,
        written: Option<&'a mut Vec<(u64, u64)>>,
    ) -> Self {
        let has_jump_cost = port.has_jump_cost();
        let has_fetches = port.has_fetches();
        Self {
            port,
            table: table(),
            is_open: false,
            acquires: false,
            writes: 0,
            next: None,
            has_jump_cost,
            has_fetches,
            shown_cycles,
            wants_cycles: false,
            written,
        }
    }

    /// The hart stopped, and `pc` is its next instruction. Says whether it did only to be told the
    /// cycles.
    pub(super) fn stopped(&mut self, pc: u64) -> bool {
        self.finish(pc);
        self.wants_cycles
    }

    /// The instruction under way turned out to be a remote one, of which the core is told
    /// otherwise.
    pub(super) fn stopped_at_remote(&mut self) -> Met {
        Met {
            is_told: !std::mem::take(&mut self.is_open),
            acquires: self.acquires,
        }
    }

    /// The instruction under way is over, and `pc` is the next.
    #[inline(always)]
    fn finish(&mut self, pc: u64) {
        if self.is_open {
            // It touched no memory after all, as a store-conditional without a reservation.
            self.is_open = false;
            self.port.retire(Class::Integer, self.writes);
        }
        if let Some(next) = self.next.take()
            && next != pc
        {
            self.port.jump();
        }
    }
}

impl Observer for Timekeeper<'_, '_> {
    const LISTENS: bool = true;

    #[inline(always)]
    fn before(&mut self, pc: u64, insn: &Decoded) -> bool {
        self.finish(pc);
        let timing = &self.table[insn.op as usize];
        if !self.port.may_start_with(|| timing.uses(insn)) {
            return false;
        }
        if self.has_fetches && !self.port.fetch(pc, insn.n_bytes().into()) {
            return false;
        }
        match timing.kind {
            Kind::Plain(class) => self.port.retire(class, timing.writes(insn)),
            Kind::Atomic if releases(insn) && !self.port.drained() => return false,
            Kind::Memory | Kind::Atomic => {
                self.is_open = true;
                self.acquires = timing.kind == Kind::Atomic && acquires(insn);
                self.writes = timing.writes(insn);
            }
            Kind::Fence => {
                if !self.port.drained() {
                    return false;
                }
                self.port.retire(Class::Integer, 0);
            }
            Kind::Csr => {
                if Some(self.port.cycles()) != self.shown_cycles {
                    self.wants_cycles = true;
                    return false;
                }
                self.port.retire(Class::Integer, timing.writes(insn));
            }
        }
        if self.has_jump_cost {
            self.next = Some(pc.wrapping_add(insn.n_bytes().into()));
        }
        true
    }

    #[inline(always)]
    fn access(&mut self, address: u64, n_bytes: u64, writes: bool) {
        if writes && let Some(written) = &mut self.written {
            written.push((address, n_bytes));
        }
        if !self.is_open {
            // The second access of an atomic.
            if writes {
                self.port.write_too(address);
            }
            return;
        }
        self.is_open = false;
        if writes {
            self.port.store(address, n_bytes, self.writes);
        } else {
            self.port.load(address, n_bytes, self.writes);
        }
    }
}
