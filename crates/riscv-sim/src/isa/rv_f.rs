//! Single precision.

macro_rules! rv_f_rows {
    ([$($files:ident)*] $callback:ident { $($rows:tt)* }) => { $crate::isa::next_rows! { [$($files)*] $callback { $($rows)*
        Flw "flw" F FLoad 0x0000_707f 0x0000_2007 fallible |h, i| { h.check_fp(i)?; let v = u32::from_le_bytes(h.load(h.address(i))?); h.set_fs(i.rd, v); Ok(()) }
        Fsw "fsw" F FStore 0x0000_707f 0x0000_2027 fallible |h, i| { h.check_fp(i)?; h.store(h.address(i), (h.f(i.rs2) as u32).to_le_bytes()) }
        FmaddS "fmadd.s" F F4 0x0600_007f 0x0000_0043 fallible |h, i| { h.fused::<Single>(i, false, false) }
        FmsubS "fmsub.s" F F4 0x0600_007f 0x0000_0047 fallible |h, i| { h.fused::<Single>(i, false, true) }
        FnmsubS "fnmsub.s" F F4 0x0600_007f 0x0000_004b fallible |h, i| { h.fused::<Single>(i, true, false) }
        FnmaddS "fnmadd.s" F F4 0x0600_007f 0x0000_004f fallible |h, i| { h.fused::<Single>(i, true, true) }
        FaddS "fadd.s" F FRm 0xfe00_007f 0x0000_0053 fallible |h, i| { h.binary::<Single>(i, float::add::<Single>) }
        FsubS "fsub.s" F FRm 0xfe00_007f 0x0800_0053 fallible |h, i| { h.binary::<Single>(i, float::sub::<Single>) }
        FmulS "fmul.s" F FRm 0xfe00_007f 0x1000_0053 fallible |h, i| { h.binary::<Single>(i, float::mul::<Single>) }
        FdivS "fdiv.s" F FRm 0xfe00_007f 0x1800_0053 fallible |h, i| { h.binary::<Single>(i, float::div::<Single>) }
        FsqrtS "fsqrt.s" F FUnaryRm 0xfff0_007f 0x5800_0053 fallible |h, i| { h.unary::<Single>(i) }
        FsgnjS "fsgnj.s" F FR 0xfe00_707f 0x2000_0053 fallible |h, i| { h.sign_inject::<Single>(i, |_own, sign| sign) }
        FsgnjnS "fsgnjn.s" F FR 0xfe00_707f 0x2000_1053 fallible |h, i| { h.sign_inject::<Single>(i, |_own, sign| !sign) }
        FsgnjxS "fsgnjx.s" F FR 0xfe00_707f 0x2000_2053 fallible |h, i| { h.sign_inject::<Single>(i, |own, sign| sign ^ own) }
        FminS "fmin.s" F FR 0xfe00_707f 0x2800_0053 fallible |h, i| { h.min_max::<Single>(i, float::min::<Single>) }
        FmaxS "fmax.s" F FR 0xfe00_707f 0x2800_1053 fallible |h, i| { h.min_max::<Single>(i, float::max::<Single>) }
        FleS "fle.s" F FCmp 0xfe00_707f 0xa000_0053 fallible |h, i| { h.compare::<Single>(i, float::le::<Single>) }
        FltS "flt.s" F FCmp 0xfe00_707f 0xa000_1053 fallible |h, i| { h.compare::<Single>(i, float::lt::<Single>) }
        FeqS "feq.s" F FCmp 0xfe00_707f 0xa000_2053 fallible |h, i| { h.compare::<Single>(i, float::eq::<Single>) }
        FclassS "fclass.s" F FToX 0xfff0_707f 0xe000_1053 fallible |h, i| { h.classify::<Single>(i) }
        FmvXW "fmv.x.w" F FToX 0xfff0_707f 0xe000_0053 fallible |h, i| { h.check_fp(i)?; h.set_w(i.rd, h.f(i.rs1) as i32); Ok(()) }
        FmvWX "fmv.w.x" F XToF 0xfff0_707f 0xf000_0053 fallible |h, i| { h.check_fp(i)?; h.set_fs(i.rd, h.x(i.rs1) as u32); Ok(()) }
        FcvtWS "fcvt.w.s" F FToXRm 0xfff0_007f 0xc000_0053 fallible |h, i| { h.convert_to_integer::<Single>(i, Integer::I32) }
        FcvtSW "fcvt.s.w" F XToFRm 0xfff0_007f 0xd000_0053 fallible |h, i| { h.convert_from_integer::<Single>(i, Integer::I32) }
        FcvtWuS "fcvt.wu.s" F FToXRm 0xfff0_007f 0xc010_0053 fallible |h, i| { h.convert_to_integer::<Single>(i, Integer::U32) }
        FcvtSWu "fcvt.s.wu" F XToFRm 0xfff0_007f 0xd010_0053 fallible |h, i| { h.convert_from_integer::<Single>(i, Integer::U32) }
        FcvtLS "fcvt.l.s" F FToXRm 0xfff0_007f 0xc020_0053 fallible |h, i| { h.convert_to_integer::<Single>(i, Integer::I64) }
        FcvtSL "fcvt.s.l" F XToFRm 0xfff0_007f 0xd020_0053 fallible |h, i| { h.convert_from_integer::<Single>(i, Integer::I64) }
        FcvtLuS "fcvt.lu.s" F FToXRm 0xfff0_007f 0xc030_0053 fallible |h, i| { h.convert_to_integer::<Single>(i, Integer::U64) }
        FcvtSLu "fcvt.s.lu" F XToFRm 0xfff0_007f 0xd030_0053 fallible |h, i| { h.convert_from_integer::<Single>(i, Integer::U64) }
    } } };
}
