//! Random programs on the simulator and on `qemu-riscv64`: all registers, the floating-point flags
//! and memory must be the same afterwards.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::process::Command;
use std::rc::Rc;

use fastrand::Rng;
use pgas_riscv_sim::isa::{Extension, Format, Insn, Op, Profile, ROWS, decode, rv_c};
use pgas_riscv_sim::{Machine, MachineConfig, Outcome, asm};

/// Points into the middle of the buffer that loads and stores go to, and is never written.
const BASE: u32 = 30;
/// Bytes that are compared: memory, integer and floating-point registers, `fcsr`.
const DUMP_BYTES: u64 = 4096 + 256 + 256 + 8;

/// Numbers that arithmetic likes to stumble over, for registers of both kinds.
const EDGES: &[u64] = &[
    0,
    1,
    u64::MAX,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x0000_0000_8000_0000,
    0xffff_ffff_8000_0000,
    0xffff_ffff_7fc0_0000,
    0xffff_ffff_7f80_0001,
    0xffff_ffff_3f80_0000,
    0xffff_ffff_0080_0000,
    0xffff_ffff_0000_0001,
    0xffff_ffff_7f7f_ffff,
    0xffff_ffff_ff80_0000,
    0x3ff0_0000_0000_0000,
    0x3fef_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x000f_ffff_ffff_ffff,
    0x0000_0000_0000_0001,
    0x7fef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0x7ff0_0000_0000_0001,
    0xc1e0_0000_0000_0000,
    0x41df_ffff_ffc0_0000,
    0x43e0_0000_0000_0000,
];

fn number(random: &mut Rng) -> u64 {
    match random.u8(0..4) {
        0 => EDGES[random.usize(..EDGES.len())],
        // Doubles and boxed singles whose exponents are close to one another.
        1 => random.u64(0x3f0_0000_0000_0000..0x410_0000_0000_0000) << 4 | random.u64(..) << 63,
        2 => 0xffff_ffff_0000_0000 | random.u64(0x3c00_0000..0x4400_0000) | random.u64(..2) << 31,
        _ => random.u64(..) >> random.u32(0..64),
    }
}

/// An integer register that may be written.
fn target(random: &mut Rng) -> u32 {
    match random.u32(..32) {
        BASE => 29,
        register => register,
    }
}

struct Generator {
    random: Rng,
    text: String,
    covered: HashMap<Op, usize>,
}

impl Generator {
    fn word(&mut self, word: u32) {
        writeln!(self.text, ".word {word:#x}").unwrap();
    }

    /// `addi register, BASE, offset`
    fn point(&mut self, register: u32, offset: i32) {
        self.word((offset.cast_unsigned() & 0xfff) << 20 | BASE << 15 | register << 7 | 0x13);
    }

    fn row(&mut self, row: &Insn) {
        *self.covered.entry(row.op).or_default() += 1;
        let rng = &mut self.random;
        let (rd, rs1, rs2) = (target(rng), rng.u32(..32), rng.u32(..32));
        let free = rng.u32(..) & !row.mask;
        let registers = (rd << 7 | rs1 << 15 | rs2 << 20) & !row.mask;
        let rm = [0, 1, 2, 3, 4, 7][rng.usize(..6)] << 12;
        let offset = rng.i32(-1024..1016);
        // Half of the memory accesses are aligned.
        let offset = if rng.bool() { offset & !7 } else { offset };
        let imm = offset.cast_unsigned() & 0xfff;
        match row.format {
            Format::Load | Format::FLoad => {
                self.word(row.value | rd << 7 | BASE << 15 | imm << 20);
            }
            Format::Store | Format::FStore => {
                self.word(row.value | rs2 << 20 | BASE << 15 | (imm & 31) << 7 | (imm >> 5) << 25);
            }
            Format::Lr | Format::Amo => {
                let address = target(rng).max(1);
                let order = rng.u32(..4) << 25;
                self.point(address, offset & !7);
                // A conditional store is tried with and without a reservation.
                if matches!(row.op, Op::ScW | Op::ScD) && self.random.bool() {
                    let lr = if row.op == Op::ScW {
                        0x1000_202f
                    } else {
                        0x1000_302f
                    };
                    self.word(lr | address << 15);
                }
                let rs2 = if row.format == Format::Lr { 0 } else { rs2 };
                self.word(row.value | order | rd << 7 | address << 15 | rs2 << 20);
            }
            Format::B | Format::J | Format::Jalr => self.jump(row, rd, rs1, rs2),
            Format::Csr | Format::CsrImm => self.word(row.value | rd << 7 | rs1 << 15 | 1 << 20),
            Format::FRm
            | Format::F4
            | Format::FUnaryRm
            | Format::FUnaryExact
            | Format::FToXRm
            | Format::XToFRm
            | Format::XToFExact => {
                self.fresh_floats();
                self.word(row.value | registers | rm | (free & 0xf800_0000));
            }
            Format::FR | Format::FCmp | Format::FToX | Format::XToF => {
                self.fresh_floats();
                self.word(row.value | registers);
            }
            Format::Fence | Format::None => self.word(row.value),
            _ => self.word(row.value | (free & 0xfff0_0000) | registers),
        }
    }

    /// Forward, over an instruction or two.
    fn jump(&mut self, row: &Insn, rd: u32, rs1: u32, rs2: u32) {
        match row.format {
            Format::B => {
                self.word(row.value | rs1 << 15 | rs2 << 20 | 12 << 7);
                self.skipped(2);
            }
            Format::J => {
                self.word(row.value | rd << 7 | 8 << 20);
                self.skipped(1);
            }
            _ => {
                let base = target(&mut self.random).max(1);
                self.word(0x17 | base << 7);
                self.word(row.value | rd << 7 | base << 15 | 12 << 20);
                self.skipped(1);
            }
        }
    }

    /// Instructions that may be jumped over.
    fn skipped(&mut self, n: usize) {
        for _ in 0..n {
            let (rd, imm) = (target(&mut self.random), self.random.u32(..0x1000));
            self.word(0x13 | rd << 7 | rd << 15 | imm << 20);
        }
    }

    /// New numbers for two floating-point registers, or results would all become NaNs.
    fn fresh_floats(&mut self) {
        for _ in 0..2 {
            let (register, at) = (self.random.u32(..32), self.random.u32(..128) * 8);
            self.word(0x3007 | register << 7 | BASE << 15 | at << 20);
        }
    }

    /// A compressed instruction that does not jump; the base of its address is pointed into the
    /// buffer first.
    fn compressed(&mut self) {
        let halfword = self.random.u16(..);
        let Some(full) = rv_c::expand(halfword) else {
            return;
        };
        let insn = decode(halfword.into(), Profile::Rae2020);
        let row = ROWS.iter().find(|row| row.op == insn.op).unwrap();
        match row.format {
            Format::Load | Format::FLoad | Format::Store | Format::FStore => {
                self.point(full >> 15 & 31, 0);
            }
            Format::B | Format::J | Format::Jalr | Format::None => return,
            _ => {}
        }
        if u32::from(insn.rd) == BASE && !matches!(row.format, Format::FLoad) {
            return;
        }
        // The shortest instructions come in pairs, so that the longer ones stay where they are.
        writeln!(self.text, ".half {halfword:#x}, 1").unwrap();
    }
}

/// The rows that a user program may run anywhere.
fn rows() -> Vec<&'static Insn> {
    let standard = |row: &&Insn| {
        matches!(
            row.extension,
            Extension::I
                | Extension::M
                | Extension::A
                | Extension::F
                | Extension::D
                | Extension::Zicsr
                | Extension::Zifencei
        )
    };
    let system = |row: &&Insn| {
        !matches!(
            row.op,
            Op::Ecall | Op::Ebreak | Op::Mret | Op::Sret | Op::SfenceVma | Op::Wfi
        )
    };
    ROWS.iter().filter(standard).filter(system).collect()
}

fn program(random: Rng, rows: &[&Insn]) -> (String, HashMap<Op, usize>) {
    let mut generator = Generator {
        random,
        text: "_start: la x30, buffer + 2048\n la x31, start\n".to_owned(),
        covered: HashMap::new(),
    };
    for k in 0..32 {
        writeln!(generator.text, "fld f{k}, {}(x31)", 8 * k).unwrap();
    }
    for k in (1..30).chain([31]) {
        writeln!(generator.text, "ld x{k}, {}(x31)", 256 + 8 * k).unwrap();
    }
    for _ in 0..250 {
        match generator.random.u8(..8) {
            0 => generator.compressed(),
            1 => {
                let mode = generator.random.u32(..5);
                writeln!(generator.text, "fsrmi {mode}").unwrap();
            }
            _ => {
                let row = rows[generator.random.usize(..rows.len())];
                generator.row(row);
            }
        }
    }
    let text = &mut generator.text;
    for k in 1..32 {
        // The registers lie after the buffer, whose middle the base points to.
        writeln!(text, "addi x30, x30, 1024\n addi x30, x30, 1024\n sd x{k}, {}(x30)\n addi x30, x30, -1024\n addi x30, x30, -1024", 8 * k).unwrap();
    }
    text.push_str("la x30, buffer + 4096 + 256\n");
    for k in 0..32 {
        writeln!(text, "fsd f{k}, {}(x30)", 8 * k).unwrap();
    }
    writeln!(
        text,
        "frcsr t0\n sd t0, 256(x30)\n li a0, 1\n la a1, buffer\n li a2, {DUMP_BYTES}\n li a7, 64\n ecall\n\
         li a0, 0\n li a7, 93\n ecall\n .data\n buffer: .zero 1024"
    )
    .unwrap();
    for _ in 0..(4096 - 1024) / 8 {
        writeln!(text, ".dword {:#x}", number(&mut generator.random)).unwrap();
    }
    text.push_str(".zero 520\nstart:\n");
    for _ in 0..64 {
        writeln!(text, ".dword {:#x}", number(&mut generator.random)).unwrap();
    }
    (generator.text, generator.covered)
}

fn ours(image: &pgas_riscv_sim::Image) -> Vec<u8> {
    let config = MachineConfig {
        n_nodes: 1,
        ram_bytes: 1 << 20,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(&config, image).unwrap();
    let written = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&written);
    machine.set_console(Box::new(move |_, bytes| {
        sink.borrow_mut().extend_from_slice(bytes);
    }));
    assert_eq!(machine.run(100_000).unwrap(), Outcome::Success);
    drop(machine);
    Rc::into_inner(written).unwrap().into_inner()
}

fn qemus(image: &pgas_riscv_sim::Image, folder: &std::path::Path) -> Vec<u8> {
    let path = folder.join("program");
    std::fs::write(&path, asm::to_elf(image)).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = Command::new("qemu-riscv64")
        .arg(&path)
        .output()
        .expect("qemu is there: `cargo xtask setup` installs qemu-user");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Where in the dump something differs, in words.
fn place(at: usize) -> String {
    match at {
        0..4096 => format!("memory +{at:#x}"),
        4096..4352 => format!("x{}", (at - 4096) / 8),
        4352..4608 => format!("f{}", (at - 4352) / 8),
        _ => "fcsr".to_owned(),
    }
}

#[test]
fn random_programs_leave_what_they_leave_on_qemu() {
    let rows = rows();
    let folder = tempfile::tempdir().unwrap();
    let mut covered = HashMap::new();
    for seed in 0..120 {
        let (text, ops) = program(Rng::with_seed(seed), &rows);
        for (op, n) in ops {
            *covered.entry(op).or_insert(0) += n;
        }
        let image = asm::assemble(&text, Profile::Rae2020).unwrap();
        let (ours, theirs) = (ours(&image), qemus(&image, folder.path()));
        assert_eq!(ours.len() as u64, DUMP_BYTES);
        assert_eq!(theirs.len() as u64, DUMP_BYTES);
        let differences: Vec<_> = ours
            .chunks(8)
            .zip(theirs.chunks(8))
            .enumerate()
            .filter(|(_, (ours, theirs))| ours != theirs)
            .map(|(k, (ours, theirs))| format!("{}: {ours:02x?}, qemu {theirs:02x?}", place(8 * k)))
            .collect();
        assert!(
            differences.is_empty(),
            "seed {seed}:\n{}",
            differences.join("\n")
        );
    }
    for row in rows {
        assert!(
            covered.get(&row.op).is_some_and(|n| *n >= 20),
            "{} came up too rarely",
            row.name
        );
    }
}
