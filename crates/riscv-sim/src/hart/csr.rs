//! Control and status registers, machine and user mode.

use super::trap::Trap;
use super::{Aggregate, Core};

const FFLAGS: u16 = 0x001;
const FRM: u16 = 0x002;
const FCSR: u16 = 0x003;
/// Ours, among the numbers that are free for that: not 0 while the core is in the region of
/// interest.
pub(super) const REGION: u16 = 0x800;
const MSTATUS: u16 = 0x300;
const MISA: u16 = 0x301;
const MIE: u16 = 0x304;
const MTVEC: u16 = 0x305;
const MCOUNTEREN: u16 = 0x306;
/// What user mode may do beyond the usual, which is nothing.
const MENVCFG: u16 = 0x30a;
const MCOUNTINHIBIT: u16 = 0x320;
/// Counters of other events than cycles and instructions, and which events, of which there are
/// none.
const MHPMEVENT: u16 = 0x323;
const MHPMEVENT_LAST: u16 = 0x33f;
const MSCRATCH: u16 = 0x340;
const MEPC: u16 = 0x341;
const MCAUSE: u16 = 0x342;
const MTVAL: u16 = 0x343;
const MIP: u16 = 0x344;
const MCYCLE: u16 = 0xb00;
const MINSTRET: u16 = 0xb02;
const MHPMCOUNTER: u16 = 0xb03;
const MHPMCOUNTER_LAST: u16 = 0xb1f;
const CYCLE: u16 = 0xc00;
const TIME: u16 = 0xc01;
const INSTRET: u16 = 0xc02;
/// The registers of physical memory protection, of which there is none: they read 0, and what is
/// written is ignored.
const PMPCFG: u16 = 0x3a0;
const PMPADDR_LAST: u16 = 0x3ef;
const MVENDORID: u16 = 0xf11;
const MARCHID: u16 = 0xf12;
const MIMPID: u16 = 0xf13;
const MHARTID: u16 = 0xf14;
const MCONFIGPTR: u16 = 0xf15;

const MIE_BIT: u64 = 1 << 3;
const MPIE: u64 = 1 << 7;
const MPP: u64 = 3 << 11;
const FS: u64 = 3 << 13;
const FS_INITIAL: u64 = 1 << 13;
const MPRV: u64 = 1 << 17;
const UXL: u64 = 2 << 32;
const SD: u64 = 1 << 63;
/// RV64 with A, C, D, F, I, M, U and X (the remote instructions).
const MISA_VALUE: u64 = (2 << 62) | 0x0090_112d;

/// What runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// User mode.
    User,
    /// Machine mode.
    Machine,
}

/// What an instruction does to a register after it read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CsrWrite {
    None,
    Set(u64),
    SetBits(u64),
    ClearBits(u64),
}

impl CsrWrite {
    pub(crate) const fn or_none(none: bool, write: Self) -> Self {
        if none { Self::None } else { write }
    }
}

/// The registers that are more than a view of something else.
#[derive(Clone, Debug)]
pub(crate) struct Csrs {
    pub(super) mode: Mode,
    mstatus: u64,
    mie: u64,
    pub(super) mtvec: u64,
    mcounteren: u64,
    mscratch: u64,
    mepc: u64,
    mcause: u64,
    mtval: u64,
    pub(super) fflags: u8,
    pub(super) frm: u8,
    hart_id: u64,
    pub(super) region: u64,
    /// What is added to the counter of instructions to give `minstret`.
    instret_offset: u64,
    /// What is added to the counter of cycles to give `mcycle`.
    cycle_offset: u64,
    /// Cycles, where a timed model counts them.
    pub(super) cycles: Option<u64>,
    /// The counter of instructions at the last trap that the guest's handler got.
    trapped_at: Option<u64>,
    /// The prefix of the instruction that trapped, for when the handler returns to it, and its
    /// address.
    prefix: Option<(u64, Aggregate)>,
}

impl Csrs {
    pub(super) const fn new(hart_id: u64) -> Self {
        Self {
            mode: Mode::Machine,
            // Floating point is on, so that guests without start-up code may use it.
            mstatus: FS_INITIAL,
            mie: 0,
            mtvec: 0,
            mcounteren: 0,
            mscratch: 0,
            mepc: 0,
            mcause: 0,
            mtval: 0,
            fflags: 0,
            frm: 0,
            hart_id,
            region: 0,
            instret_offset: 0,
            cycle_offset: 0,
            cycles: None,
            trapped_at: None,
            prefix: None,
        }
    }

    pub(super) const fn enter_user_mode(&mut self) {
        self.mode = Mode::User;
        self.mcounteren = 7;
    }

    pub(super) const fn has_fp(&self) -> bool {
        self.mstatus & FS != 0
    }
}

impl Core {
    /// Reads a register, writes it, and gives what it was.
    pub(super) fn csr_access(&mut self, number: u16, write: CsrWrite) -> Result<u64, Trap> {
        let illegal = Trap::ILLEGAL;
        let needs_machine = (number >> 8) & 3 != 0;
        if needs_machine && self.csrs.mode != Mode::Machine {
            return Err(illegal);
        }
        let old = self.csr_read(number).ok_or(illegal)?;
        self.has_read_counter |= matches!(number, CYCLE..=INSTRET | MCYCLE | MINSTRET);
        let new = match write {
            CsrWrite::None => return Ok(old),
            CsrWrite::Set(value) => value,
            CsrWrite::SetBits(bits) => old | bits,
            CsrWrite::ClearBits(bits) => old & !bits,
        };
        let read_only = number >> 10 == 3;
        if read_only {
            return Err(illegal);
        }
        // The write itself counts as the last instruction before the new value.
        self.csr_write(number, new, 1);
        Ok(old)
    }

    /// Reads a register for a debugger, whatever the mode.
    pub(super) fn csr_peek(&self, number: u16) -> Option<u64> {
        match number {
            FFLAGS => Some(self.csrs.fflags.into()),
            FRM => Some(self.csrs.frm.into()),
            FCSR => Some(u64::from(self.csrs.frm) << 5 | u64::from(self.csrs.fflags)),
            CYCLE..=INSTRET => {
                let machine = number - CYCLE + MCYCLE;
                self.csr_read(if number == TIME { MCYCLE } else { machine })
            }
            _ => self.csr_read(number),
        }
    }

    /// Writes a register for a debugger.
    pub(super) fn csr_poke(&mut self, number: u16, value: u64) -> bool {
        let writable = self.csr_peek(number).is_some() && number >> 10 != 3;
        if writable {
            self.csr_write(number, value, 0);
        }
        writable
    }

    fn csr_read(&self, number: u16) -> Option<u64> {
        let csrs = &self.csrs;
        if number <= FCSR && !csrs.has_fp() {
            return None;
        }
        let counter = 1 << (number & 31);
        if (CYCLE..=INSTRET).contains(&number)
            && csrs.mode == Mode::User
            && csrs.mcounteren & counter == 0
        {
            return None;
        }
        let cycles = csrs.cycles.unwrap_or(self.instret);
        Some(match number {
            FFLAGS => csrs.fflags.into(),
            FRM => csrs.frm.into(),
            FCSR => u64::from(csrs.frm) << 5 | u64::from(csrs.fflags),
            REGION => csrs.region,
            MSTATUS => {
                let dirty = if csrs.has_fp() { FS | SD } else { 0 };
                csrs.mstatus | dirty | UXL
            }
            MISA => MISA_VALUE,
            MIE => csrs.mie,
            MTVEC => csrs.mtvec,
            MCOUNTEREN => csrs.mcounteren,
            MSCRATCH => csrs.mscratch,
            MEPC => csrs.mepc,
            MCAUSE => csrs.mcause,
            MTVAL => csrs.mtval,
            MHARTID => csrs.hart_id,
            MCYCLE | CYCLE => cycles.wrapping_add(csrs.cycle_offset),
            MINSTRET | INSTRET => self.instret.wrapping_add(csrs.instret_offset),
            TIME => cycles,
            MENVCFG | MCOUNTINHIBIT | MIP | MVENDORID | MARCHID | MIMPID | MCONFIGPTR => 0,
            MHPMEVENT..=MHPMEVENT_LAST | MHPMCOUNTER..=MHPMCOUNTER_LAST => 0,
            // On RV64 the configuration has the even numbers only.
            PMPCFG..0x3b0 if number & 1 == 0 => 0,
            0x3b0..=PMPADDR_LAST => 0,
            _ => return None,
        })
    }

    /// Writes a register, and counters so that they show the value after so many instructions more.
    fn csr_write(&mut self, number: u16, value: u64, n_more: u64) {
        let cycles = self.csrs.cycles.unwrap_or(self.instret);
        let csrs = &mut self.csrs;
        match number {
            FFLAGS => csrs.fflags = value as u8 & 0x1f,
            FRM => csrs.frm = value as u8 & 7,
            FCSR => {
                csrs.fflags = value as u8 & 0x1f;
                csrs.frm = (value >> 5) as u8 & 7;
            }
            REGION => csrs.region = value,
            MSTATUS => {
                // Only user and machine mode exist.
                let mpp = if value & MPP == MPP { MPP } else { 0 };
                csrs.mstatus = (value & (MIE_BIT | MPIE | FS | MPRV)) | mpp;
            }
            MIE => csrs.mie = value & 0x888,
            MTVEC => csrs.mtvec = value & !2,
            MCOUNTEREN => csrs.mcounteren = value & 7,
            MSCRATCH => csrs.mscratch = value,
            MEPC => csrs.mepc = value & !1,
            MCAUSE => csrs.mcause = value,
            MTVAL => csrs.mtval = value,
            MCYCLE => csrs.cycle_offset = value.wrapping_sub(cycles.wrapping_add(n_more)),
            MINSTRET => {
                csrs.instret_offset = value.wrapping_sub(self.instret.wrapping_add(n_more));
            }
            _ => {}
        }
    }

    /// Goes to the guest's trap handler. False if it has none, or one whose first instruction has
    /// just trapped itself: it would do so for ever, and no instruction would be counted.
    pub(super) fn enter_trap(&mut self, trap: Trap) -> bool {
        let csrs = &mut self.csrs;
        let handler = csrs.mtvec & !3;
        let cannot_begin = self.pc == handler && csrs.trapped_at == Some(self.instret);
        if csrs.mtvec == 0 || cannot_begin {
            return false;
        }
        csrs.trapped_at = Some(self.instret);
        csrs.prefix = self.aggregate.take().map(|prefix| (self.pc, prefix));
        csrs.mepc = self.pc;
        csrs.mcause = trap.cause as u64;
        csrs.mtval = trap.value;
        let mpie = if csrs.mstatus & MIE_BIT != 0 { MPIE } else { 0 };
        let mpp = if csrs.mode == Mode::Machine { MPP } else { 0 };
        csrs.mstatus = (csrs.mstatus & !(MIE_BIT | MPIE | MPP)) | mpie | mpp;
        csrs.mode = Mode::Machine;
        self.pc = handler;
        true
    }

    /// Where `mret` returns to.
    pub(super) fn leave_trap(&mut self) -> u64 {
        let csrs = &mut self.csrs;
        let mie = if csrs.mstatus & MPIE != 0 { MIE_BIT } else { 0 };
        csrs.mode = if csrs.mstatus & MPP == MPP {
            Mode::Machine
        } else {
            Mode::User
        };
        let keep = if csrs.mode == Mode::Machine { MPRV } else { 0 };
        csrs.mstatus = (csrs.mstatus & (FS | keep)) | MPIE | mie;
        let prefix = csrs.prefix.take();
        self.aggregate = prefix.and_then(|(pc, prefix)| (pc == csrs.mepc).then_some(prefix));
        csrs.mepc
    }
}
