//! Control and status registers, and the fence for instruction fetch.

macro_rules! rv_zicsr_rows {
    ([$($files:ident)*] $callback:ident { $($rows:tt)* }) => { $crate::isa::next_rows! { [$($files)*] $callback { $($rows)*
        Csrrw "csrrw" Zicsr Csr 0x0000_707f 0x0000_1073 system |h, i| { h.csr(i, CsrWrite::Set(h.x(i.rs1))) }
        Csrrs "csrrs" Zicsr Csr 0x0000_707f 0x0000_2073 system |h, i| { h.csr(i, CsrWrite::or_none(i.rs1 == 0, CsrWrite::SetBits(h.x(i.rs1)))) }
        Csrrc "csrrc" Zicsr Csr 0x0000_707f 0x0000_3073 system |h, i| { h.csr(i, CsrWrite::or_none(i.rs1 == 0, CsrWrite::ClearBits(h.x(i.rs1)))) }
        Csrrwi "csrrwi" Zicsr CsrImm 0x0000_707f 0x0000_5073 system |h, i| { h.csr(i, CsrWrite::Set(i.rs1.into())) }
        Csrrsi "csrrsi" Zicsr CsrImm 0x0000_707f 0x0000_6073 system |h, i| { h.csr(i, CsrWrite::or_none(i.rs1 == 0, CsrWrite::SetBits(i.rs1.into()))) }
        Csrrci "csrrci" Zicsr CsrImm 0x0000_707f 0x0000_7073 system |h, i| { h.csr(i, CsrWrite::or_none(i.rs1 == 0, CsrWrite::ClearBits(i.rs1.into()))) }
        FenceI "fence.i" Zifencei None 0x0000_707f 0x0000_100f system |h, i| { h.fence_i(i) }
    } } };
}
