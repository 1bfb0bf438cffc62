//! The interpreter's loop: one `match` over all rows, so that every meaning is compiled into it.

use super::block::{Continuation, Slot, end_of, fetch};
use super::chains::LONGEST;
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
    /// It asks something of another node, and waits at that instruction for [`Hart::complete`] or
    /// [`Hart::trap`].
    Remote(RemoteRequest),
    /// It wrote to `tohost`.
    Host,
    /// It trapped and has no handler, or one whose first instruction traps. It stands at that
    /// instruction.
    Trap(Trap),
    /// It waits for an interrupt, and none will come: others may run meanwhile.
    Wait,
    /// It came into the region of interest, or left it.
    Region,
}

/// How a run of one block ended.
enum End {
    /// The next block, after that many instructions of this one.
    Next(u64, u8),
    /// This instruction did not complete.
    Break(Break, Decoded),
    /// The observer stopped before this instruction.
    Stopped(Decoded),
}

impl Hart {
    /// Runs until something happens, or about `budget` instructions are done: a block that was
    /// begun is ended.
    pub fn run<O: Observer>(&mut self, ram: &mut Ram, budget: u64, observer: &mut O) -> Stop {
        let limit = self.core.instret.saturating_add(budget);
        let Self { core, code } = self;
        // An observer hears of one instruction at a time.
        code.make_chains(!O::LISTENS);
        while core.instret < limit {
            let pc = core.pc;
            let block = code.block(pc, ram);
            if block.is_empty() {
                let trap = if pc & 1 == 0 {
                    Trap::new(Cause::FetchFault, pc)
                } else {
                    Trap::new(Cause::FetchMisaligned, pc)
                };
                match trapped(core, trap) {
                    Some(stop) => return stop,
                    None => continue,
                }
            }
            match run_block(block, core, ram, observer) {
                End::Next(next, done) => {
                    core.instret += u64::from(done);
                    core.pc = next;
                }
                End::Stopped(at) => {
                    core.instret += u64::from(at.index);
                    core.pc = at.pc();
                    return Stop::Budget;
                }
                End::Break(why, at) => {
                    core.instret += u64::from(at.index);
                    core.pc = at.pc();
                    if let Some(stop) = broken(core, ram, why) {
                        return stop;
                    }
                    if why == Break::FenceI {
                        code.clear();
                    }
                }
            }
        }
        Stop::Budget
    }
}

/// What becomes of an instruction that did not lead to the next one. `None` if the core goes on.
#[cold]
fn broken(core: &mut Core, ram: &Ram, why: Break) -> Option<Stop> {
    let stop = match why {
        Break::Trap(mut trap) => {
            if trap.cause == Cause::IllegalInstruction {
                trap.value = fetch(core.pc, ram).unwrap_or(0).into();
            }
            return trapped(core, trap);
        }
        Break::Remote => {
            let request = core.request.take();
            return Some(Stop::Remote(
                request.expect("the instruction left its request"),
            ));
        }
        Break::FenceI => None,
        Break::Host => Some(Stop::Host),
        Break::Wait => Some(Stop::Wait),
        Break::Region => Some(Stop::Region),
    };
    let compressed = fetch(core.pc, ram).is_some_and(|word| word & 3 != 3);
    core.pc = core.pc.wrapping_add(if compressed { 2 } else { 4 });
    core.instret += 1;
    stop
}

/// Goes to the guest's handler, or stops if there is none that can begin.
fn trapped(core: &mut Core, trap: Trap) -> Option<Stop> {
    if core.enter_trap(trap) {
        None
    } else {
        Some(Stop::Trap(trap))
    }
}

/// Carries out one instruction: by its kind, what its meaning gives, and what comes after it.
macro_rules! carry_out {
    (plain $insn:ident $context:ident $result:expr) => {
        $result
    };
    (fallible $insn:ident $context:ident $result:expr) => {
        if let Err(why) = $result {
            return End::Break(why, *$insn);
        }
    };
    (branch $insn:ident $context:ident $result:expr) => {
        let taken: bool = $result;
        if taken != $insn.expected {
            let distance = if taken {
                $insn.imm()
            } else {
                $insn.n_bytes.into()
            };
            return End::Next($insn.pc().wrapping_add(distance), $insn.index + 1);
        }
    };
    (direct $insn:ident $context:ident $result:expr) => {
        $result
    };
    (indirect $insn:ident $context:ident $result:expr) => {
        return End::Next($result, $insn.index + 1)
    };
    (system $insn:ident $context:ident $result:expr) => {{
        // The counter of instructions is brought up to date, for it may be read.
        $context.core.instret += u64::from($insn.index);
        let result: Result<u64, Break> = $result;
        $context.core.instret -= u64::from($insn.index);
        return match result {
            Ok(next) => End::Next(next, $insn.index + 1),
            Err(why) => End::Break(why, *$insn),
        };
    }};
}

/// What comes after an instruction of a kind.
macro_rules! continuation_of {
    (plain) => {
        Continuation::Next
    };
    (fallible) => {
        Continuation::Next
    };
    (branch) => {
        Continuation::Either
    };
    (direct) => {
        Continuation::Target
    };
    (indirect) => {
        Continuation::Unknown
    };
    (system) => {
        Continuation::Unknown
    };
}

/// What the meaning of a kind of instruction gives.
macro_rules! result_of {
    (plain) => {
        ()
    };
    (fallible) => {
        Result<(), Break>
    };
    (branch) => {
        bool
    };
    (direct) => {
        ()
    };
    (indirect) => {
        u64
    };
    (system) => {
        Result<u64, Break>
    };
}

/// Adds the chains to the rows.
macro_rules! interpreter {
    ($($rows:tt)*) => { chains! { interpreter_of { $($rows)* } } };
}

macro_rules! interpreter_of {
    ({ $($op:ident $name:literal $extension:ident $format:ident $mask:literal $value:literal
        $kind:ident |$hart:ident, $insn:ident| $meaning:block)* }
     { $($chain:ident: $($part_kind:ident $part:ident),+;)* }) => {
        /// What the loop dispatches on: an instruction, or a chain of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub(super) enum Step {
            Illegal,
            $($op,)*
            $($chain,)*
        }

        /// The instructions of each chain.
        #[cfg(test)]
        pub(super) const CHAINS: &[&[Op]] = &[$(&[$(Op::$part),+]),*];

        impl Step {
            pub(super) const fn of(op: Op) -> Self {
                match op {
                    Op::Illegal => Self::Illegal,
                    $(Op::$op => Self::$op,)*
                }
            }

            /// The chain with which these instructions begin, and its length.
            pub(super) const fn of_chain(ops: [Op; LONGEST]) -> Option<(Self, usize)> {
                match ops {
                    $([$(Op::$part,)+ ..] => Some((Self::$chain, [$(Op::$part),+].len())),)*
                    _ => None,
                }
            }
        }

        $(#[inline(always)]
        #[expect(non_snake_case, reason = "a meaning has the name of its row")]
        fn $op<O: Observer>($hart: &mut Context<'_, O>, $insn: &Decoded) -> result_of!($kind) $meaning)*

        #[inline(always)]
        #[expect(unreachable_code, reason = "some instructions always end their block")]
        fn run_block<O: Observer>(
            block: &[Slot],
            core: &mut Core,
            ram: &mut Ram,
            observer: &mut O,
        ) -> End {
            let mut slots = block;
            // No instructions are behind the last ones, so there are always enough for a chain.
            while let Some((near, [_, ..])) = slots.split_first_chunk::<LONGEST>() {
                let Slot { step, insn } = &near[0];
                if O::LISTENS && !observer.before(insn.pc(), insn) {
                    return End::Stopped(*insn);
                }
                // How many are done: one way on for all of them costs the fewest jumps.
                let n_done = match step {
                    Step::Illegal => return End::Break(Trap::ILLEGAL.into(), *insn),
                    $(Step::$op => {
                        // Made here, it never leaves the registers where the meaning is simple.
                        let mut context = Context {
                            core: &mut *core,
                            ram: &mut *ram,
                            observer: &mut *observer,
                        };
                        carry_out!($kind insn context $op(&mut context, insn));
                        1
                    })*
                    $(Step::$chain => {
                        let mut context = Context {
                            core: &mut *core,
                            ram: &mut *ram,
                            observer: &mut *observer,
                        };
                        let mut n_done = 0;
                        $(
                            let insn = &near[n_done].insn;
                            carry_out!($part_kind insn context $part(&mut context, insn));
                            n_done += 1;
                        )+
                        n_done
                    })*
                };
                slots = &slots[n_done..];
            }
            let (next, n_done) = end_of(&slots[0]);
            End::Next(next, n_done)
        }

        /// What comes after an instruction.
        pub(super) const fn continuation(op: Op) -> Continuation {
            match op {
                Op::Illegal => Continuation::Unknown,
                $(Op::$op => continuation_of!($kind),)*
            }
        }
    };
}

isa_rows!(interpreter);
