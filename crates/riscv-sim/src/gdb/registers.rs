//! The registers of a core, as GDB has them described, reads and writes them.

use crate::disasm::{f_name, x_name};
use crate::hart::Hart;
use gdbstub_arch::riscv::reg::id::RiscvRegId;

/// The number of control and status register 0 in GDB's counting.
const FIRST_CSR: u16 = 65;

/// GDB counts extended registers like control and status registers from this number on, where there
/// are none of these.
const FIRST_EXTENDED: u16 = 0x8c0;

/// The control and status registers that GDB shows.
const CSRS: [(&str, u16); 17] = [
    ("mstatus", 0x300),
    ("misa", 0x301),
    ("mie", 0x304),
    ("mtvec", 0x305),
    ("mcounteren", 0x306),
    ("mscratch", 0x340),
    ("mepc", 0x341),
    ("mcause", 0x342),
    ("mtval", 0x343),
    ("mip", 0x344),
    ("mcycle", 0xb00),
    ("minstret", 0xb02),
    ("cycle", 0xc00),
    ("time", 0xc01),
    ("instret", 0xc02),
    ("mimpid", 0xf13),
    ("mhartid", 0xf14),
];

/// Describes all registers that can be asked for.
pub(super) fn description() -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\">\
         <target version=\"1.0\"><architecture>riscv:rv64</architecture>\
         <feature name=\"org.gnu.gdb.riscv.cpu\">",
    );
    let register = |name: &str, kind: &str, number: u16| {
        format!("<reg name=\"{name}\" bitsize=\"64\" type=\"{kind}\" regnum=\"{number}\"/>")
    };
    for number in 0..32_u8 {
        let kind = match number {
            1 => "code_ptr",
            2 | 3 | 4 | 8 => "data_ptr",
            _ => "int",
        };
        text += &register(x_name(number), kind, number.into());
    }
    text += &register("pc", "code_ptr", 32);
    text += "</feature><feature name=\"org.gnu.gdb.riscv.fpu\">";
    for number in 0..32_u8 {
        text += &register(f_name(number), "ieee_double", 33 + u16::from(number));
    }
    for (name, number) in [("fflags", 1), ("frm", 2), ("fcsr", 3)] {
        text += &register(name, "int", FIRST_CSR + number);
    }
    text += "</feature><feature name=\"org.gnu.gdb.riscv.csr\">";
    for (name, number) in CSRS {
        text += &register(name, "int", FIRST_CSR + number);
    }
    text += "</feature><feature name=\"org.xbgas.extended\">";
    for number in 0..32 {
        let name = format!("e{number}");
        text += &register(&name, "int", FIRST_CSR + FIRST_EXTENDED + number);
    }
    text += "</feature></target>";
    text
}

/// The extended register that stands for that control and status register.
fn extended(number: u16) -> Option<u8> {
    let number = number.checked_sub(FIRST_EXTENDED)?;
    u8::try_from(number).ok().filter(|number| *number < 32)
}

/// A register's value, if there is such a register.
pub(super) fn read(hart: &Hart, register: RiscvRegId<u64>) -> Option<u64> {
    match register {
        RiscvRegId::Gpr(number) => Some(hart.x(number)),
        RiscvRegId::Pc => Some(hart.pc()),
        RiscvRegId::Fpr(number) => Some(hart.f(number)),
        RiscvRegId::Csr(number) => match extended(number) {
            Some(number) => Some(hart.e(number)),
            None => hart.csr(number),
        },
        _ => None,
    }
}

/// Sets a register. False if there is none, or it cannot be written.
pub(super) fn write(hart: &mut Hart, register: RiscvRegId<u64>, value: u64) -> bool {
    match register {
        RiscvRegId::Gpr(number) => hart.set_x(number, value),
        RiscvRegId::Pc => hart.set_pc(value),
        RiscvRegId::Fpr(number) => hart.set_f(number, value),
        RiscvRegId::Csr(number) => match extended(number) {
            Some(number) => hart.set_e(number, value),
            None => return hart.set_csr(number, value),
        },
        _ => return false,
    }
    true
}
