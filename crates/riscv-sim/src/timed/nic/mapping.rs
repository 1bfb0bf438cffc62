//! The operation mapping table (OMT): which local instruction executes a remote operation, and its
//! code in an MSHR.

use crate::timed::packet::Operation;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The code that a subentry keeps. Those of the paper's operations fit its 4 bits; the later
    /// ones need a fifth.
    pub code: u8,
    /// The instruction that the NIC's core executes.
    pub local: &'static str,
}

/// Looks an operation on a word of `bytes` bytes up.
///
/// # Examples
/// ```
/// use pgas_riscv_sim::timed::nic::mapping;
/// use pgas_riscv_sim::timed::packet::Operation;
///
/// assert_eq!(mapping::lookup(Operation::Add, 8).local, "amoadd.d");
/// ```
#[must_use]
pub const fn lookup(operation: Operation, bytes: u8) -> Mapped {
    let double = bytes == 8;
    let (code, word, doubleword) = match operation {
        Operation::Load => return access(0, ["lb", "lh", "lw", "ld"], bytes),
        Operation::Store => return access(1, ["sb", "sh", "sw", "sd"], bytes),
        Operation::Xor => (2, "amoxor.w", "amoxor.d"),
        Operation::And => (4, "amoand.w", "amoand.d"),
        Operation::Or => (6, "amoor.w", "amoor.d"),
        Operation::Min => (8, "amomin.w", "amomin.d"),
        Operation::Max => (10, "amomax.w", "amomax.d"),
        Operation::CompareSwap => (12, "amocas.w", "amocas.d"),
        Operation::Add => (14, "amoadd.w", "amoadd.d"),
        Operation::Swap => (16, "amoswap.w", "amoswap.d"),
        Operation::MinUnsigned => (18, "amominu.w", "amominu.d"),
        Operation::MaxUnsigned => (20, "amomaxu.w", "amomaxu.d"),
        Operation::LoadReserved => (22, "lr.w", "lr.d"),
        Operation::StoreConditional => (24, "sc.w", "sc.d"),
    };
    if double {
        Mapped {
            code: code + 1,
            local: doubleword,
        }
    } else {
        Mapped { code, local: word }
    }
}

/// Loads share one code, and stores: their width stands in the packet.
const fn access(code: u8, names: [&'static str; 4], bytes: u8) -> Mapped {
    let local = match bytes {
        1 => names[0],
        2 => names[1],
        4 => names[2],
        _ => names[3],
    };
    Mapped { code, local }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_sixteen_operations_of_the_paper_use_up_four_bits() {
        let paper = [
            Operation::Load,
            Operation::Store,
            Operation::Xor,
            Operation::And,
            Operation::Or,
            Operation::Min,
            Operation::Max,
            Operation::CompareSwap,
            Operation::Add,
        ];
        let codes: HashSet<_> = paper
            .iter()
            .flat_map(|&operation| [4, 8].map(|bytes| lookup(operation, bytes).code))
            .collect();
        assert_eq!(codes.len(), 16);
        assert!(codes.iter().all(|&code| code < 16));
    }

    #[test]
    fn no_two_operations_share_a_code_or_an_instruction() {
        let rows: Vec<_> = Operation::ALL
            .iter()
            .flat_map(|&operation| [4, 8].map(|bytes| lookup(operation, bytes)))
            .collect();
        let names: HashSet<_> = rows.iter().map(|row| row.local).collect();
        assert_eq!(names.len(), rows.len());
        let codes: HashSet<_> = rows.iter().map(|row| row.code).collect();
        assert_eq!(codes.len(), rows.len() - 2);
    }
}
