//! Instructions that often follow one another and are run as one: the interpreter then goes to two
//! or three meanings with one jump.
//!
//! A chain is a name, and the kinds and names of its rows; none but the last ends its block. The
//! first chain counts that fits. Which ones are worth it was counted on compiled guests: sorting,
//! checksums, sieves, matrices, lists, recursion, and counting k-mers in Rust.

/// Instructions of the longest chain.
pub(super) const LONGEST: usize = 3;

macro_rules! chains {
    ($callback:ident { $($rows:tt)* }) => { $callback! { { $($rows)* } {
        SlliAddLw: plain Slli, plain Add, fallible Lw;
        SlliAddLwu: plain Slli, plain Add, fallible Lwu;
        SlliAddLd: plain Slli, plain Add, fallible Ld;
        LdLdLd: fallible Ld, fallible Ld, fallible Ld;
        SdSdSd: fallible Sd, fallible Sd, fallible Sd;
        LdAddiJalr: fallible Ld, plain Addi, indirect Jalr;
        AddiSdSd: plain Addi, fallible Sd, fallible Sd;
        SlliAdd: plain Slli, plain Add;
        SlliSrli: plain Slli, plain Srli;
        SlliXor: plain Slli, plain Xor;
        SrliAdd: plain Srli, plain Add;
        SrliXor: plain Srli, plain Xor;
        SlliwSrli: plain Slliw, plain Srli;
        XorSrli: plain Xor, plain Srli;
        XorAndi: plain Xor, plain Andi;
        AndiSlli: plain Andi, plain Slli;
        AndiBne: plain Andi, branch Bne;
        AndiBeq: plain Andi, branch Beq;
        AddiAddi: plain Addi, plain Addi;
        AddiAddiw: plain Addi, plain Addiw;
        AddiSlli: plain Addi, plain Slli;
        AddiBne: plain Addi, branch Bne;
        AddiBeq: plain Addi, branch Beq;
        AddiBlt: plain Addi, branch Blt;
        AddiBge: plain Addi, branch Bge;
        AddiBltu: plain Addi, branch Bltu;
        AddiBgeu: plain Addi, branch Bgeu;
        AddiJalr: plain Addi, indirect Jalr;
        AddiwAdd: plain Addiw, plain Add;
        AddiwAddi: plain Addiw, plain Addi;
        AddiwSlli: plain Addiw, plain Slli;
        AddiwBne: plain Addiw, branch Bne;
        AddAdd: plain Add, plain Add;
        AddAddi: plain Add, plain Addi;
        AddLw: plain Add, fallible Lw;
        AddLwu: plain Add, fallible Lwu;
        AddLd: plain Add, fallible Ld;
        AddLbu: plain Add, fallible Lbu;
        AddSd: plain Add, fallible Sd;
        AddSw: plain Add, fallible Sw;
        AddBne: plain Add, branch Bne;
        AddBltu: plain Add, branch Bltu;
        AddBge: plain Add, branch Bge;
        AddwAdd: plain Addw, plain Add;
        MulAdd: plain Mul, plain Add;
        LuiAddi: plain Lui, plain Addi;
        LuiAddiw: plain Lui, plain Addiw;
        AuipcAddi: plain Auipc, plain Addi;
        AuipcJalr: plain Auipc, indirect Jalr;
        LwAdd: fallible Lw, plain Add;
        LwAddi: fallible Lw, plain Addi;
        LwLw: fallible Lw, fallible Lw;
        LwBgeu: fallible Lw, branch Bgeu;
        LwBlt: fallible Lw, branch Blt;
        LwuBgeu: fallible Lwu, branch Bgeu;
        LwuAddi: fallible Lwu, plain Addi;
        LdAddi: fallible Ld, plain Addi;
        LdAdd: fallible Ld, plain Add;
        LdLd: fallible Ld, fallible Ld;
        LdBne: fallible Ld, branch Bne;
        LbuBeq: fallible Lbu, branch Beq;
        LbuBne: fallible Lbu, branch Bne;
        SbAddi: fallible Sb, plain Addi;
        SbAdd: fallible Sb, plain Add;
        SbAddw: fallible Sb, plain Addw;
        SdAddi: fallible Sd, plain Addi;
        SdAddiw: fallible Sd, plain Addiw;
        SdSd: fallible Sd, fallible Sd;
        SwAddi: fallible Sw, plain Addi;
        SwSlli: fallible Sw, plain Slli;
        SwSrli: fallible Sw, plain Srli;
        AddiSd: plain Addi, fallible Sd;
        LbuLbu: fallible Lbu, fallible Lbu;
        LbuSlli: fallible Lbu, plain Slli;
        SlliOr: plain Slli, plain Or;
        SlliSlli: plain Slli, plain Slli;
        SrliSrli: plain Srli, plain Srli;
        SrliSb: plain Srli, fallible Sb;
        OrOr: plain Or, plain Or;
        OrSlli: plain Or, plain Slli;
        SbSb: fallible Sb, fallible Sb;
        SubBltu: plain Sub, branch Bltu;
        LdBeq: fallible Ld, branch Beq;
        LdBltu: fallible Ld, branch Bltu;
        LdSd: fallible Ld, fallible Sd;
    } } };
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::super::run::CHAINS;
    use super::super::{Hart, HartConfig, Nobody, Observer, Stop};
    use crate::isa::{Decoded, Format, Op, ROWS, bits};
    use crate::memory::{RAM_BASE, Ram};

    /// Instructions of a program.
    const LEN: usize = 96;
    const RAM_BYTES: usize = 1 << 14;
    /// Registers with addresses, which no instruction changes: of data, of data that is not
    /// aligned, and of no memory.
    const POINTERS: [(u8, u64); 3] = [
        (20, RAM_BASE + 0x2000),
        (21, RAM_BASE + 0x2f05),
        (22, RAM_BASE + RAM_BYTES as u64),
    ];

    /// Lets `left` instructions begin.
    struct Listener {
        left: u64,
    }

    impl Observer for Listener {
        const LISTENS: bool = true;

        fn before(&mut self, _pc: u64, _insn: &Decoded) -> bool {
            let goes_on = self.left > 0;
            self.left = self.left.saturating_sub(1);
            goes_on
        }

        fn access(&mut self, _address: u64, _n_bytes: u64, _writes: bool) {}
    }

    /// A word of this instruction, the one of number `at`. Jumps go to other instructions.
    fn word(op: Op, at: usize, rng: &mut Rng) -> u32 {
        let row = ROWS.iter().find(|row| row.op == op).expect("it has a row");
        let (rd, rs1, rs2) = (rng.u8(..9), rng.u8(..9), rng.u8(..9));
        let (base, _) = POINTERS[[0, 0, 0, 0, 1, 1, 2][rng.usize(..7)]];
        let imm = rng.i32(-2048..2048);
        let [from, to] = [at, rng.usize(..LEN)].map(|it| i32::try_from(4 * it).expect("a few"));
        let distance = to - from;
        let with = |rd, rs1, rs2| bits::with_registers(row.value, rd, rs1, rs2);
        match row.format {
            Format::R => with(rd, rs1, rs2),
            Format::I => bits::with_imm_i(with(rd, rs1, 0), imm),
            Format::Shift6 => bits::with_imm_i(with(rd, rs1, 0), imm & 63),
            Format::Shift5 => bits::with_imm_i(with(rd, rs1, 0), imm & 31),
            Format::Load => bits::with_imm_i(with(rd, base, 0), imm),
            Format::Store => bits::with_imm_s(with(0, base, rs2), imm),
            Format::B => bits::with_imm_b(with(0, rs1, rs2), distance),
            Format::U => bits::with_imm_u(with(rd, 0, 0), rng.i32(-2..2) << 12),
            Format::J => bits::with_imm_j(with(rd, 0, 0), distance),
            Format::Jalr => bits::with_imm_i(with(rd, rs1, 0), distance),
            Format::Fence => row.value,
            format => panic!("{op:?} is written as {format:?}"),
        }
    }

    /// Chains and what lies between them, calls, and what does nothing.
    fn program(rng: &mut Rng) -> Vec<u32> {
        let mut words = Vec::new();
        while words.len() < LEN {
            let at = words.len();
            match rng.u8(..10) {
                0 => words.push(word(Op::Fence, at, rng)),
                1 => words.push(word(Op::Jal, at, rng) & !0xf80),
                2 => words.push(word(Op::Addi, at, rng) & !0xf80),
                3 => {
                    // A call, and a jump that looks like one.
                    let link = rng.u8(..9);
                    let other = if rng.bool() { link } else { rng.u8(..9) };
                    let jump = bits::with_registers(0x67, rng.u8(..9), other, 0);
                    words.push(bits::with_registers(0x17, link, 0, 0));
                    words.push(bits::with_imm_i(jump, rng.i32(-120..120)));
                }
                _ => {
                    let chain = CHAINS[rng.usize(..CHAINS.len())];
                    for op in chain {
                        words.push(word(*op, words.len(), rng));
                    }
                }
            }
        }
        words
    }

    fn start(words: &[u32], rng: &mut Rng) -> (Hart, Ram) {
        let mut ram = Ram::new(RAM_BYTES);
        for (at, word) in (RAM_BASE..).step_by(4).zip(words) {
            assert!(ram.store(at, word.to_le_bytes()));
        }
        let mut hart = Hart::new(&HartConfig::default());
        for register in 1..9 {
            let number = [0, 1, rng.u64(..), RAM_BASE + 4 * rng.u64(..LEN as u64)];
            hart.set_x(register, number[rng.usize(..4)]);
        }
        for (register, address) in POINTERS {
            hart.set_x(register, address);
        }
        (hart, ram)
    }

    /// Whoever listens hears of each instruction alone, so that is the reference.
    #[test]
    fn a_chain_does_what_its_instructions_do_one_after_another() {
        let rng = &mut pgas_testkit::rng(41);
        let (mut n_run, mut n_trapped) = (0, 0);
        for _ in 0..3000 {
            let words = program(rng);
            let (mut hart, mut ram) = start(&words, rng);
            let (mut other, mut other_ram) = (hart.clone(), ram.clone());
            let stop = hart.run(&mut ram, 400, &mut Nobody);
            let has_trapped = matches!(stop, Stop::Trap(_));
            let left = hart.instret() + u64::from(has_trapped);
            let other_stop = other.run(&mut other_ram, u64::MAX, &mut Listener { left });
            assert_eq!(stop, other_stop);
            assert_eq!(hart.instret(), other.instret());
            assert_eq!(hart.pc(), other.pc(), "{words:x?}");
            for register in 0..32 {
                assert_eq!(hart.x(register), other.x(register), "x{register}");
            }
            let bytes = |ram: &Ram| ram.slice(RAM_BASE, RAM_BYTES as u64).map(<[u8]>::to_vec);
            assert_eq!(bytes(&ram), bytes(&other_ram));
            n_run += hart.instret();
            n_trapped += u32::from(has_trapped);
        }
        assert!(n_run > 100_000 && n_trapped > 300, "{n_run} {n_trapped}");
    }
}
