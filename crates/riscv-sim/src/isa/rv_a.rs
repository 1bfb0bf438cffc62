//! Atomics on the node's own memory. One core's instructions are atomic as they are, and in order
//! but for remote operations under way, for which an atomic with the release bit waits
//! ([`timed`](crate::timed)). What follows a remote one with the acquire bit waits for that.

macro_rules! rv_a_rows {
    ([$($files:ident)*] $callback:ident { $($rows:tt)* }) => { $crate::isa::next_rows! { [$($files)*] $callback { $($rows)*
        LrW "lr.w" A Lr 0xf9f0_707f 0x1000_202f fallible |h, i| { h.load_reserved::<4>(i) }
        ScW "sc.w" A Amo 0xf800_707f 0x1800_202f fallible |h, i| { h.store_conditional::<4>(i) }
        AmoswapW "amoswap.w" A Amo 0xf800_707f 0x0800_202f fallible |h, i| { h.amo_w(i, AtomicOp::Swap) }
        AmoaddW "amoadd.w" A Amo 0xf800_707f 0x0000_202f fallible |h, i| { h.amo_w(i, AtomicOp::Add) }
        AmoxorW "amoxor.w" A Amo 0xf800_707f 0x2000_202f fallible |h, i| { h.amo_w(i, AtomicOp::Xor) }
        AmoandW "amoand.w" A Amo 0xf800_707f 0x6000_202f fallible |h, i| { h.amo_w(i, AtomicOp::And) }
        AmoorW "amoor.w" A Amo 0xf800_707f 0x4000_202f fallible |h, i| { h.amo_w(i, AtomicOp::Or) }
        AmominW "amomin.w" A Amo 0xf800_707f 0x8000_202f fallible |h, i| { h.amo_w(i, AtomicOp::Min) }
        AmomaxW "amomax.w" A Amo 0xf800_707f 0xa000_202f fallible |h, i| { h.amo_w(i, AtomicOp::Max) }
        AmominuW "amominu.w" A Amo 0xf800_707f 0xc000_202f fallible |h, i| { h.amo_w(i, AtomicOp::Minu) }
        AmomaxuW "amomaxu.w" A Amo 0xf800_707f 0xe000_202f fallible |h, i| { h.amo_w(i, AtomicOp::Maxu) }
        LrD "lr.d" A Lr 0xf9f0_707f 0x1000_302f fallible |h, i| { h.load_reserved::<8>(i) }
        ScD "sc.d" A Amo 0xf800_707f 0x1800_302f fallible |h, i| { h.store_conditional::<8>(i) }
        AmoswapD "amoswap.d" A Amo 0xf800_707f 0x0800_302f fallible |h, i| { h.amo_d(i, AtomicOp::Swap) }
        AmoaddD "amoadd.d" A Amo 0xf800_707f 0x0000_302f fallible |h, i| { h.amo_d(i, AtomicOp::Add) }
        AmoxorD "amoxor.d" A Amo 0xf800_707f 0x2000_302f fallible |h, i| { h.amo_d(i, AtomicOp::Xor) }
        AmoandD "amoand.d" A Amo 0xf800_707f 0x6000_302f fallible |h, i| { h.amo_d(i, AtomicOp::And) }
        AmoorD "amoor.d" A Amo 0xf800_707f 0x4000_302f fallible |h, i| { h.amo_d(i, AtomicOp::Or) }
        AmominD "amomin.d" A Amo 0xf800_707f 0x8000_302f fallible |h, i| { h.amo_d(i, AtomicOp::Min) }
        AmomaxD "amomax.d" A Amo 0xf800_707f 0xa000_302f fallible |h, i| { h.amo_d(i, AtomicOp::Max) }
        AmominuD "amominu.d" A Amo 0xf800_707f 0xc000_302f fallible |h, i| { h.amo_d(i, AtomicOp::Minu) }
        AmomaxuD "amomaxu.d" A Amo 0xf800_707f 0xe000_302f fallible |h, i| { h.amo_d(i, AtomicOp::Maxu) }
    } } };
}
