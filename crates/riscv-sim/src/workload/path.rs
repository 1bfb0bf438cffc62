//! What an operation at another node becomes: one instruction, or a software path.

use std::fmt::Write as _;

use crate::asm;
use crate::elf::Image;
use crate::error::Error;
use crate::isa::Profile;

/// How a kernel's remote operations are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// By an instruction each, with one more that names the object.
    Hardware,
    /// By the same instructions within a library's call, whose other ones are a loop.
    Call {
        /// Instructions of the whole call.
        path: u32,
    },
    /// By a library: a descriptor in memory, a doorbell, a completion that is polled for. The NIC's
    /// processor is a second core of the node, which fetches the descriptor and has the target's
    /// NIC execute the operation.
    Nic {
        /// Instructions of the initiator's path, if it is padded by a loop to as many; otherwise,
        /// or if that is fewer, as the library here needs.
        path: Option<u32>,
    },
    /// By a library: a message to the target, whose core executes the operation in a handler, which
    /// it enters while it waits for something itself.
    Host {
        /// As for [`Nic`](Self::Nic).
        path: Option<u32>,
    },
}

/// The operations' names in kernels, by their numbers in descriptors.
const OPERATIONS: [&str; 5] = ["amo.add", "amo.min", "amo.cas", "amo.get", "amo.put"];

/// One instruction each.
const INSTRUCTIONS: [&str; 5] = [
    "eamoadd.d a0, a0, a1",
    "eamomin.d a0, a0, a1",
    "eamocas.d a1, a0, a2; mv a0, a1",
    "eld a0, 0(a0)",
    "esd a1, 0(a0)",
];

impl Variant {
    /// Cores of a node.
    pub(super) const fn cores(self) -> usize {
        match self {
            Self::Nic { .. } => 2,
            Self::Hardware | Self::Call { .. } | Self::Host { .. } => 1,
        }
    }

    const fn library(self) -> &'static str {
        match self {
            Self::Hardware | Self::Call { .. } => "second_core: j second_core\n",
            Self::Nic { .. } => include_str!("../../guest/paper/nic.s"),
            Self::Host { .. } => include_str!("../../guest/paper/host.s"),
        }
    }

    /// How many instructions the initiator's path has, if it is padded.
    const fn wanted(self) -> Option<u32> {
        match self {
            Self::Hardware => None,
            Self::Call { path } => Some(path),
            Self::Nic { path } | Self::Host { path } => path,
        }
    }

    /// Instructions beside those between the library's labels: three more of the call; with the
    /// host's handler three fewer, of the round that finds no answer.
    const fn beside(self) -> i64 {
        match self {
            Self::Hardware | Self::Call { .. } => 2,
            Self::Nic { .. } => 3,
            Self::Host { .. } => 0,
        }
    }

    /// The guest of a kernel, and the instructions of the initiator's path.
    pub(super) fn guest(self, kernel: &str) -> Result<(Image, u64), Error> {
        let bare = self.assemble(kernel, 0)?;
        let Some(wanted) = self.wanted() else {
            let path = self.path(&bare);
            return Ok((bare, path));
        };
        let padding = u64::from(wanted).saturating_sub(self.path(&bare));
        let padded = self.assemble(kernel, padding)?;
        let path = self.path(&bare) + padding;
        Ok((padded, path))
    }

    /// The path's length in a guest without padding, which has no branches before the completion.
    fn path(self, image: &Image) -> u64 {
        let between = match (image.address_of("software"), image.address_of("path_end")) {
            (Some(start), Some(end)) => (end - start) / 4,
            _ => 0,
        };
        between.saturating_add_signed(self.beside())
    }

    fn assemble(self, kernel: &str, padding: u64) -> Result<Image, Error> {
        let source = [
            include_str!("../../guest/paper/start.s"),
            kernel,
            "\n",
            self.library(),
        ]
        .concat();
        let mut text = String::new();
        for line in source.lines() {
            self.line(&mut text, line, padding);
        }
        asm::assemble(&text, Profile::Rae2020)
    }

    /// One line of a kernel or library, as the assembler takes it.
    fn line(self, text: &mut String, line: &str, padding: u64) {
        let word = line.trim();
        let operation = OPERATIONS.iter().position(|name| *name == word);
        let _ = match (operation, word, self) {
            (Some(k), _, Self::Hardware | Self::Call { .. }) => {
                let (padding, instruction) = (pad(padding), INSTRUCTIONS[k]);
                writeln!(text, "{padding}eaddie e10, a3, 0; {instruction}")
            }
            (Some(k), ..) => writeln!(text, "li a4, {k}; call software"),
            (None, "serve", Self::Host { .. }) => writeln!(text, "call progress"),
            (None, "serve", _) => writeln!(text),
            // Who takes no part in others' operations may rest while it waits.
            (None, "rest", Self::Hardware) => writeln!(text, "addi t5, t5, -1; bgtz t5, 4b; wfi"),
            (None, "rest", _) => writeln!(text),
            (None, "pad", _) => writeln!(text, "{}", pad(padding)),
            (None, ..) => writeln!(text, "{line}"),
        };
    }
}

/// So many instructions that do nothing, most of them in loops.
fn pad(mut n: u64) -> String {
    let mut text = String::new();
    while n > 0 {
        // One for the number of rounds, which has to fit it, and two a round.
        let rounds = (n - 1) / 2;
        let rounds = rounds.min(2047);
        let _ = match rounds {
            0 => write!(text, "nop; "),
            _ => write!(text, "li t6, {rounds}; 77: addi t6, t6, -1; bnez t6, 77b; "),
        };
        n -= 1 + 2 * rounds;
    }
    text
}
