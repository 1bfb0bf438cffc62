//! Multiplication and division.

macro_rules! rv_m_rows {
    ([$($files:ident)*] $callback:ident { $($rows:tt)* }) => { $crate::isa::next_rows! { [$($files)*] $callback { $($rows)*
        Mul "mul" M R 0xfe00_707f 0x0200_0033 plain |h, i| { h.set_x(i.rd, h.x(i.rs1).wrapping_mul(h.x(i.rs2))); }
        Mulh "mulh" M R 0xfe00_707f 0x0200_1033 plain |h, i| { h.set_x(i.rd, ((i128::from(h.s(i.rs1)) * i128::from(h.s(i.rs2))) >> 64) as u64); }
        Mulhsu "mulhsu" M R 0xfe00_707f 0x0200_2033 plain |h, i| { h.set_x(i.rd, ((i128::from(h.s(i.rs1)) * i128::from(h.x(i.rs2))) >> 64) as u64); }
        Mulhu "mulhu" M R 0xfe00_707f 0x0200_3033 plain |h, i| { h.set_x(i.rd, ((u128::from(h.x(i.rs1)) * u128::from(h.x(i.rs2))) >> 64) as u64); }
        Div "div" M R 0xfe00_707f 0x0200_4033 plain |h, i| {
            let quotient = match h.s(i.rs2) { 0 => -1, by => h.s(i.rs1).wrapping_div(by) };
            h.set_x(i.rd, quotient.cast_unsigned());
        }
        Divu "divu" M R 0xfe00_707f 0x0200_5033 plain |h, i| { h.set_x(i.rd, h.x(i.rs1).checked_div(h.x(i.rs2)).unwrap_or(u64::MAX)); }
        Rem "rem" M R 0xfe00_707f 0x0200_6033 plain |h, i| {
            let rest = match h.s(i.rs2) { 0 => h.s(i.rs1), by => h.s(i.rs1).wrapping_rem(by) };
            h.set_x(i.rd, rest.cast_unsigned());
        }
        Remu "remu" M R 0xfe00_707f 0x0200_7033 plain |h, i| { h.set_x(i.rd, h.x(i.rs1).checked_rem(h.x(i.rs2)).unwrap_or(h.x(i.rs1))); }
        Mulw "mulw" M R 0xfe00_707f 0x0200_003b plain |h, i| { h.set_w(i.rd, h.w(i.rs1).wrapping_mul(h.w(i.rs2))); }
        Divw "divw" M R 0xfe00_707f 0x0200_403b plain |h, i| {
            let quotient = match h.w(i.rs2) { 0 => -1, by => h.w(i.rs1).wrapping_div(by) };
            h.set_w(i.rd, quotient);
        }
        Divuw "divuw" M R 0xfe00_707f 0x0200_503b plain |h, i| {
            let quotient = h.w(i.rs1).cast_unsigned().checked_div(h.w(i.rs2).cast_unsigned());
            h.set_w(i.rd, quotient.unwrap_or(u32::MAX).cast_signed());
        }
        Remw "remw" M R 0xfe00_707f 0x0200_603b plain |h, i| {
            let rest = match h.w(i.rs2) { 0 => h.w(i.rs1), by => h.w(i.rs1).wrapping_rem(by) };
            h.set_w(i.rd, rest);
        }
        Remuw "remuw" M R 0xfe00_707f 0x0200_703b plain |h, i| {
            let rest = h.w(i.rs1).cast_unsigned().checked_rem(h.w(i.rs2).cast_unsigned());
            h.set_w(i.rd, rest.map_or(h.w(i.rs1), u32::cast_signed));
        }
    } } };
}
