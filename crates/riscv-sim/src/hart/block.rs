//! Decoded code: runs of instructions without a jump between them, decoded once.

use std::collections::HashMap;

use super::run::ends_block;
use crate::isa::{Decoded, Profile, decode};
use crate::memory::Ram;

/// Instructions of a block at most; offsets and indices of its instructions fit in a byte.
const MAX_INSTRUCTIONS: u8 = 64;

/// Places in the table that is looked at first; a power of two.
const TABLE_LEN: usize = 4096;

/// Decoded instructions kept at most, over all blocks. Beyond, everything is forgotten and decoded anew.
const ARENA_LEN: usize = 1 << 20;

/// Where a block's instructions lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pc: u64,
    start: u32,
    end: u32,
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
    arena: Vec<Decoded>,
    table: Box<[Block; TABLE_LEN]>,
    blocks: HashMap<u64, Block>,
}

impl CodeCache {
    pub(super) fn new(profile: Profile) -> Self {
        Self {
            profile,
            arena: Vec::new(),
            table: Box::new([NOTHING; TABLE_LEN]),
            blocks: HashMap::new(),
        }
    }

    pub(super) const fn profile(&self) -> Profile {
        self.profile
    }

    /// Forgets everything: the code may have changed.
    pub(super) fn clear(&mut self) {
        self.arena.clear();
        self.table.fill(NOTHING);
        self.blocks.clear();
    }

    /// The instructions from `pc` to the next jump; empty if there is no memory at `pc`.
    #[inline(always)]
    pub(super) fn block(&mut self, pc: u64, ram: &Ram) -> &[Decoded] {
        let place = (pc >> 1) as usize & (TABLE_LEN - 1);
        let mut block = self.table[place];
        if block.pc != pc {
            block = self.find(pc, ram);
            self.table[place] = block;
        }
        self.arena
            .get(block.start as usize..block.end as usize)
            .unwrap_or(&[])
    }

    #[cold]
    #[inline(never)]
    fn find(&mut self, pc: u64, ram: &Ram) -> Block {
        if let Some(block) = self.blocks.get(&pc) {
            return *block;
        }
        if self.arena.len() > ARENA_LEN {
            self.clear();
        }
        let start = self.arena.len();
        self.decode_block(pc, ram);
        if self.arena.len() == start {
            return NOTHING;
        }
        let block = Block {
            pc,
            start: start as u32,
            end: self.arena.len() as u32,
        };
        self.blocks.insert(pc, block);
        block
    }

    fn decode_block(&mut self, pc: u64, ram: &Ram) {
        let mut offset = 0;
        for index in 0..MAX_INSTRUCTIONS {
            let at = pc.wrapping_add(u64::from(offset) * 2);
            let Some(word) = fetch(at, ram) else {
                return;
            };
            let mut insn = decode(word, self.profile);
            (insn.index, insn.offset) = (index, offset);
            offset += insn.n_bytes() / 2;
            self.arena.push(insn);
            if ends_block(insn.op) {
                return;
            }
        }
    }
}

/// The instruction bits at `pc`; those of a compressed instruction may be the last of the memory.
pub(super) fn fetch(pc: u64, ram: &Ram) -> Option<u32> {
    let low = u16::from_le_bytes(ram.load(pc)?);
    if low & 3 != 3 {
        return Some(low.into());
    }
    ram.load(pc).map(u32::from_le_bytes)
}
