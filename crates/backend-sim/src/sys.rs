//! The instructions of xBGAS and RAE, one function each; the only file with assembly.
//!
//! Encodings are those of specification 0.7, the simulator's usual profile, and the later atomics,
//! which decode in both. The address is in `t0`, so that the object is in `e5`, which nothing else
//! uses. Object `k` is rank `k - 1`; the own rank's object goes through the network, too.
#![expect(unsafe_code, reason = "instructions that the compiler does not know")]

use std::arch::asm;

/// A word of some rank's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    object: u64,
    address: u64,
}

impl Remote {
    pub(crate) const fn new(rank: u32, address: u64) -> Self {
        Self {
            object: rank as u64 + 1,
            address,
        }
    }

    /// The place so many bytes further.
    pub(crate) const fn at(self, offset: u64) -> Self {
        Self {
            address: self.address + offset,
            ..self
        }
    }

    /// The word of four bytes around it, and how many bytes behind its beginning it is.
    pub(crate) const fn word_around(self) -> (Self, u64) {
        let place = self.address % 4;
        let address = self.address - place;
        (Self { address, ..self }, place)
    }

    pub(crate) const fn is_aligned(self, to: u64) -> bool {
        self.address.is_multiple_of(to)
    }
}

/// What the simulator tells a process at its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) rank: u64,
    pub(crate) n_ranks: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) segment: u64,
}

pub(crate) fn start() -> Start {
    let (rank, n_ranks, segment_bytes, segment): (u64, u64, u64, u64);
    // SAFETY: `eaddi` reads extended registers, which hold what they held at the start, and touches
    // no memory.
    unsafe {
        asm!(
            ".insn i 0x7b, 6, {0}, x10, 0",
            ".insn i 0x7b, 6, {1}, x11, 0",
            ".insn i 0x7b, 6, {2}, x12, 0",
            ".insn i 0x7b, 6, {3}, x13, 0",
            out(reg) rank, out(reg) n_ranks, out(reg) segment_bytes, out(reg) segment,
            options(nomem, nostack),
        );
    }
    Start {
        rank,
        n_ranks,
        segment_bytes,
        segment,
    }
}

macro_rules! load {
    ($name:ident, $funct3:literal) => {
        /// # Safety
        /// The place lies in that rank's segment, aligned to its width.
        pub(crate) unsafe fn $name(from: Remote) -> u64 {
            let value;
            // SAFETY: the caller promises that the place may be read.
            unsafe {
                asm!(
                    ".insn i 0x7b, 7, x5, {object}, 0",
                    concat!(".insn i 0x77, ", $funct3, ", {value}, 0(t0)"),
                    object = in(reg) from.object, value = out(reg) value, in("t0") from.address,
                    options(nostack),
                );
            }
            value
        }
    };
}

macro_rules! store {
    ($name:ident, $funct3:literal) => {
        /// # Safety
        /// The place lies in that rank's segment, aligned to its width.
        pub(crate) unsafe fn $name(to: Remote, value: u64) {
            // SAFETY: the caller promises that the place may be written.
            unsafe {
                asm!(
                    ".insn i 0x7b, 7, x5, {object}, 0",
                    concat!(".insn s 0x7b, ", $funct3, ", {value}, 0(t0)"),
                    object = in(reg) to.object, value = in(reg) value, in("t0") to.address,
                    options(nostack),
                );
            }
        }
    };
}

load!(load_u8, "4");
load!(load_u64, "3");
store!(store_u8, "0");
store!(store_u64, "3");

macro_rules! bulk {
    ($name:ident, $pointer:ty, $instruction:literal, $doc:literal) => {
        #[doc = $doc]
        ///
        /// By a prefix (`eag`), which makes one remote load or store move many words. All are there
        /// when it returns.
        ///
        /// # Safety
        /// Both places are aligned to words. So many words lie in that rank's segment, and as many
        /// bytes here are valid.
        pub(crate) unsafe fn $name(there: Remote, here: $pointer, n_words: u64) {
            // SAFETY: the caller promises that the words there and here may be read or written.
            unsafe {
                asm!(
                    ".insn i 0x7b, 7, x5, {object}, 0",
                    ".insn r 0x6b, 1, 0x08, x0, {n_words}, {here}",
                    $instruction,
                    object = in(reg) there.object, n_words = in(reg) n_words, here = in(reg) here,
                    in("t0") there.address,
                    options(nostack),
                );
            }
        }
    };
}

bulk!(
    load_words,
    *mut u8,
    ".insn i 0x77, 3, x0, 0(t0)",
    "Copies words from a segment."
);
bulk!(
    store_words,
    *const u8,
    ".insn s 0x7b, 3, x0, 0(t0)",
    "Copies words to a segment."
);

macro_rules! atomic {
    ($word:ident, $double:ident, $funct7:literal) => {
        atomic!($word, "2", $funct7);
        atomic!($double, "3", $funct7);
    };
    ($name:ident, $funct3:literal, $funct7:literal) => {
        /// Gives what was there before, a word of four bytes sign-extended.
        ///
        /// # Safety
        /// The word lies in that rank's segment, aligned to its width.
        pub(crate) unsafe fn $name(at: Remote, operand: u64) -> u64 {
            let old;
            // SAFETY: the caller promises that the word may be changed.
            unsafe {
                asm!(
                    ".insn i 0x7b, 7, x5, {object}, 0",
                    concat!(".insn r 0x6b, ", $funct3, ", ", $funct7, ", {old}, t0, {operand}"),
                    object = in(reg) at.object, operand = in(reg) operand, old = out(reg) old,
                    in("t0") at.address,
                    options(nostack),
                );
            }
            old
        }
    };
}

atomic!(add_w, add_d, "0x00");
atomic!(swap_w, swap_d, "0x04");
atomic!(xor_w, xor_d, "0x10");
atomic!(or_w, or_d, "0x20");
atomic!(and_w, and_d, "0x30");
atomic!(min_w, min_d, "0x40");
atomic!(max_w, max_d, "0x50");
atomic!(minu_w, minu_d, "0x60");
atomic!(maxu_w, maxu_d, "0x70");

macro_rules! compare_swap {
    ($name:ident, $funct3:literal) => {
        /// Gives what was there before, a word of four bytes sign-extended; `expected` likewise.
        ///
        /// # Safety
        /// The word lies in that rank's segment, aligned to its width.
        pub(crate) unsafe fn $name(at: Remote, expected: u64, new: u64) -> u64 {
            let old;
            // SAFETY: the caller promises that the word may be changed.
            unsafe {
                asm!(
                    ".insn i 0x7b, 7, x5, {object}, 0",
                    // elr, and esc unless something else stands there; again if the reservation was
                    // lost.
                    concat!("1: .insn r 0x6b, ", $funct3, ", 0x08, {old}, t0, x0"),
                    "bne {old}, {expected}, 2f",
                    concat!(".insn r 0x6b, ", $funct3, ", 0x0c, {failed}, t0, {new}"),
                    "bnez {failed}, 1b",
                    "2:",
                    object = in(reg) at.object, expected = in(reg) expected, new = in(reg) new,
                    old = out(reg) old, failed = out(reg) _, in("t0") at.address,
                    options(nostack),
                );
            }
            old
        }
    };
}

compare_swap!(compare_swap_w, "2");
compare_swap!(compare_swap_d, "3");

/// The system call by which a process of the simulator waits for others.
const AWAIT_WRITES: u64 = 4096;

/// Waits until others have written to this process's memory another number of times than `seen`
/// since its start, or `ns` are over; gives that number.
pub(crate) fn await_writes(seen: u64, ns: u64) -> u64 {
    let count;
    // SAFETY: the call changes no memory; what others have written meanwhile is read by what
    // follows.
    unsafe {
        asm!(
            "ecall",
            in("a7") AWAIT_WRITES, inlateout("a0") seen => count, in("a1") ns,
            options(nostack),
        );
    }
    count
}

/// Everything asked of other nodes before is done when this is.
pub(crate) fn fence() {
    // SAFETY: it orders memory accesses and does nothing else.
    unsafe { asm!("fence", options(nostack)) };
}

/// Says that this process comes into its region of interest, or leaves it.
pub(crate) fn mark_region(is_inside: bool) {
    // SAFETY: the simulator counts by this register, which holds nothing else.
    unsafe { asm!("csrw 0x800, {0}", in(reg) u64::from(is_inside), options(nostack)) };
}
