//! One core: its registers, and the interpreter that runs the meanings of the instructions.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "instructions take registers as numbers of other widths and signs"
)]

#[macro_use]
mod chains;
mod block;
mod context;
mod csr;
mod float_ops;
mod remote_ops;
mod run;
mod trap;

pub use csr::Mode;
pub use run::Stop;
pub use trap::{Cause, Trap};

use block::CodeCache;
use csr::Csrs;

use crate::isa::{Decoded, Profile};
use crate::memory::RAM_BASE;
use crate::remote::{Destination, RemoteRequest};

/// Where `eamocas` finds the value that it puts in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CompareSwapForm {
    /// In this node's own word at the same address, as in the authors' simulator: `rs2` is the
    /// value to expect.
    #[default]
    LocalWord,
    /// In `rs2`; `rd` holds the value to expect, as in the Zacas extension.
    Registers,
}

/// What a core is told at reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HartConfig {
    /// Which encodings count.
    pub profile: Profile,
    /// How many instructions it keeps decoded, about: beyond, all are decoded anew. That changes
    /// nothing but the host's time and memory.
    pub decoded: usize,
    /// Where the new value of a compare-and-swap is.
    pub compare_swap: CompareSwapForm,
    /// `mhartid`.
    pub hart_id: u64,
    /// The extended registers at reset.
    pub extended: [u64; 32],
    /// Where it starts.
    pub pc: u64,
    /// The address of `tohost`, a write to which ends the run or asks the host for something.
    pub tohost: Option<u64>,
    /// Where the memory starts that it will run on.
    pub ram_start: u64,
}

impl Default for HartConfig {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            decoded: 1 << 18,
            compare_swap: CompareSwapForm::default(),
            hart_id: 0,
            extended: [0; 32],
            pc: RAM_BASE,
            tohost: None,
            ram_start: RAM_BASE,
        }
    }
}

/// What a timed model, a tracer or a debugger is told about each instruction.
pub trait Observer {
    /// Whether anything is listening. If not, instructions may be run several at once.
    const LISTENS: bool;

    /// An instruction is about to be carried out. False stops before it.
    fn before(&mut self, pc: u64, insn: &Decoded) -> bool;

    /// The instruction reads or writes this node's memory.
    fn access(&mut self, address: u64, n_bytes: u64, writes: bool);
}

impl<O: Observer> Observer for &mut O {
    const LISTENS: bool = O::LISTENS;

    fn before(&mut self, pc: u64, insn: &Decoded) -> bool {
        (**self).before(pc, insn)
    }

    fn access(&mut self, address: u64, n_bytes: u64, writes: bool) {
        (**self).access(address, n_bytes, writes);
    }
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {
    const LISTENS: bool = false;

    #[inline(always)]
    fn before(&mut self, _pc: u64, _insn: &Decoded) -> bool {
        true
    }

    #[inline(always)]
    fn access(&mut self, _address: u64, _n_bytes: u64, _writes: bool) {}
}

/// The prefix of a remote load or store, which makes it move several elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aggregate {
    n_elements: u64,
    /// Where they lie here.
    local: u64,
    /// The load or store stands at its request.
    is_asked: bool,
}

/// The state of a core that instructions see.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    /// Integer registers. What is written to register 0 goes to 32; the others are there so that no
    /// index is out of range.
    x: [u64; 256],
    f: [u64; 32],
    e: [u64; 32],
    pc: u64,
    instret: u64,
    /// Atomics on its own node's memory.
    n_atomics: u64,
    /// How far `tohost` lies from the start of the memory.
    tohost: u64,
    /// The reserved address and its width.
    reservation: Option<(u64, u64)>,
    request: Option<RemoteRequest>,
    compare_swap: CompareSwapForm,
    /// What the next remote load or store moves, if more than one element.
    aggregate: Option<Aggregate>,
    csrs: Csrs,
    /// It has read a counter, and nobody has asked since.
    has_read_counter: bool,
}

/// One core.
#[derive(Clone, Debug)]
pub struct Hart {
    core: Core,
    code: CodeCache,
}

impl Hart {
    /// A core at reset.
    #[must_use]
    pub fn new(config: &HartConfig) -> Self {
        Self {
            core: Core {
                x: [0; 256],
                f: [0; 32],
                e: config.extended,
                pc: config.pc,
                instret: 0,
                n_atomics: 0,
                tohost: config
                    .tohost
                    .map_or(u64::MAX, |at| at.wrapping_sub(config.ram_start)),
                reservation: None,
                request: None,
                compare_swap: config.compare_swap,
                aggregate: None,
                csrs: Csrs::new(config.hart_id),
                has_read_counter: false,
            },
            code: CodeCache::new(config.profile, config.decoded),
        }
    }

    /// The address of the next instruction.
    #[must_use]
    pub const fn pc(&self) -> u64 {
        self.core.pc
    }

    /// Sets the address of the next instruction.
    pub const fn set_pc(&mut self, pc: u64) {
        self.core.pc = pc;
    }

    /// Integer register `number`.
    #[must_use]
    pub const fn x(&self, number: u8) -> u64 {
        self.core.x[(number & 31) as usize]
    }

    /// Sets integer register `number`; register 0 stays 0.
    pub const fn set_x(&mut self, number: u8, value: u64) {
        let number = number & 31;
        if number != 0 {
            self.core.x[number as usize] = value;
        }
    }

    /// Floating-point register `number`, as bits.
    #[must_use]
    pub const fn f(&self, number: u8) -> u64 {
        self.core.f[(number & 31) as usize]
    }

    /// Sets floating-point register `number`.
    pub const fn set_f(&mut self, number: u8, bits: u64) {
        self.core.f[(number & 31) as usize] = bits;
    }

    /// Extended register `number`.
    #[must_use]
    pub const fn e(&self, number: u8) -> u64 {
        self.core.e[(number & 31) as usize]
    }

    /// Sets extended register `number`.
    pub const fn set_e(&mut self, number: u8, value: u64) {
        self.core.e[(number & 31) as usize] = value;
    }

    /// A control and status register as machine mode sees it, if there is one of that number.
    #[must_use]
    pub fn csr(&self, number: u16) -> Option<u64> {
        self.core.csr_peek(number)
    }

    /// Writes a control and status register as machine mode does. False if there is none of that
    /// number, or it cannot be written.
    pub fn set_csr(&mut self, number: u16, value: u64) -> bool {
        self.core.csr_poke(number, value)
    }

    /// The floating-point flags.
    #[must_use]
    pub const fn fflags(&self) -> u8 {
        self.core.csrs.fflags
    }

    /// Instructions completed since reset.
    #[must_use]
    pub const fn instret(&self) -> u64 {
        self.core.instret
    }

    /// Atomics on its own node's memory since reset: a store-conditional is one if it stores.
    #[must_use]
    pub const fn n_atomics(&self) -> u64 {
        self.core.n_atomics
    }

    /// Whether it is in the region of interest, which the guest begins and ends by a register of
    /// its own, 0x800.
    #[must_use]
    pub const fn is_in_region(&self) -> bool {
        self.core.csrs.region != 0
    }

    /// The mode in which the next instruction runs.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.core.csrs.mode
    }

    /// From the next instruction on it runs in user mode, as a program of Linux does: no register
    /// of machine mode is there, but all counters are.
    pub(crate) const fn enter_user_mode(&mut self) {
        self.core.csrs.enter_user_mode();
    }

    /// Which encodings count.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.code.profile()
    }

    /// Whether the guest has a trap handler.
    #[must_use]
    pub const fn has_trap_handler(&self) -> bool {
        self.core.csrs.mtvec != 0
    }

    /// Whether it has read a counter since this was asked last: it may wait for a time.
    pub(crate) const fn take_counter_read(&mut self) -> bool {
        std::mem::replace(&mut self.core.has_read_counter, false)
    }

    /// What `mcycle` was last told to count, where a timed model knows it.
    #[must_use]
    pub const fn cycles(&self) -> Option<u64> {
        self.core.csrs.cycles
    }

    /// Sets what `mcycle` counts, where a timed model knows it.
    pub const fn set_cycles(&mut self, cycles: u64) {
        self.core.csrs.cycles = Some(cycles);
    }

    /// Gives up the reservation if it overlaps these addresses, which somebody else wrote.
    pub fn break_reservation(&mut self, address: u64, n_bytes: u64) {
        if let Some((at, width)) = self.core.reservation
            && at < address.saturating_add(n_bytes)
            && address < at + width
        {
            self.core.reservation = None;
        }
    }

    /// Whether it has reserved a word of its own node's memory.
    #[must_use]
    pub const fn has_reservation(&self) -> bool {
        self.core.reservation.is_some()
    }

    /// Gives up the reservation, whatever it is.
    pub const fn break_any_reservation(&mut self) {
        self.core.reservation = None;
    }

    /// Completes the instruction that stopped with a request, with the answer as it goes into the
    /// register.
    pub fn complete(&mut self, destination: Destination, answer: u64) {
        match destination {
            Destination::None => {}
            Destination::Integer(rd) => self.set_x(rd, answer),
            Destination::Extended(ed) => self.core.e[(ed & 31) as usize] = answer,
        }
        self.core.aggregate.take_if(|prefix| prefix.is_asked);
        self.core.pc = self.core.pc.wrapping_add(4);
        self.core.instret += 1;
    }

    /// Completes an instruction without an answer, as a host call that was an `ecall`.
    pub fn skip(&mut self, n_bytes: u64) {
        self.core.pc = self.core.pc.wrapping_add(n_bytes);
        self.core.instret += 1;
    }

    /// Forgets decoded instructions, for somebody else than the guest wrote where they lie.
    pub fn forget_code(&mut self) {
        self.code.clear();
    }

    /// Makes the next instruction trap instead. False if the guest has no handler, or one that
    /// cannot begin.
    pub fn trap(&mut self, trap: Trap) -> bool {
        self.core.enter_trap(trap)
    }
}
