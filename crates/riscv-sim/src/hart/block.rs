//! Decoded code: instructions in the order in which they are expected to run, decoded once.

use std::collections::HashMap;

use super::run::{Step, continuation};
use crate::isa::{Decoded, Profile, decode};
use crate::memory::Ram;

/// Instructions of a block at most; the index of each fits in a byte.
const MAX_INSTRUCTIONS: u8 = 64;

/// Places in the table that is looked at first; a power of two.
const TABLE_LEN: usize = 4096;

/// Where a block's instructions lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pc: u64,
    /// The address of what follows it, if it is left at its end.
    next: u64,
    start: u32,
    end: u32,
}

/// One instruction of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// What to run: this instruction, or this and the next one as a pair.
    pub(super) step: Step,
    pub(super) insn: Decoded,
}

/// No block: no instruction has an odd address.
const NOTHING: Block = Block {
    pc: 1,
    next: 0,
    start: 0,
    end: 0,
};

/// The decoded blocks of one core.
#[derive(Clone, Debug)]
pub(super) struct CodeCache {
    profile: Profile,
    has_pairs: bool,
    /// Instructions over all blocks, beyond which everything is forgotten and decoded anew.
    most: usize,
    arena: Vec<Slot>,
    table: Box<[Block; TABLE_LEN]>,
    blocks: HashMap<u64, Block>,
}

impl CodeCache {
    pub(super) fn new(profile: Profile, most: usize) -> Self {
        Self {
            profile,
            has_pairs: false,
            most,
            arena: Vec::new(),
            table: Box::new([NOTHING; TABLE_LEN]),
            blocks: HashMap::new(),
        }
    }

    pub(super) const fn profile(&self) -> Profile {
        self.profile
    }

    /// Whether instructions run in pairs from now on.
    pub(super) fn make_pairs(&mut self, pairs: bool) {
        if self.has_pairs != pairs {
            self.has_pairs = pairs;
            self.clear();
        }
    }

    /// Forgets everything: the code may have changed.
    pub(super) fn clear(&mut self) {
        self.arena.clear();
        self.table.fill(NOTHING);
        self.blocks.clear();
    }

    /// The instructions from `pc` on and the address of what follows them; none if there is no
    /// memory at `pc`.
    #[inline(always)]
    pub(super) fn block(&mut self, pc: u64, ram: &Ram) -> (&[Slot], u64) {
        let place = (pc >> 1) as usize & (TABLE_LEN - 1);
        let mut block = self.table[place];
        if block.pc != pc {
            block = self.find(pc, ram);
            self.table[place] = block;
        }
        let code = self.arena.get(block.start as usize..block.end as usize);
        (code.unwrap_or(&[]), block.next)
    }

    #[cold]
    #[inline(never)]
    fn find(&mut self, pc: u64, ram: &Ram) -> Block {
        if let Some(block) = self.blocks.get(&pc) {
            return *block;
        }
        if self.arena.len() > self.most {
            self.clear();
        }
        let start = self.arena.len();
        let next = self.decode_block(pc, ram);
        if self.has_pairs {
            self.join_pairs(start);
        }
        if self.arena.len() == start {
            return NOTHING;
        }
        let block = Block {
            pc,
            next,
            start: start as u32,
            end: self.arena.len() as u32,
        };
        self.blocks.insert(pc, block);
        block
    }

    /// Decodes along the way that is expected, through jumps, until it is not known: at an indirect
    /// jump or a system instruction. Gives the address of what follows.
    fn decode_block(&mut self, start: u64, ram: &Ram) -> u64 {
        let mut pc = start;
        for index in 0..MAX_INSTRUCTIONS {
            let Some(word) = fetch(pc, ram) else {
                return pc;
            };
            let mut insn = decode(word, self.profile);
            insn.index = index;
            insn.place = (pc >> 1) as u32;
            let target = pc.wrapping_add(insn.imm());
            let follows = match continuation(insn.op) {
                Continuation::Next => pc.wrapping_add(insn.n_bytes.into()),
                Continuation::Target => target,
                // Loops go round more often than not.
                Continuation::Either => {
                    insn.expected = target <= pc;
                    if insn.expected {
                        target
                    } else {
                        pc.wrapping_add(insn.n_bytes.into())
                    }
                }
                Continuation::Unknown => {
                    self.arena.push(Slot {
                        step: Step::of(insn.op),
                        insn,
                    });
                    return pc;
                }
            };
            self.arena.push(Slot {
                step: Step::of(insn.op),
                insn,
            });
            pc = follows;
        }
        pc
    }

    /// Joins the instructions of the block that begins at `start`, from the first one on. The
    /// second one of a pair keeps its own step, which nobody looks at.
    fn join_pairs(&mut self, start: usize) {
        let mut at = start;
        while let Some([first, second]) = self.arena.get_mut(at..at + 2) {
            let pair = Step::of_two(first.insn.op, second.insn.op);
            at += if pair.is_some() { 2 } else { 1 };
            first.step = pair.unwrap_or(first.step);
        }
    }
}

/// What comes after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Continuation {
    /// The instruction after it.
    Next,
    /// Where it jumps to.
    Target,
    /// One of these.
    Either,
    /// That is known only when it was carried out.
    Unknown,
}

/// The instruction bits at `pc`; those of a compressed instruction may be the last of the memory.
pub(super) fn fetch(pc: u64, ram: &Ram) -> Option<u32> {
    let low = u16::from_le_bytes(ram.load(pc)?);
    if low & 3 != 3 {
        return Some(low.into());
    }
    ram.load(pc).map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::RAM_BASE;

    /// Also where each block throws all others away.
    #[test]
    fn a_small_cache_holds_little_and_has_the_same_blocks() {
        const MOST: usize = 8;
        let addi = 0x0015_0513_u32; // addi a0, a0, 1
        let code: Vec<u8> = [addi; 200].iter().flat_map(|it| it.to_le_bytes()).collect();
        let mut ram = Ram::new(4096);
        ram.slice_mut(RAM_BASE, code.len() as u64)
            .unwrap()
            .copy_from_slice(&code);
        let profile = Profile::default();
        let mut small = CodeCache::new(profile, MOST);
        let mut large = CodeCache::new(profile, 1 << 18);
        for pc in (RAM_BASE..RAM_BASE + 800).step_by(4).chain([RAM_BASE]) {
            let places = |(slots, next): (&[Slot], u64)| {
                let places: Vec<_> = slots.iter().map(|it| it.insn.place).collect();
                (places, next)
            };
            let expected = places(large.block(pc, &ram));
            assert_eq!(places(small.block(pc, &ram)), expected);
            assert!(small.arena.len() <= MOST + usize::from(MAX_INSTRUCTIONS));
        }
        assert!(large.arena.len() > 200);
    }
}
