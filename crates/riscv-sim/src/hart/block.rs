//! Decoded code: instructions in the order in which they are expected to run, decoded once.

use std::array;
use std::collections::HashMap;

use super::chains::LONGEST;
use super::run::{Step, continuation};
use crate::isa::{Decoded, Op, Profile, decode};
use crate::memory::Ram;

/// Instructions of a block at most; the index of each fits in a byte.
const MAX_INSTRUCTIONS: u8 = 64;

/// Places in the table that is looked at first; a power of two.
const TABLE_LEN: usize = 4096;

/// Where a block's instructions lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pc: u64,
    start: u32,
    end: u32,
}

/// One instruction of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// What to run: this instruction, or a chain that it begins.
    pub(super) step: Step,
    pub(super) insn: Decoded,
}

/// No block: no instruction has an odd address.
const NOTHING: Block = Block {
    pc: 1,
    start: 0,
    end: 0,
};

/// The decoded blocks of one core.
#[derive(Clone, Debug)]
pub(super) struct CodeCache {
    profile: Profile,
    has_chains: bool,
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
            has_chains: false,
            most,
            arena: Vec::new(),
            table: Box::new([NOTHING; TABLE_LEN]),
            blocks: HashMap::new(),
        }
    }

    pub(super) const fn profile(&self) -> Profile {
        self.profile
    }

    /// Whether instructions run in chains from now on.
    pub(super) fn make_chains(&mut self, chains: bool) {
        if self.has_chains != chains {
            self.has_chains = chains;
            self.clear();
        }
    }

    /// Forgets everything: the code may have changed.
    pub(super) fn clear(&mut self) {
        self.arena.clear();
        self.table.fill(NOTHING);
        self.blocks.clear();
    }

    /// The instructions from `pc` on, and behind them [`LONGEST`] slots, the first of which tells
    /// of [their end](end_of); nothing if there is no code at `pc`.
    #[inline(always)]
    pub(super) fn block(&mut self, pc: u64, ram: &Ram) -> &[Slot] {
        let place = (pc >> 1) as usize & (TABLE_LEN - 1);
        let block = &self.table[place];
        let (start, end) = if block.pc == pc {
            (block.start, block.end)
        } else {
            self.find(pc, place, ram)
        };
        let code = self.arena.get(start as usize..end as usize);
        code.unwrap_or(&[])
    }

    /// Finds a block that is not in its place of the table, puts it there, and says where its
    /// instructions lie.
    #[cold]
    #[inline(never)]
    fn find(&mut self, pc: u64, place: usize, ram: &Ram) -> (u32, u32) {
        let block = match self.blocks.get(&pc) {
            Some(block) => *block,
            None => self.decode(pc, ram),
        };
        self.table[place] = block;
        (block.start, block.end)
    }

    fn decode(&mut self, pc: u64, ram: &Ram) -> Block {
        if self.arena.len() > self.most {
            self.clear();
        }
        if fetch(pc, ram).is_none() {
            return NOTHING;
        }
        // What follows the end of a block matters to nobody, so the next one begins there.
        let n_behind = self.arena.len().min(LONGEST - 1);
        let start = self.arena.len() - n_behind;
        self.arena.truncate(start);
        self.decode_block(pc, ram);
        if self.has_chains {
            self.join_chains(start);
        }
        let block = Block {
            pc,
            start: start as u32,
            end: self.arena.len() as u32,
        };
        self.blocks.insert(pc, block);
        block
    }

    /// Decodes along the way that is expected, through jumps, until it is not known: at an indirect
    /// jump or a system instruction.
    fn decode_block(&mut self, start: u64, ram: &Ram) {
        let mut pc = start;
        let mut last: Option<Decoded> = None;
        for index in 0..MAX_INSTRUCTIONS {
            let Some(word) = fetch(pc, ram) else { break };
            let mut insn = decode(word, self.profile);
            insn.index = index;
            insn.place = (pc >> 1) as u32;
            let behind = pc.wrapping_add(insn.n_bytes.into());
            let target = pc.wrapping_add(insn.imm());
            let after = match continuation(insn.op) {
                Continuation::Next => Some(behind),
                Continuation::Target => Some(target),
                // Loops go round more often than not.
                Continuation::Either => {
                    insn.expected = target <= pc;
                    Some(if insn.expected { target } else { behind })
                }
                Continuation::Unknown => None,
            };
            if !(self.has_chains && does_nothing(&insn)) {
                self.push(insn);
            }
            last = Some(insn);
            let Some(after) = after else { break };
            pc = after;
        }
        if let Some(last) = last {
            // No further away than the last instruction's number says.
            let distance = pc.wrapping_sub(last.pc()) as i32;
            for _ in 0..LONGEST {
                self.push(Decoded {
                    index: last.index + 1,
                    imm: distance,
                    ..last
                });
            }
        }
    }

    fn push(&mut self, insn: Decoded) {
        let step = Step::of(insn.op);
        self.arena.push(Slot { step, insn });
    }

    /// Joins the instructions of the block that begins at `start`, from the first one on. Those of
    /// a chain behind its first one keep their own steps, which nobody looks at.
    fn join_chains(&mut self, start: usize) {
        let end = self.arena.len().saturating_sub(LONGEST);
        let mut at = start;
        while at < end {
            let ops = array::from_fn(|k| {
                let slot = self.arena.get(at + k).filter(|_| at + k < end);
                slot.map_or(Op::Illegal, |slot| slot.insn.op)
            });
            let (step, n) = Step::of_chain(ops).unwrap_or((self.arena[at].step, 1));
            self.arena[at].step = step;
            at += n;
        }
    }
}

/// What the slot behind a block's instructions tells: where the core goes on, and the number of the
/// instructions.
#[inline(always)]
pub(super) fn end_of(slot: &Slot) -> (u64, u8) {
    let Slot { insn, .. } = slot;
    (insn.pc().wrapping_add(insn.imm()), insn.index)
}

/// Whether an instruction only leads to what follows it.
fn does_nothing(insn: &Decoded) -> bool {
    match insn.op {
        Op::Jal | Op::Addi => insn.rd == 32,
        Op::Fence => true,
        _ => false,
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
/// What lies at an odd address, or at 8 GiB and beyond, is no code: a [`Decoded`] could not say
/// where.
pub(super) fn fetch(pc: u64, ram: &Ram) -> Option<u32> {
    if pc >> 33 != 0 || pc & 1 != 0 {
        return None;
    }
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
            let places = |slots: &[Slot]| {
                let (insns, behind) = slots.split_at(slots.len() - LONGEST);
                let places: Vec<_> = insns.iter().map(|it| it.insn.place).collect();
                (places, end_of(&behind[0]))
            };
            let expected = places(large.block(pc, &ram));
            assert_eq!(places(small.block(pc, &ram)), expected);
            assert!(small.arena.len() <= MOST + usize::from(MAX_INSTRUCTIONS) + LONGEST);
        }
        assert!(large.arena.len() > 200);
    }
}
