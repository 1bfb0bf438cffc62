//! Traps: what the architecture does when an instruction cannot be carried out.

use std::fmt;

/// Why an instruction was not carried out; the numbers are those of `mcause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cause {
    /// A jump to an odd address.
    FetchMisaligned = 0,
    /// Instructions where there is no memory.
    FetchFault = 1,
    /// Bits that are no instruction, or one that is not allowed here.
    IllegalInstruction = 2,
    /// `ebreak`.
    Breakpoint = 3,
    /// A load that must be aligned and is not.
    LoadMisaligned = 4,
    /// A load where there is no memory, of this node or of the node that an object names.
    LoadFault = 5,
    /// A store or atomic that must be aligned and is not.
    StoreMisaligned = 6,
    /// A store or atomic where there is no memory.
    StoreFault = 7,
    /// `ecall` in user mode.
    UserCall = 8,
    /// `ecall` in machine mode.
    MachineCall = 11,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FetchMisaligned => "misaligned instruction address",
            Self::FetchFault => "no memory at the instruction address",
            Self::IllegalInstruction => "illegal instruction",
            Self::Breakpoint => "breakpoint",
            Self::LoadMisaligned => "misaligned load",
            Self::LoadFault => "load where there is no memory",
            Self::StoreMisaligned => "misaligned store or atomic",
            Self::StoreFault => "store or atomic where there is no memory",
            Self::UserCall => "environment call in user mode",
            Self::MachineCall => "environment call in machine mode",
        })
    }
}

/// A trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Why.
    pub cause: Cause,
    /// The address or the bits in question, as in `mtval`.
    pub value: u64,
}

impl Trap {
    /// An illegal instruction; its bits are put in where it is found.
    pub(crate) const ILLEGAL: Self = Self::new(Cause::IllegalInstruction, 0);

    pub(crate) const fn new(cause: Cause, value: u64) -> Self {
        Self { cause, value }
    }
}

/// Why an instruction did not lead to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// It trapped.
    Trap(Trap),
    /// It wants something of another node; the request lies in the core.
    Remote,
    /// It wrote to `tohost`.
    Host,
    /// It waits for an interrupt.
    Wait,
    /// It came into the region of interest, or left it.
    Region,
    /// It changed what lies in the instruction memory.
    FenceI,
}

impl From<Trap> for Break {
    fn from(trap: Trap) -> Self {
        Self::Trap(trap)
    }
}
