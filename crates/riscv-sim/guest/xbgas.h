/* The remote instructions of xBGAS and RAE for compilers that do not know them.
 *
 * Each function names a node by its number; the object that stands for node `pe` is `pe + 1`, and 0
 * would be the own node. The extended register of an address has the number of the register that
 * holds the address, so both are pinned to a0 and e10.
 * Compile with -DXBGAS2 for specification 2.0.0 and the later atomics (`rae --profile xbgas2`). */
#ifndef XBGAS_H
#define XBGAS_H

#ifdef XBGAS2
#define XB_SET_OBJECT ".insn i 0x7b, 5, x10, %[pe], 1\n\t"
#else
#define XB_SET_OBJECT ".insn i 0x7b, 7, x10, %[pe], 1\n\t"
#endif

typedef unsigned char xb_u8;
typedef unsigned short xb_u16;
typedef unsigned int xb_u32;
typedef unsigned long xb_u64;

#define XB_LOAD(name, type, funct3)                                                                \
    static inline type name(long pe, const volatile void *address)                                 \
    {                                                                                              \
        register const volatile void *a0 __asm__("a0") = address;                                  \
        type value;                                                                                \
        __asm__ volatile(XB_SET_OBJECT ".insn i 0x77, " #funct3 ", %[value], 0(%[at])"             \
                         : [value] "=r"(value)                                                     \
                         : [at] "r"(a0), [pe] "r"(pe)                                              \
                         : "memory");                                                              \
        return value;                                                                              \
    }

#define XB_STORE(name, type, funct3)                                                               \
    static inline void name(long pe, volatile void *address, type value)                           \
    {                                                                                              \
        register volatile void *a0 __asm__("a0") = address;                                        \
        __asm__ volatile(XB_SET_OBJECT ".insn s 0x7b, " #funct3 ", %[value], 0(%[at])"             \
                         :                                                                         \
                         : [at] "r"(a0), [pe] "r"(pe), [value] "r"(value)                          \
                         : "memory");                                                              \
    }

/* One atomic: gives the old value. In both generations rd, rs1 (the address) and rs2 (the operand)
   lie where R-type has them. */
#define XB_ATOMIC(name, type, funct3, funct7)                                                      \
    static inline type name(long pe, volatile void *address, type operand)                         \
    {                                                                                              \
        register volatile void *a0 __asm__("a0") = address;                                        \
        type old;                                                                                  \
        __asm__ volatile(XB_SET_OBJECT                                                             \
                         ".insn r 0x6b, " #funct3 ", " #funct7 ", %[old], %[at], %[operand]"       \
                         : [old] "=r"(old)                                                         \
                         : [at] "r"(a0), [pe] "r"(pe), [operand] "r"(operand)                      \
                         : "memory");                                                              \
        return old;                                                                                \
    }

XB_LOAD(xb_load_u8, xb_u8, 4)
XB_LOAD(xb_load_u16, xb_u16, 5)
XB_LOAD(xb_load_i32, int, 2)
XB_LOAD(xb_load_u64, xb_u64, 3)
XB_STORE(xb_store_u8, xb_u8, 0)
XB_STORE(xb_store_u16, xb_u16, 1)
XB_STORE(xb_store_u32, xb_u32, 2)
XB_STORE(xb_store_u64, xb_u64, 3)

#ifdef XBGAS2
XB_ATOMIC(xb_fetch_add32, int, 2, 0x00)
XB_ATOMIC(xb_fetch_add, long, 3, 0x00)
XB_ATOMIC(xb_fetch_xor, long, 3, 0x10)
XB_ATOMIC(xb_fetch_and, long, 3, 0x30)
XB_ATOMIC(xb_fetch_or, long, 3, 0x20)
XB_ATOMIC(xb_fetch_min, long, 3, 0x40)
XB_ATOMIC(xb_fetch_max, long, 3, 0x50)
XB_ATOMIC(xb_swap, long, 3, 0x04)
XB_ATOMIC(xb_fetch_minu, xb_u64, 3, 0x60)
XB_ATOMIC(xb_fetch_maxu, xb_u64, 3, 0x70)
#else
XB_ATOMIC(xb_fetch_add32, int, 6, 7)
XB_ATOMIC(xb_fetch_add, long, 7, 7)
XB_ATOMIC(xb_fetch_xor, long, 7, 1)
XB_ATOMIC(xb_fetch_and, long, 7, 2)
XB_ATOMIC(xb_fetch_or, long, 7, 3)
XB_ATOMIC(xb_fetch_min, long, 7, 4)
XB_ATOMIC(xb_fetch_max, long, 7, 5)
#endif

/* Compare and swap whose new value is the own word at the same address; gives the old value. */
XB_ATOMIC(xb_compare_swap_local, long, 7, 6)

/* What the node does between these two is counted apart (`rae run --stats`). */
static inline void xb_region_begin(void) { __asm__ volatile("csrwi 0x800, 1" ::: "memory"); }
static inline void xb_region_end(void) { __asm__ volatile("csrwi 0x800, 0" ::: "memory"); }

/* The counters of the core. */
static inline xb_u64 xb_cycles(void)
{
    xb_u64 count;
    __asm__ volatile("rdcycle %0" : "=r"(count));
    return count;
}

static inline xb_u64 xb_instructions(void)
{
    xb_u64 count;
    __asm__ volatile("rdinstret %0" : "=r"(count));
    return count;
}

#endif
