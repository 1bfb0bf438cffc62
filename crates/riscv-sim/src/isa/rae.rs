//! The Remote Atomic Extension: the paper's 14 atomics, and the later toolchain's, which are laid
//! out as those of the A extension. Their bits do not overlap, so both decode under either profile.

macro_rules! rae_rows {
    ([$($files:ident)*] $callback:ident { $($rows:tt)* }) => { $crate::isa::next_rows! { [$($files)*] $callback { $($rows)*
        EamoxorW "eamoxor.w" Rae R 0xfe00_707f 0x0200_606b fallible |h, i| { h.remote_atomic(i, AtomicOp::Xor, 4) }
        EamoxorD "eamoxor.d" Rae R 0xfe00_707f 0x0200_706b fallible |h, i| { h.remote_atomic(i, AtomicOp::Xor, 8) }
        EamoandW "eamoand.w" Rae R 0xfe00_707f 0x0400_606b fallible |h, i| { h.remote_atomic(i, AtomicOp::And, 4) }
        EamoandD "eamoand.d" Rae R 0xfe00_707f 0x0400_706b fallible |h, i| { h.remote_atomic(i, AtomicOp::And, 8) }
        EamoorW "eamoor.w" Rae R 0xfe00_707f 0x0600_606b fallible |h, i| { h.remote_atomic(i, AtomicOp::Or, 4) }
        EamoorD "eamoor.d" Rae R 0xfe00_707f 0x0600_706b fallible |h, i| { h.remote_atomic(i, AtomicOp::Or, 8) }
        EamominW "eamomin.w" Rae R 0xfe00_707f 0x0800_606b fallible |h, i| { h.remote_atomic(i, AtomicOp::Min, 4) }
        EamominD "eamomin.d" Rae R 0xfe00_707f 0x0800_706b fallible |h, i| { h.remote_atomic(i, AtomicOp::Min, 8) }
        EamomaxW "eamomax.w" Rae R 0xfe00_707f 0x0a00_606b fallible |h, i| { h.remote_atomic(i, AtomicOp::Max, 4) }
        EamomaxD "eamomax.d" Rae R 0xfe00_707f 0x0a00_706b fallible |h, i| { h.remote_atomic(i, AtomicOp::Max, 8) }
        EamocasW "eamocas.w" Rae R 0xfe00_707f 0x0c00_606b fallible |h, i| { h.remote_cas(i, 4) }
        EamocasD "eamocas.d" Rae R 0xfe00_707f 0x0c00_706b fallible |h, i| { h.remote_cas(i, 8) }
        EamoaddW "eamoadd.w" Rae R 0xfe00_707f 0x0e00_606b fallible |h, i| { h.remote_atomic(i, AtomicOp::Add, 4) }
        EamoaddD "eamoadd.d" Rae R 0xfe00_707f 0x0e00_706b fallible |h, i| { h.remote_atomic(i, AtomicOp::Add, 8) }
        XamoaddW "eamoadd.w" Xamo Amo 0xf800_707f 0x0000_206b fallible |h, i| { h.remote_atomic(i, AtomicOp::Add, 4) }
        XamoaddD "eamoadd.d" Xamo Amo 0xf800_707f 0x0000_306b fallible |h, i| { h.remote_atomic(i, AtomicOp::Add, 8) }
        XamoswapW "eamoswap.w" Xamo Amo 0xf800_707f 0x0800_206b fallible |h, i| { h.remote_atomic(i, AtomicOp::Swap, 4) }
        XamoswapD "eamoswap.d" Xamo Amo 0xf800_707f 0x0800_306b fallible |h, i| { h.remote_atomic(i, AtomicOp::Swap, 8) }
        XamoxorW "eamoxor.w" Xamo Amo 0xf800_707f 0x2000_206b fallible |h, i| { h.remote_atomic(i, AtomicOp::Xor, 4) }
        XamoxorD "eamoxor.d" Xamo Amo 0xf800_707f 0x2000_306b fallible |h, i| { h.remote_atomic(i, AtomicOp::Xor, 8) }
        XamoorW "eamoor.w" Xamo Amo 0xf800_707f 0x4000_206b fallible |h, i| { h.remote_atomic(i, AtomicOp::Or, 4) }
        XamoorD "eamoor.d" Xamo Amo 0xf800_707f 0x4000_306b fallible |h, i| { h.remote_atomic(i, AtomicOp::Or, 8) }
        XamoandW "eamoand.w" Xamo Amo 0xf800_707f 0x6000_206b fallible |h, i| { h.remote_atomic(i, AtomicOp::And, 4) }
        XamoandD "eamoand.d" Xamo Amo 0xf800_707f 0x6000_306b fallible |h, i| { h.remote_atomic(i, AtomicOp::And, 8) }
        XamominW "eamomin.w" Xamo Amo 0xf800_707f 0x8000_206b fallible |h, i| { h.remote_atomic(i, AtomicOp::Min, 4) }
        XamominD "eamomin.d" Xamo Amo 0xf800_707f 0x8000_306b fallible |h, i| { h.remote_atomic(i, AtomicOp::Min, 8) }
        XamomaxW "eamomax.w" Xamo Amo 0xf800_707f 0xa000_206b fallible |h, i| { h.remote_atomic(i, AtomicOp::Max, 4) }
        XamomaxD "eamomax.d" Xamo Amo 0xf800_707f 0xa000_306b fallible |h, i| { h.remote_atomic(i, AtomicOp::Max, 8) }
        XamominuW "eamominu.w" Xamo Amo 0xf800_707f 0xc000_206b fallible |h, i| { h.remote_atomic(i, AtomicOp::Minu, 4) }
        XamominuD "eamominu.d" Xamo Amo 0xf800_707f 0xc000_306b fallible |h, i| { h.remote_atomic(i, AtomicOp::Minu, 8) }
        XamomaxuW "eamomaxu.w" Xamo Amo 0xf800_707f 0xe000_206b fallible |h, i| { h.remote_atomic(i, AtomicOp::Maxu, 4) }
        XamomaxuD "eamomaxu.d" Xamo Amo 0xf800_707f 0xe000_306b fallible |h, i| { h.remote_atomic(i, AtomicOp::Maxu, 8) }
        ElrW "elr.w" Xamo Lr 0xf9f0_707f 0x1000_206b fallible |h, i| { h.remote_load_reserved(i, 4) }
        EscW "esc.w" Xamo Amo 0xf800_707f 0x1800_206b fallible |h, i| { h.remote_store_conditional(i, 4) }
        ElrD "elr.d" Xamo Lr 0xf9f0_707f 0x1000_306b fallible |h, i| { h.remote_load_reserved(i, 8) }
        EscD "esc.d" Xamo Amo 0xf800_707f 0x1800_306b fallible |h, i| { h.remote_store_conditional(i, 8) }
    } } };
}
