# The software path where the target's host core executes the operation in a handler, which it
# enters whenever it waits itself. The network carries words, so a message is its operands and then,
# in the same line, a header with operation, address and number; the answer is a value and then the
# number.
# In: the operation in a4, all else as `amo` lines have it.
software:
        mv      gp, ra
        la      t0, posted_count
        ld      sp, 0(t0)
        addi    sp, sp, 1
        sd      sp, 0(t0)
        la      t2, descriptors
        sd      a4, 0(t2)
        sd      a3, 8(t2)
        sd      a0, 16(t2)
        sd      a1, 24(t2)
        sd      a2, 32(t2)
        pad
        slli    t1, sp, 40
        slli    t3, a4, 36
        or      t1, t1, t3
        or      t1, t1, a0
        la      t4, inbox
        slli    t5, s0, 6
        add     t4, t4, t5
        eaddie  e29, a3, 0
        esd     a1, 8(t4)
        esd     a2, 16(t4)
        fence
        esd     t1, 0(t4)
posted: la      t4, answer
        ld      t5, 8(t4)
        beq     t5, sp, 1f
        call    progress
        j       posted
1:      ld      a0, 0(t4)
        mv      ra, gp
        ret
path_end:

progress:
        la      t0, inbox
        la      t2, seen
        li      t1, 0
1:      ld      t3, 0(t0)
        ld      t4, 0(t2)
        beq     t3, t4, 9f
        sd      t3, 0(t2)
        slli    a0, t3, 28
        srli    a0, a0, 28
        srli    a4, t3, 36
        andi    a4, a4, 15
        srli    a5, t3, 40
        ld      a1, 8(t0)
        beqz    a4, 2f
        addi    a4, a4, -1
        beqz    a4, 3f
        addi    a4, a4, -1
        beqz    a4, 4f
        addi    a4, a4, -1
        beqz    a4, 5f
        sd      a1, 0(a0)
        j       6f
2:      amoadd.d a0, a1, (a0)
        j       6f
3:      amomin.d a0, a1, (a0)
        j       6f
4:      ld      a2, 16(t0)
        mv      t5, a0
7:      lr.d    a0, (t5)
        bne     a0, a1, 6f
        sc.d    t6, a2, (t5)
        bnez    t6, 7b
        j       6f
5:      ld      a0, 0(a0)
6:      la      a6, answer
        addi    a7, t1, 1
        eaddie  e16, a7, 0
        esd     a0, 0(a6)
        fence
        esd     a5, 8(a6)
9:      addi    t0, t0, 64
        addi    t2, t2, 8
        addi    t1, t1, 1
        bltu    t1, s1, 1b
        ret
second_core:
        j       second_core

        .data
        .balign 64
posted_count:
        .dword  0
        .balign 64
descriptors:
        .space  64
answer: .dword  0, 0
        .balign 64
inbox:  .space  65536
seen:   .space  8192
        .text
