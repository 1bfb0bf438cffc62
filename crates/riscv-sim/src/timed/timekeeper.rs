//! Listens to a hart, and tells its core's timing what each instruction was.

use super::core::Class;
use super::insn::{InsnTiming, table};
use super::machine::CorePort;
use crate::hart::Observer;
use crate::isa::Decoded;

/// The memory that the instruction under way touches. Of several accesses of one instruction, which all lie in one word, a
/// writing one counts.
#[derive(Clone, Copy, Debug)]
struct Access {
    address: u64,
    n_bytes: u64,
    writes: bool,
}

/// The instruction under way: the hart has begun it, and the core has not been told yet.
#[derive(Clone, Copy, Debug)]
struct Begun {
    class: Class,
    writes: u64,
    /// Where the next instruction stands if this is no taken branch.
    next: u64,
}

/// An observer of one hart for one stretch of instructions.
#[derive(Debug)]
pub(super) struct Timekeeper<'a, 'b> {
    port: &'a mut CorePort<'b>,
    table: &'static [InsnTiming],
    begun: Option<Begun>,
    access: Option<Access>,
    /// What the hart's cycle counter has been set to, if it has.
    shown_cycles: Option<u64>,
    /// The next instruction reads a counter, and the hart has to be told the cycles first.
    wants_cycles: bool,
}

impl<'a, 'b> Timekeeper<'a, 'b> {
    pub(super) fn new(port: &'a mut CorePort<'b>, shown_cycles: Option<u64>) -> Self {
        Self {
            port,
            table: table(),
            begun: None,
            access: None,
            shown_cycles,
            wants_cycles: false,
        }
    }

    /// The hart stopped, and `pc` is its next instruction. Says whether it did only to be told the cycles.
    pub(super) fn stopped(&mut self, pc: u64) -> bool {
        self.finish(pc);
        self.wants_cycles
    }

    /// The instruction under way turned out to be a remote one, which is told otherwise; what it read here has a cost.
    pub(super) fn stopped_at_remote(&mut self) {
        self.begun = None;
        if let Some(access) = self.access.take() {
            self.port.read_on_the_way(access.address);
        }
    }

    /// The instruction under way is over.
    #[inline(always)]
    fn finish(&mut self, pc: u64) {
        let Some(begun) = self.begun.take() else {
            return;
        };
        match self.access.take() {
            None if pc != begun.next => self.port.retire(Class::Taken, begun.writes),
            None => self.port.retire(begun.class, begun.writes),
            Some(access) if access.writes => {
                self.port
                    .store(access.address, access.n_bytes, begun.writes);
            }
            Some(access) => self.port.load(access.address, access.n_bytes, begun.writes),
        }
    }
}

impl Observer for Timekeeper<'_, '_> {
    const LISTENS: bool = true;

    #[inline(always)]
    fn before(&mut self, pc: u64, insn: &Decoded) -> bool {
        self.finish(pc);
        let timing = &self.table[insn.op as usize];
        if !self.port.may_start(timing.uses(insn)) || timing.is_fence && !self.port.drained() {
            return false;
        }
        if timing.is_csr && Some(self.port.cycles()) != self.shown_cycles {
            self.wants_cycles = true;
            return false;
        }
        self.begun = Some(Begun {
            class: timing.class,
            writes: timing.writes(insn),
            next: pc.wrapping_add(insn.n_bytes().into()),
        });
        true
    }

    #[inline(always)]
    fn access(&mut self, address: u64, n_bytes: u64, writes: bool) {
        self.access = Some(Access {
            address,
            n_bytes,
            writes,
        });
    }
}
