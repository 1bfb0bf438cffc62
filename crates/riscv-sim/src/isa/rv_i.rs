//! RV64I, and what bare-metal guests need of the privileged specification.

macro_rules! rv_i_rows {
    ([$($files:ident)*] $callback:ident { $($rows:tt)* }) => { $crate::isa::next_rows! { [$($files)*] $callback { $($rows)*
        Lui "lui" I U 0x0000_007f 0x0000_0037 plain |h, i| { h.set_x(i.rd, i.imm()); }
        Auipc "auipc" I U 0x0000_007f 0x0000_0017 plain |h, i| { h.set_x(i.rd, i.pc().wrapping_add(i.imm())); }
        Jal "jal" I J 0x0000_007f 0x0000_006f direct |h, i| { h.set_x(i.rd, h.next(i)); }
        Jalr "jalr" I Jalr 0x0000_707f 0x0000_0067 indirect |h, i| {
            let target = h.x(i.rs1).wrapping_add(i.imm()) & !1;
            h.set_x(i.rd, h.next(i));
            target
        }
        Beq "beq" I B 0x0000_707f 0x0000_0063 branch |h, i| { h.x(i.rs1) == h.x(i.rs2) }
        Bne "bne" I B 0x0000_707f 0x0000_1063 branch |h, i| { h.x(i.rs1) != h.x(i.rs2) }
        Blt "blt" I B 0x0000_707f 0x0000_4063 branch |h, i| { h.s(i.rs1) < h.s(i.rs2) }
        Bge "bge" I B 0x0000_707f 0x0000_5063 branch |h, i| { h.s(i.rs1) >= h.s(i.rs2) }
        Bltu "bltu" I B 0x0000_707f 0x0000_6063 branch |h, i| { h.x(i.rs1) < h.x(i.rs2) }
        Bgeu "bgeu" I B 0x0000_707f 0x0000_7063 branch |h, i| { h.x(i.rs1) >= h.x(i.rs2) }
        Lb "lb" I Load 0x0000_707f 0x0000_0003 fallible |h, i| { let v = i8::from_le_bytes(h.load(h.address(i))?); h.set_x(i.rd, i64::from(v).cast_unsigned()); Ok(()) }
        Lh "lh" I Load 0x0000_707f 0x0000_1003 fallible |h, i| { let v = i16::from_le_bytes(h.load(h.address(i))?); h.set_x(i.rd, i64::from(v).cast_unsigned()); Ok(()) }
        Lw "lw" I Load 0x0000_707f 0x0000_2003 fallible |h, i| { let v = i32::from_le_bytes(h.load(h.address(i))?); h.set_w(i.rd, v); Ok(()) }
        Ld "ld" I Load 0x0000_707f 0x0000_3003 fallible |h, i| { let v = u64::from_le_bytes(h.load(h.address(i))?); h.set_x(i.rd, v); Ok(()) }
        Lbu "lbu" I Load 0x0000_707f 0x0000_4003 fallible |h, i| { let [v] = h.load(h.address(i))?; h.set_x(i.rd, v.into()); Ok(()) }
        Lhu "lhu" I Load 0x0000_707f 0x0000_5003 fallible |h, i| { let v = u16::from_le_bytes(h.load(h.address(i))?); h.set_x(i.rd, v.into()); Ok(()) }
        Lwu "lwu" I Load 0x0000_707f 0x0000_6003 fallible |h, i| { let v = u32::from_le_bytes(h.load(h.address(i))?); h.set_x(i.rd, v.into()); Ok(()) }
        Sb "sb" I Store 0x0000_707f 0x0000_0023 fallible |h, i| { h.store(h.address(i), (h.x(i.rs2) as u8).to_le_bytes()) }
        Sh "sh" I Store 0x0000_707f 0x0000_1023 fallible |h, i| { h.store(h.address(i), (h.x(i.rs2) as u16).to_le_bytes()) }
        Sw "sw" I Store 0x0000_707f 0x0000_2023 fallible |h, i| { h.store(h.address(i), (h.x(i.rs2) as u32).to_le_bytes()) }
        Sd "sd" I Store 0x0000_707f 0x0000_3023 fallible |h, i| { h.store(h.address(i), h.x(i.rs2).to_le_bytes()) }
        Addi "addi" I I 0x0000_707f 0x0000_0013 plain |h, i| { h.set_x(i.rd, h.x(i.rs1).wrapping_add(i.imm())); }
        Slti "slti" I I 0x0000_707f 0x0000_2013 plain |h, i| { h.set_x(i.rd, (h.s(i.rs1) < i64::from(i.imm)).into()); }
        Sltiu "sltiu" I I 0x0000_707f 0x0000_3013 plain |h, i| { h.set_x(i.rd, (h.x(i.rs1) < i.imm()).into()); }
        Xori "xori" I I 0x0000_707f 0x0000_4013 plain |h, i| { h.set_x(i.rd, h.x(i.rs1) ^ i.imm()); }
        Ori "ori" I I 0x0000_707f 0x0000_6013 plain |h, i| { h.set_x(i.rd, h.x(i.rs1) | i.imm()); }
        Andi "andi" I I 0x0000_707f 0x0000_7013 plain |h, i| { h.set_x(i.rd, h.x(i.rs1) & i.imm()); }
        Slli "slli" I Shift6 0xfc00_707f 0x0000_1013 plain |h, i| { h.set_x(i.rd, h.x(i.rs1) << (i.imm & 63)); }
        Srli "srli" I Shift6 0xfc00_707f 0x0000_5013 plain |h, i| { h.set_x(i.rd, h.x(i.rs1) >> (i.imm & 63)); }
        Srai "srai" I Shift6 0xfc00_707f 0x4000_5013 plain |h, i| { h.set_x(i.rd, (h.s(i.rs1) >> (i.imm & 63)).cast_unsigned()); }
        Add "add" I R 0xfe00_707f 0x0000_0033 plain |h, i| { h.set_x(i.rd, h.x(i.rs1).wrapping_add(h.x(i.rs2))); }
        Sub "sub" I R 0xfe00_707f 0x4000_0033 plain |h, i| { h.set_x(i.rd, h.x(i.rs1).wrapping_sub(h.x(i.rs2))); }
        Sll "sll" I R 0xfe00_707f 0x0000_1033 plain |h, i| { h.set_x(i.rd, h.x(i.rs1) << (h.x(i.rs2) & 63)); }
        Slt "slt" I R 0xfe00_707f 0x0000_2033 plain |h, i| { h.set_x(i.rd, (h.s(i.rs1) < h.s(i.rs2)).into()); }
        Sltu "sltu" I R 0xfe00_707f 0x0000_3033 plain |h, i| { h.set_x(i.rd, (h.x(i.rs1) < h.x(i.rs2)).into()); }
        Xor "xor" I R 0xfe00_707f 0x0000_4033 plain |h, i| { h.set_x(i.rd, h.x(i.rs1) ^ h.x(i.rs2)); }
        Srl "srl" I R 0xfe00_707f 0x0000_5033 plain |h, i| { h.set_x(i.rd, h.x(i.rs1) >> (h.x(i.rs2) & 63)); }
        Sra "sra" I R 0xfe00_707f 0x4000_5033 plain |h, i| { h.set_x(i.rd, (h.s(i.rs1) >> (h.x(i.rs2) & 63)).cast_unsigned()); }
        Or "or" I R 0xfe00_707f 0x0000_6033 plain |h, i| { h.set_x(i.rd, h.x(i.rs1) | h.x(i.rs2)); }
        And "and" I R 0xfe00_707f 0x0000_7033 plain |h, i| { h.set_x(i.rd, h.x(i.rs1) & h.x(i.rs2)); }
        Addiw "addiw" I I 0x0000_707f 0x0000_001b plain |h, i| { h.set_w(i.rd, h.w(i.rs1).wrapping_add(i.imm)); }
        Slliw "slliw" I Shift5 0xfe00_707f 0x0000_101b plain |h, i| { h.set_w(i.rd, h.w(i.rs1) << (i.imm & 31)); }
        Srliw "srliw" I Shift5 0xfe00_707f 0x0000_501b plain |h, i| { h.set_w(i.rd, (h.w(i.rs1).cast_unsigned() >> (i.imm & 31)).cast_signed()); }
        Sraiw "sraiw" I Shift5 0xfe00_707f 0x4000_501b plain |h, i| { h.set_w(i.rd, h.w(i.rs1) >> (i.imm & 31)); }
        Addw "addw" I R 0xfe00_707f 0x0000_003b plain |h, i| { h.set_w(i.rd, h.w(i.rs1).wrapping_add(h.w(i.rs2))); }
        Subw "subw" I R 0xfe00_707f 0x4000_003b plain |h, i| { h.set_w(i.rd, h.w(i.rs1).wrapping_sub(h.w(i.rs2))); }
        Sllw "sllw" I R 0xfe00_707f 0x0000_103b plain |h, i| { h.set_w(i.rd, h.w(i.rs1) << (h.x(i.rs2) & 31)); }
        Srlw "srlw" I R 0xfe00_707f 0x0000_503b plain |h, i| { h.set_w(i.rd, (h.w(i.rs1).cast_unsigned() >> (h.x(i.rs2) & 31)).cast_signed()); }
        Sraw "sraw" I R 0xfe00_707f 0x4000_503b plain |h, i| { h.set_w(i.rd, h.w(i.rs1) >> (h.x(i.rs2) & 31)); }
        Fence "fence" I Fence 0x0000_707f 0x0000_000f plain |h, i| { h.fence(i); }
        Ecall "ecall" I None 0xffff_ffff 0x0000_0073 system |h, i| { h.ecall(i) }
        Ebreak "ebreak" I None 0xffff_ffff 0x0010_0073 system |h, i| { h.ebreak(i) }
        Mret "mret" I None 0xffff_ffff 0x3020_0073 system |h, i| { h.mret(i) }
        Sret "sret" I None 0xffff_ffff 0x1020_0073 system |h, i| { h.no_supervisor(i) }
        SfenceVma "sfence.vma" I SfenceVma 0xfe00_7fff 0x1200_0073 system |h, i| { h.no_supervisor(i) }
        Wfi "wfi" I None 0xffff_ffff 0x1050_0073 system |h, i| { h.wfi(i) }
    } } };
}
