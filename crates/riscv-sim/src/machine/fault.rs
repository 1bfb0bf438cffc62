//! The report of a trap that a guest has no handler for.

use std::fmt;

use super::Machine;
use crate::disasm;
use crate::hart::Trap;
use crate::remote::RemoteRequest;

/// A trap that a guest has no handler for, and where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The node.
    pub node: usize,
    /// The core of that node.
    pub core: usize,
    /// What happened.
    pub trap: Trap,
    /// The address of the instruction.
    pub pc: u64,
    /// The instruction's bits, if there is memory.
    pub word: Option<u32>,
    /// The instruction.
    pub text: String,
    /// The name at or before the address, and the distance from it.
    pub symbol: Option<(String, u64)>,
    /// What was asked of another node, if that is why.
    pub request: Option<RemoteRequest>,
    /// The integer registers.
    pub registers: [u64; 32],
    /// The extended registers.
    pub extended: [u64; 32],
}

impl Machine {
    pub(super) fn fault(
        &self,
        node: usize,
        core: usize,
        trap: Trap,
        request: Option<&RemoteRequest>,
    ) -> Fault {
        let hart = &self.nodes[node].harts[core];
        let pc = hart.pc();
        let ram = &self.nodes[node].ram;
        let word = ram
            .read(pc, 4)
            .or_else(|| ram.read(pc, 2))
            .map(|word| word as u32);
        let numbers: [u8; 32] = std::array::from_fn(|k| k as u8);
        Fault {
            node,
            core,
            trap,
            pc,
            word,
            text: word.map_or_else(String::new, |word| {
                disasm::disassemble(word, pc, hart.profile()).text
            }),
            symbol: self
                .image
                .symbol_at(pc)
                .map(|(name, offset)| (name.to_owned(), offset)),
            request: request.copied(),
            registers: numbers.map(|k| hart.x(k)),
            extended: numbers.map(|k| hart.e(k)),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            core,
            trap,
            pc,
            ..
        } = self;
        write!(f, "node {node}, core {core}: {}", trap.cause)?;
        write!(f, " (value {:#x}) at {pc:#x}", trap.value)?;
        if let Some((name, offset)) = &self.symbol {
            write!(f, " <{name}+{offset:#x}>")?;
        }
        if let Some(word) = self.word {
            write!(f, ": {:08x}  {}", word, self.text.replace('\t', " "))?;
        }
        if let Some(request) = &self.request {
            write!(
                f,
                "\n  asked of object {:#x}, address {:#x}: no such object, or the address is not shared",
                request.object, request.address
            )?;
        }
        let row = |f: &mut fmt::Formatter<'_>, names: fn(u8) -> &'static str, all: &[u64; 32]| {
            for (number, value) in (0_u8..).zip(all) {
                let separator = if number % 4 == 0 { "\n " } else { "" };
                write!(f, "{separator} {:>4}={value:016x}", names(number))?;
            }
            Ok(())
        };
        row(f, disasm::x_name, &self.registers)?;
        if self.extended.iter().any(|value| *value != 0) {
            row(f, disasm::e_name, &self.extended)?;
        }
        Ok(())
    }
}
