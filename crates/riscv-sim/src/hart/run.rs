//! The interpreter's loop: one `match` over all rows, so that every meaning is compiled into it.

use super::block::fetch;
use super::context::Context;
use super::csr::CsrWrite;
use super::trap::{Break, Cause, Trap};
use super::{Core, Hart, Observer};
use crate::float::{self, Double, Integer, Single};
use crate::isa::{Decoded, Op};
use crate::memory::Ram;
use crate::remote::{AtomicOp, Direction, RemoteRequest, Width};

/// Why a core stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The instructions that it was given are used up, or the observer wanted it to stop.
    Budget,
    /// It asks something of another node, and waits at that instruction for [`Hart::complete`] or [`Hart::trap`].
    Remote(RemoteRequest),
    /// It wrote to `tohost`.
    Host,
    /// It trapped and has no handler. It stands at that instruction.
    Trap(Trap),
    /// It waits for an interrupt, and none will come: others may run meanwhile.
    Wait,
}

/// How a run of one block ended.
enum End {
    /// The next block.
    Next(u64),
    /// An instruction, at this address and after that many of its block, did not complete.
    Break(u64, u8, Break),
    /// The observer stopped before that instruction.
    Stopped(u64, u8),
}

impl Hart {
    /// Runs until something happens, or about `budget` instructions are done: a block that was begun is ended.
    pub fn run<O: Observer>(&mut self, ram: &mut Ram, budget: u64, observer: &mut O) -> Stop {
        let limit = self.core.instret.saturating_add(budget);
        loop {
            if self.core.instret >= limit {
                return Stop::Budget;
            }
            let stop = self.run_blocks(ram, limit, observer);
            if let Some(stop) = stop {
                return stop;
            }
        }
    }

    /// Runs blocks. `None` if the code has to be looked up anew.
    fn run_blocks<O: Observer>(
        &mut self,
        ram: &mut Ram,
        limit: u64,
        observer: &mut O,
    ) -> Option<Stop> {
        let Self { core, code } = self;
        loop {
            let pc = core.pc;
            let block = code.block(pc, ram);
            let [.., last] = block else {
                let trap = if pc & 1 == 0 {
                    Trap::new(Cause::FetchFault, pc)
                } else {
                    Trap::new(Cause::FetchMisaligned, pc)
                };
                return trapped(core, trap);
            };
            let n_instructions = u64::from(last.index) + 1;
            match run_block(pc, block, core, ram, observer) {
                End::Next(next) => {
                    core.instret += n_instructions;
                    core.pc = next;
                    if core.instret >= limit {
                        return Some(Stop::Budget);
                    }
                }
                End::Stopped(at, done) => {
                    core.instret += u64::from(done);
                    core.pc = at;
                    return Some(Stop::Budget);
                }
                End::Break(at, done, why) => {
                    core.instret += u64::from(done);
                    core.pc = at;
                    if let Some(stop) = broken(core, ram, why) {
                        return Some(stop);
                    }
                    code.clear();
                    return None;
                }
            }
        }
    }
}

/// What becomes of an instruction that did not lead to the next one. `None` if the code has to be looked up anew.
#[cold]
fn broken(core: &mut Core, ram: &Ram, why: Break) -> Option<Stop> {
    let stop = match why {
        Break::Trap(trap) => return trapped(core, trap),
        Break::Remote => {
            let request = core.request.take();
            return Some(Stop::Remote(
                request.expect("the instruction left its request"),
            ));
        }
        Break::FenceI => None,
        Break::Host => Some(Stop::Host),
        Break::Wait => Some(Stop::Wait),
    };
    let compressed = fetch(core.pc, ram).is_some_and(|word| word & 3 != 3);
    core.pc = core.pc.wrapping_add(if compressed { 2 } else { 4 });
    core.instret += 1;
    stop
}

fn trapped(core: &mut Core, trap: Trap) -> Option<Stop> {
    if core.enter_trap(trap) {
        None
    } else {
        Some(Stop::Trap(trap))
    }
}

/// Carries out one instruction; by its kind, what its meaning gives.
macro_rules! carry_out {
    (plain $at:ident $insn:ident $context:ident $result:expr) => {
        $result
    };
    (fallible $at:ident $insn:ident $context:ident $result:expr) => {
        if let Err(why) = $result {
            return End::Break($at, $insn.index, why);
        }
    };
    (jump $at:ident $insn:ident $context:ident $result:expr) => {
        return match $result {
            Ok(next) => End::Next(next),
            Err(why) => End::Break($at, $insn.index, why),
        }
    };
    (system $at:ident $insn:ident $context:ident $result:expr) => {{
        // The counter of instructions is brought up to date, for it may be read.
        $context.core.instret += u64::from($insn.index);
        let result: Result<u64, Break> = $result;
        $context.core.instret -= u64::from($insn.index);
        return match result {
            Ok(next) => End::Next(next),
            Err(why) => End::Break($at, $insn.index, why),
        };
    }};
}

/// Whether a kind of instruction ends its block.
macro_rules! is_end {
    (plain) => {
        false
    };
    (fallible) => {
        false
    };
    (jump) => {
        true
    };
    (system) => {
        true
    };
}

macro_rules! interpreter {
    ($($op:ident $name:literal $extension:ident $format:ident $mask:literal $value:literal
        $kind:ident |$hart:ident, $insn:ident| $meaning:block)*) => {
        #[inline(always)]
        fn run_block<O: Observer>(
            pc: u64,
            block: &[Decoded],
            core: &mut Core,
            ram: &mut Ram,
            observer: &mut O,
        ) -> End {
            let mut next = pc;
            for insn in block {
                let at = pc.wrapping_add(u64::from(insn.offset) * 2);
                if O::LISTENS && !observer.before(at, insn) {
                    return End::Stopped(at, insn.index);
                }
                match insn.op {
                    Op::Illegal => {
                        let trap = Trap::new(Cause::IllegalInstruction, insn.word.into());
                        return End::Break(at, insn.index, trap.into());
                    }
                    $(Op::$op => {
                        let meaning = |$hart: &mut Context<'_, O>, $insn: &Decoded| $meaning;
                        let mut context = Context {
                            core: &mut *core,
                            ram: &mut *ram,
                            observer: &mut *observer,
                            pc: at,
                        };
                        carry_out!($kind at insn context meaning(&mut context, insn));
                    })*
                }
                next = at.wrapping_add(insn.n_bytes().into());
            }
            End::Next(next)
        }

        /// Whether what follows the instruction is another block's.
        pub(super) const fn ends_block(op: Op) -> bool {
            match op {
                Op::Illegal => true,
                $(Op::$op => is_end!($kind),)*
            }
        }
    };
}

isa_rows!(interpreter);
