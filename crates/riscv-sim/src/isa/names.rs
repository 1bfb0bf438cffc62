//! Names of registers, as assembly writes them.

use std::borrow::Cow;

/// The integer registers.
#[rustfmt::skip]
pub const X: [&str; 32] = ["zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6"];

/// The floating-point registers.
#[rustfmt::skip]
pub const F: [&str; 32] = ["ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8", "ft9", "ft10", "ft11"];

/// The extended registers.
#[rustfmt::skip]
pub const E: [&str; 32] = ["e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9", "e10", "e11", "e12", "e13", "e14", "e15", "e16", "e17", "e18", "e19", "e20", "e21", "e22", "e23", "e24", "e25", "e26", "e27", "e28", "e29", "e30", "e31"];

/// Control and status registers that have a name of their own.
const CSRS: &[(u16, &str)] = &[
    (0x001, "fflags"),
    (0x002, "frm"),
    (0x003, "fcsr"),
    (0x008, "vstart"),
    (0x009, "vxsat"),
    (0x00a, "vxrm"),
    (0x00f, "vcsr"),
    (0x015, "seed"),
    (0x100, "sstatus"),
    (0x104, "sie"),
    (0x105, "stvec"),
    (0x106, "scounteren"),
    (0x10a, "senvcfg"),
    (0x114, "sieh"),
    (0x140, "sscratch"),
    (0x141, "sepc"),
    (0x142, "scause"),
    (0x143, "stval"),
    (0x144, "sip"),
    (0x14d, "stimecmp"),
    (0x150, "siselect"),
    (0x151, "sireg"),
    (0x154, "siph"),
    (0x15c, "stopei"),
    (0x15d, "stimecmph"),
    (0x180, "satp"),
    (0x200, "vsstatus"),
    (0x204, "vsie"),
    (0x205, "vstvec"),
    (0x214, "vsieh"),
    (0x240, "vsscratch"),
    (0x241, "vsepc"),
    (0x242, "vscause"),
    (0x243, "vstval"),
    (0x244, "vsip"),
    (0x24d, "vstimecmp"),
    (0x250, "vsiselect"),
    (0x251, "vsireg"),
    (0x254, "vsiph"),
    (0x25c, "vstopei"),
    (0x25d, "vstimecmph"),
    (0x280, "vsatp"),
    (0x300, "mstatus"),
    (0x301, "misa"),
    (0x302, "medeleg"),
    (0x303, "mideleg"),
    (0x304, "mie"),
    (0x305, "mtvec"),
    (0x306, "mcounteren"),
    (0x308, "mvien"),
    (0x309, "mvip"),
    (0x30a, "menvcfg"),
    (0x310, "mstatush"),
    (0x313, "midelegh"),
    (0x314, "mieh"),
    (0x318, "mvienh"),
    (0x319, "mviph"),
    (0x31a, "menvcfgh"),
    (0x320, "mcountinhibit"),
    (0x340, "mscratch"),
    (0x341, "mepc"),
    (0x342, "mcause"),
    (0x343, "mtval"),
    (0x344, "mip"),
    (0x34a, "mtinst"),
    (0x34b, "mtval2"),
    (0x350, "miselect"),
    (0x351, "mireg"),
    (0x354, "miph"),
    (0x35c, "mtopei"),
    (0x5a8, "scontext"),
    (0x600, "hstatus"),
    (0x602, "hedeleg"),
    (0x603, "hideleg"),
    (0x604, "hie"),
    (0x605, "htimedelta"),
    (0x606, "hcounteren"),
    (0x607, "hgeie"),
    (0x608, "hvien"),
    (0x609, "hvictl"),
    (0x60a, "henvcfg"),
    (0x613, "hidelegh"),
    (0x615, "htimedeltah"),
    (0x618, "hvienh"),
    (0x61a, "henvcfgh"),
    (0x643, "htval"),
    (0x644, "hip"),
    (0x645, "hvip"),
    (0x64a, "htinst"),
    (0x655, "hviph"),
    (0x680, "hgatp"),
    (0x6a8, "hcontext"),
    (0x747, "mseccfg"),
    (0x757, "mseccfgh"),
    (0x7a0, "tselect"),
    (0x7a4, "tinfo"),
    (0x7a5, "tcontrol"),
    (0x7a8, "mcontext"),
    (0x7aa, "mscontext"),
    (0x7b0, "dcsr"),
    (0x7b1, "dpc"),
    (0xb00, "mcycle"),
    (0xb02, "minstret"),
    (0xb80, "mcycleh"),
    (0xb82, "minstreth"),
    (0xc00, "cycle"),
    (0xc01, "time"),
    (0xc02, "instret"),
    (0xc20, "vl"),
    (0xc21, "vtype"),
    (0xc22, "vlenb"),
    (0xc80, "cycleh"),
    (0xc81, "timeh"),
    (0xc82, "instreth"),
    (0xda0, "scountovf"),
    (0xdb0, "stopi"),
    (0xe12, "hgeip"),
    (0xeb0, "vstopi"),
    (0xf11, "mvendorid"),
    (0xf12, "marchid"),
    (0xf13, "mimpid"),
    (0xf14, "mhartid"),
    (0xf15, "mconfigptr"),
    (0xfb0, "mtopi"),
];

/// Control and status registers that are numbered: the first one's address, how many there are,
/// what stands before the number, the first number, and what stands after it.
const NUMBERED_CSRS: &[(u16, u16, &str, u16, &str)] = &[
    (0x10c, 4, "sstateen", 0, ""),
    (0x30c, 4, "mstateen", 0, ""),
    (0x31c, 4, "mstateen", 0, "h"),
    (0x323, 29, "mhpmevent", 3, ""),
    (0x3a0, 16, "pmpcfg", 0, ""),
    (0x3b0, 64, "pmpaddr", 0, ""),
    (0x60c, 4, "hstateen", 0, ""),
    (0x61c, 4, "hstateen", 0, "h"),
    (0x646, 2, "hviprio", 1, ""),
    (0x656, 2, "hviprio", 1, "h"),
    (0x723, 29, "mhpmevent", 3, "h"),
    (0x7a1, 3, "tdata", 1, ""),
    (0x7b2, 2, "dscratch", 0, ""),
    (0xb03, 29, "mhpmcounter", 3, ""),
    (0xb83, 29, "mhpmcounter", 3, "h"),
    (0xc03, 29, "hpmcounter", 3, ""),
    (0xc83, 29, "hpmcounter", 3, "h"),
];

/// The name of a control and status register.
#[must_use]
pub fn csr_name(address: u16) -> Option<Cow<'static, str>> {
    if let Ok(at) = CSRS.binary_search_by_key(&address, |(address, _)| *address) {
        return CSRS.get(at).map(|(_, name)| Cow::Borrowed(*name));
    }
    NUMBERED_CSRS
        .iter()
        .find(|(first, n, ..)| (*first..first + n).contains(&address))
        .map(|(first, _, before, number, after)| {
            Cow::Owned(format!("{before}{}{after}", number + (address - first)))
        })
}

/// The control and status register of this name.
#[must_use]
pub fn csr_address(name: &str) -> Option<u16> {
    (0..0x1000).find(|address| csr_name(*address).is_some_and(|known| known == name))
}

/// The number of an integer register: `a0`, `x10`, `fp`.
#[must_use]
pub fn x_number(name: &str) -> Option<u8> {
    match name {
        "fp" => Some(8),
        _ => position(&X, name).or_else(|| numbered(name, "x")),
    }
}

/// The number of a floating-point register: `fa0`, `f10`.
#[must_use]
pub fn f_number(name: &str) -> Option<u8> {
    position(&F, name).or_else(|| numbered(name, "f"))
}

/// The number of an extended register: `e10`.
#[must_use]
pub fn e_number(name: &str) -> Option<u8> {
    position(&E, name)
}

fn position(names: &[&str; 32], name: &str) -> Option<u8> {
    (0..)
        .zip(names)
        .find(|(_, known)| **known == name)
        .map(|(number, _)| number)
}

fn numbered(name: &str, letter: &str) -> Option<u8> {
    let digits = name.strip_prefix(letter)?;
    let number = digits.parse().ok().filter(|number| *number < 32)?;
    (digits == "0" || !digits.starts_with('0')).then_some(number)
}
