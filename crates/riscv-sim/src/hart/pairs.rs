//! Instructions that often follow one another and are run as one: the interpreter then goes to two
//! meanings with one jump.
//!
//! A pair is a name, and the kinds and names of its two rows. The first never ends its block. Which
//! pairs are worth it was counted on compiled guests: sorting, checksums, sieves, matrices, lists,
//! recursion.

macro_rules! pairs {
    ($callback:ident { $($rows:tt)* }) => { $callback! { { $($rows)* } {
        SlliAdd: plain Slli, plain Add;
        SlliSrli: plain Slli, plain Srli;
        SlliXor: plain Slli, plain Xor;
        SrliAdd: plain Srli, plain Add;
        SrliXor: plain Srli, plain Xor;
        SlliwSrli: plain Slliw, plain Srli;
        XorSrli: plain Xor, plain Srli;
        XorAndi: plain Xor, plain Andi;
        AndiSlli: plain Andi, plain Slli;
        AndiBne: plain Andi, branch Bne;
        AndiBeq: plain Andi, branch Beq;
        AddiAddi: plain Addi, plain Addi;
        AddiAddiw: plain Addi, plain Addiw;
        AddiSlli: plain Addi, plain Slli;
        AddiBne: plain Addi, branch Bne;
        AddiBeq: plain Addi, branch Beq;
        AddiBlt: plain Addi, branch Blt;
        AddiBge: plain Addi, branch Bge;
        AddiBltu: plain Addi, branch Bltu;
        AddiBgeu: plain Addi, branch Bgeu;
        AddiJal: plain Addi, direct Jal;
        AddiJalr: plain Addi, indirect Jalr;
        AddiwAdd: plain Addiw, plain Add;
        AddiwAddi: plain Addiw, plain Addi;
        AddiwSlli: plain Addiw, plain Slli;
        AddiwBne: plain Addiw, branch Bne;
        AddAdd: plain Add, plain Add;
        AddAddi: plain Add, plain Addi;
        AddLw: plain Add, fallible Lw;
        AddLwu: plain Add, fallible Lwu;
        AddLd: plain Add, fallible Ld;
        AddLbu: plain Add, fallible Lbu;
        AddSd: plain Add, fallible Sd;
        AddSw: plain Add, fallible Sw;
        AddBne: plain Add, branch Bne;
        AddBltu: plain Add, branch Bltu;
        AddBge: plain Add, branch Bge;
        AddwAdd: plain Addw, plain Add;
        MulAdd: plain Mul, plain Add;
        LuiAddi: plain Lui, plain Addi;
        LuiAddiw: plain Lui, plain Addiw;
        AuipcAddi: plain Auipc, plain Addi;
        AuipcJalr: plain Auipc, indirect Jalr;
        LwAdd: fallible Lw, plain Add;
        LwAddi: fallible Lw, plain Addi;
        LwLw: fallible Lw, fallible Lw;
        LwBgeu: fallible Lw, branch Bgeu;
        LwBlt: fallible Lw, branch Blt;
        LwuBgeu: fallible Lwu, branch Bgeu;
        LwuAddi: fallible Lwu, plain Addi;
        LdAddi: fallible Ld, plain Addi;
        LdAdd: fallible Ld, plain Add;
        LdLd: fallible Ld, fallible Ld;
        LdBne: fallible Ld, branch Bne;
        LbuBeq: fallible Lbu, branch Beq;
        LbuBne: fallible Lbu, branch Bne;
        SbAddi: fallible Sb, plain Addi;
        SbAdd: fallible Sb, plain Add;
        SbAddw: fallible Sb, plain Addw;
        SdAddi: fallible Sd, plain Addi;
        SdAddiw: fallible Sd, plain Addiw;
        SdSd: fallible Sd, fallible Sd;
        SwAddi: fallible Sw, plain Addi;
        SwSlli: fallible Sw, plain Slli;
        SwSrli: fallible Sw, plain Srli;
    } } };
}
