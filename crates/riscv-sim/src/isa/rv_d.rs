//! Double precision.

macro_rules! rv_d_rows {
    ([$($files:ident)*] $callback:ident { $($rows:tt)* }) => { $crate::isa::next_rows! { [$($files)*] $callback { $($rows)*
        Fld "fld" D FLoad 0x0000_707f 0x0000_3007 fallible |h, i| { h.check_fp(i)?; let v = u64::from_le_bytes(h.load(h.address(i))?); h.set_fd(i.rd, v); Ok(()) }
        Fsd "fsd" D FStore 0x0000_707f 0x0000_3027 fallible |h, i| { h.check_fp(i)?; h.store(h.address(i), h.f(i.rs2).to_le_bytes()) }
        FmaddD "fmadd.d" D F4 0x0600_007f 0x0200_0043 fallible |h, i| { h.fused::<Double>(i, false, false) }
        FmsubD "fmsub.d" D F4 0x0600_007f 0x0200_0047 fallible |h, i| { h.fused::<Double>(i, false, true) }
        FnmsubD "fnmsub.d" D F4 0x0600_007f 0x0200_004b fallible |h, i| { h.fused::<Double>(i, true, false) }
        FnmaddD "fnmadd.d" D F4 0x0600_007f 0x0200_004f fallible |h, i| { h.fused::<Double>(i, true, true) }
        FaddD "fadd.d" D FRm 0xfe00_007f 0x0200_0053 fallible |h, i| { h.binary::<Double>(i, float::add::<Double>) }
        FsubD "fsub.d" D FRm 0xfe00_007f 0x0a00_0053 fallible |h, i| { h.binary::<Double>(i, float::sub::<Double>) }
        FmulD "fmul.d" D FRm 0xfe00_007f 0x1200_0053 fallible |h, i| { h.binary::<Double>(i, float::mul::<Double>) }
        FdivD "fdiv.d" D FRm 0xfe00_007f 0x1a00_0053 fallible |h, i| { h.binary::<Double>(i, float::div::<Double>) }
        FsqrtD "fsqrt.d" D FUnaryRm 0xfff0_007f 0x5a00_0053 fallible |h, i| { h.unary::<Double>(i) }
        FsgnjD "fsgnj.d" D FR 0xfe00_707f 0x2200_0053 fallible |h, i| { h.sign_inject::<Double>(i, |_own, sign| sign) }
        FsgnjnD "fsgnjn.d" D FR 0xfe00_707f 0x2200_1053 fallible |h, i| { h.sign_inject::<Double>(i, |_own, sign| !sign) }
        FsgnjxD "fsgnjx.d" D FR 0xfe00_707f 0x2200_2053 fallible |h, i| { h.sign_inject::<Double>(i, |own, sign| sign ^ own) }
        FminD "fmin.d" D FR 0xfe00_707f 0x2a00_0053 fallible |h, i| { h.min_max::<Double>(i, float::min::<Double>) }
        FmaxD "fmax.d" D FR 0xfe00_707f 0x2a00_1053 fallible |h, i| { h.min_max::<Double>(i, float::max::<Double>) }
        FleD "fle.d" D FCmp 0xfe00_707f 0xa200_0053 fallible |h, i| { h.compare::<Double>(i, float::le::<Double>) }
        FltD "flt.d" D FCmp 0xfe00_707f 0xa200_1053 fallible |h, i| { h.compare::<Double>(i, float::lt::<Double>) }
        FeqD "feq.d" D FCmp 0xfe00_707f 0xa200_2053 fallible |h, i| { h.compare::<Double>(i, float::eq::<Double>) }
        FclassD "fclass.d" D FToX 0xfff0_707f 0xe200_1053 fallible |h, i| { h.classify::<Double>(i) }
        FmvXD "fmv.x.d" D FToX 0xfff0_707f 0xe200_0053 fallible |h, i| { h.check_fp(i)?; h.set_x(i.rd, h.f(i.rs1)); Ok(()) }
        FmvDX "fmv.d.x" D XToF 0xfff0_707f 0xf200_0053 fallible |h, i| { h.check_fp(i)?; h.set_fd(i.rd, h.x(i.rs1)); Ok(()) }
        FcvtSD "fcvt.s.d" D FUnaryRm 0xfff0_007f 0x4010_0053 fallible |h, i| { h.convert::<Double, Single>(i) }
        FcvtDS "fcvt.d.s" D FUnaryExact 0xfff0_007f 0x4200_0053 fallible |h, i| { h.convert::<Single, Double>(i) }
        FcvtWD "fcvt.w.d" D FToXRm 0xfff0_007f 0xc200_0053 fallible |h, i| { h.convert_to_integer::<Double>(i, Integer::I32) }
        FcvtDW "fcvt.d.w" D XToFExact 0xfff0_007f 0xd200_0053 fallible |h, i| { h.convert_from_integer::<Double>(i, Integer::I32) }
        FcvtWuD "fcvt.wu.d" D FToXRm 0xfff0_007f 0xc210_0053 fallible |h, i| { h.convert_to_integer::<Double>(i, Integer::U32) }
        FcvtDWu "fcvt.d.wu" D XToFExact 0xfff0_007f 0xd210_0053 fallible |h, i| { h.convert_from_integer::<Double>(i, Integer::U32) }
        FcvtLD "fcvt.l.d" D FToXRm 0xfff0_007f 0xc220_0053 fallible |h, i| { h.convert_to_integer::<Double>(i, Integer::I64) }
        FcvtDL "fcvt.d.l" D XToFRm 0xfff0_007f 0xd220_0053 fallible |h, i| { h.convert_from_integer::<Double>(i, Integer::I64) }
        FcvtLuD "fcvt.lu.d" D FToXRm 0xfff0_007f 0xc230_0053 fallible |h, i| { h.convert_to_integer::<Double>(i, Integer::U64) }
        FcvtDLu "fcvt.d.lu" D XToFRm 0xfff0_007f 0xd230_0053 fallible |h, i| { h.convert_from_integer::<Double>(i, Integer::U64) }
    } } };
}
