//! xBGAS: remote loads and stores, whose address is an extended register (0 is this node, otherwise
//! an object) and a base register, and the instructions that manage extended registers.
//!
//! Three encodings moved between the specifications 0.7 and 2.0.0 and have a row in each.
//! Specification 2.0.0 gives `erse` the bits of `ersd`; like its toolchain, both profiles keep the
//! older bits. `elq` loads the low half of its 16 bytes, as the authors' simulator does; `esq`
//! stores 16 bytes, the upper ones zero. `eag` comes before a remote load or store, which then
//! moves as many elements as its first source says between the object and this node's memory from
//! its second source on, and no register; what its own destination gets nobody says, and it is 0
//! here.

macro_rules! xbgas_rows {
    ([$($files:ident)*] $callback:ident { $($rows:tt)* }) => { $crate::isa::next_rows! { [$($files)*] $callback { $($rows)*
        Elb "elb" Xbgas Load 0x0000_707f 0x0000_0077 fallible |h, i| { h.remote_load(i, h.e(i.rs1), h.address(i), Width::I8) }
        Elh "elh" Xbgas Load 0x0000_707f 0x0000_1077 fallible |h, i| { h.remote_load(i, h.e(i.rs1), h.address(i), Width::I16) }
        Elw "elw" Xbgas Load 0x0000_707f 0x0000_2077 fallible |h, i| { h.remote_load(i, h.e(i.rs1), h.address(i), Width::I32) }
        Eld "eld" Xbgas Load 0x0000_707f 0x0000_3077 fallible |h, i| { h.remote_load(i, h.e(i.rs1), h.address(i), Width::I64) }
        Elbu "elbu" Xbgas Load 0x0000_707f 0x0000_4077 fallible |h, i| { h.remote_load(i, h.e(i.rs1), h.address(i), Width::U8) }
        Elhu "elhu" Xbgas Load 0x0000_707f 0x0000_5077 fallible |h, i| { h.remote_load(i, h.e(i.rs1), h.address(i), Width::U16) }
        Elq "elq" Xbgas0 Load 0x0000_707f 0x0000_6077 fallible |h, i| { h.remote_load(i, h.e(i.rs1), h.address(i), Width::Quad) }
        Elwu "elwu" Xbgas2 Load 0x0000_707f 0x0000_6077 fallible |h, i| { h.remote_load(i, h.e(i.rs1), h.address(i), Width::U32) }
        Ele "ele" Xbgas ExtLoad 0x0000_707f 0x0000_7077 fallible |h, i| { let v = u64::from_le_bytes(h.load(h.address(i))?); h.set_e(i.rd, v); Ok(()) }
        Esb "esb" Xbgas Store 0x0000_707f 0x0000_007b fallible |h, i| { h.remote_store(i, h.e(i.rs1), h.address(i), h.x(i.rs2), Width::U8) }
        Esh "esh" Xbgas Store 0x0000_707f 0x0000_107b fallible |h, i| { h.remote_store(i, h.e(i.rs1), h.address(i), h.x(i.rs2), Width::U16) }
        Esw "esw" Xbgas Store 0x0000_707f 0x0000_207b fallible |h, i| { h.remote_store(i, h.e(i.rs1), h.address(i), h.x(i.rs2), Width::U32) }
        Esd "esd" Xbgas Store 0x0000_707f 0x0000_307b fallible |h, i| { h.remote_store(i, h.e(i.rs1), h.address(i), h.x(i.rs2), Width::U64) }
        Esq "esq" Xbgas0 Store 0x0000_707f 0x0000_407b fallible |h, i| { h.remote_store(i, h.e(i.rs1), h.address(i), h.x(i.rs2), Width::Quad) }
        Ese0 "ese" Xbgas0 ExtStore 0x0000_707f 0x0000_507b fallible |h, i| { h.store(h.address(i), h.e(i.rs2).to_le_bytes()) }
        Ese "ese" Xbgas2 ExtStore 0x0000_707f 0x0000_707b fallible |h, i| { h.store(h.address(i), h.e(i.rs2).to_le_bytes()) }
        Eaddi "eaddi" Xbgas EAddi 0x0000_707f 0x0000_607b plain |h, i| { h.set_x(i.rd, h.e(i.rs1).wrapping_add(i.imm())); }
        Eaddie0 "eaddie" Xbgas0 EAddie 0x0000_707f 0x0000_707b plain |h, i| { h.set_e(i.rd, h.x(i.rs1).wrapping_add(i.imm())); }
        Eaddie "eaddie" Xbgas2 EAddie 0x0000_707f 0x0000_507b plain |h, i| { h.set_e(i.rd, h.x(i.rs1).wrapping_add(i.imm())); }
        Eaddix "eaddix" Xbgas EAddix 0x0000_707f 0x0000_7003 plain |h, i| { h.set_e(i.rd, h.e(i.rs1).wrapping_add(i.imm())); }
        Erlb "erlb" Xbgas ErLoad 0xfe00_707f 0xaa00_0033 fallible |h, i| { h.remote_load(i, h.e(i.rs2), h.x(i.rs1), Width::I8) }
        Erlh "erlh" Xbgas ErLoad 0xfe00_707f 0xaa00_1033 fallible |h, i| { h.remote_load(i, h.e(i.rs2), h.x(i.rs1), Width::I16) }
        Erlw "erlw" Xbgas ErLoad 0xfe00_707f 0xaa00_2033 fallible |h, i| { h.remote_load(i, h.e(i.rs2), h.x(i.rs1), Width::I32) }
        Erld "erld" Xbgas ErLoad 0xfe00_707f 0xaa00_3033 fallible |h, i| { h.remote_load(i, h.e(i.rs2), h.x(i.rs1), Width::I64) }
        Erlbu "erlbu" Xbgas ErLoad 0xfe00_707f 0xaa00_4033 fallible |h, i| { h.remote_load(i, h.e(i.rs2), h.x(i.rs1), Width::U8) }
        Erlhu "erlhu" Xbgas ErLoad 0xfe00_707f 0xaa00_5033 fallible |h, i| { h.remote_load(i, h.e(i.rs2), h.x(i.rs1), Width::U16) }
        Erle0 "erle" Xbgas0 ErLoadExt 0xfe00_707f 0x4200_4033 fallible |h, i| { h.remote_load(i, h.e(i.rs2), h.x(i.rs1), Width::Extended) }
        Erle "erle" Xbgas2 ErLoadExt 0xfe00_707f 0xaa00_7033 fallible |h, i| { h.remote_load(i, h.e(i.rs2), h.x(i.rs1), Width::Extended) }
        Ersb "ersb" Xbgas ErStore 0xfe00_707f 0x4400_0033 fallible |h, i| { h.remote_store(i, h.e(i.rd), h.x(i.rs2), h.x(i.rs1), Width::U8) }
        Ersh "ersh" Xbgas ErStore 0xfe00_707f 0x4400_1033 fallible |h, i| { h.remote_store(i, h.e(i.rd), h.x(i.rs2), h.x(i.rs1), Width::U16) }
        Ersw "ersw" Xbgas ErStore 0xfe00_707f 0x4400_2033 fallible |h, i| { h.remote_store(i, h.e(i.rd), h.x(i.rs2), h.x(i.rs1), Width::U32) }
        Ersd "ersd" Xbgas ErStore 0xfe00_707f 0x4400_3033 fallible |h, i| { h.remote_store(i, h.e(i.rd), h.x(i.rs2), h.x(i.rs1), Width::U64) }
        Erse "erse" Xbgas ErStoreExt 0xfe00_707f 0x4600_3033 fallible |h, i| { h.remote_store(i, h.e(i.rd), h.x(i.rs2), h.e(i.rs1), Width::U64) }
        Eag "eag" Xbgas0 R 0xfe00_707f 0x1000_106b plain |h, i| { h.aggregate(i); }
        Eblb "eblb" Xbgas2 Bulk 0x0600_707f 0x0600_005b fallible |h, i| { h.bulk(i, Direction::Load, 1) }
        Ebsb "ebsb" Xbgas2 Bulk 0x0600_707f 0x0400_005b fallible |h, i| { h.bulk(i, Direction::Store, 1) }
        Eblh "eblh" Xbgas2 Bulk 0x0600_707f 0x0600_105b fallible |h, i| { h.bulk(i, Direction::Load, 2) }
        Ebsh "ebsh" Xbgas2 Bulk 0x0600_707f 0x0400_105b fallible |h, i| { h.bulk(i, Direction::Store, 2) }
        Eblw "eblw" Xbgas2 Bulk 0x0600_707f 0x0600_205b fallible |h, i| { h.bulk(i, Direction::Load, 4) }
        Ebsw "ebsw" Xbgas2 Bulk 0x0600_707f 0x0400_205b fallible |h, i| { h.bulk(i, Direction::Store, 4) }
        Ebld "ebld" Xbgas2 Bulk 0x0600_707f 0x0600_305b fallible |h, i| { h.bulk(i, Direction::Load, 8) }
        Ebsd "ebsd" Xbgas2 Bulk 0x0600_707f 0x0400_305b fallible |h, i| { h.bulk(i, Direction::Store, 8) }
    } } };
}
