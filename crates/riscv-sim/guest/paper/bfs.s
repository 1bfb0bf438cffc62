# Breadth-first search, a level a round: whoever is reached first is marked by a compare-and-swap.
kernel: la      t0, kernel_return
        sd      ra, 0(t0)
        la      t0, params
        ld      s2, 0(t0)               # vertices here
        ld      s3, 8(t0)               # their levels, -1 if not reached
        ld      s4, 16(t0)              # where their edges begin
        li      s6, 0                   # the level
round:  li      s7, 0
        li      s10, 0
vertex: bgeu    s7, s2, over
        slli    t0, s7, 3
        add     t1, t0, s3
        ld      t1, 0(t1)
        bne     t1, s6, next
        add     t0, t0, s4
        ld      s8, 0(t0)
        ld      s9, 8(t0)
edge:   bgeu    s8, s9, next
        ld      t0, 0(s8)
        srli    a3, t0, 32
        slli    a0, t0, 32
        srli    a0, a0, 32
        add     a0, a0, s3
        li      a1, -1
        addi    a2, s6, 1
        amo.cas
        addi    s8, s8, 8
        li      t0, -1
        bne     a0, t0, edge
        addi    s10, s10, 1
        j       edge
next:   addi    s7, s7, 1
        j       vertex
over:   mv      a1, s10
        call    agree
        addi    s6, s6, 1
        bnez    a0, round
        la      t0, kernel_return
        ld      ra, 0(t0)
        ret
