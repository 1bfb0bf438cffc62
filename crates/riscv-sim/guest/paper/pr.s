# PageRank that pushes: each vertex adds its share, a number of 32 bits behind the point, to its
# neighbours.
kernel: la      t0, kernel_return
        sd      ra, 0(t0)
        la      t0, params
        ld      s2, 0(t0)               # vertices here
        ld      s3, 8(t0)               # their scores
        ld      s4, 16(t0)              # where their edges begin
        ld      s10, 24(t0)             # rounds
        ld      s6, 32(t0)              # what they get in this round
round:  li      s7, 0
vertex: bgeu    s7, s2, over
        slli    t0, s7, 3
        add     t1, t0, s4
        ld      s8, 0(t1)
        ld      s9, 8(t1)
        bgeu    s8, s9, next
        sub     t2, s9, s8
        srli    t2, t2, 3
        add     t1, t0, s3
        ld      t1, 0(t1)
        divu    s11, t1, t2
edge:   ld      t0, 0(s8)
        srli    a3, t0, 32
        slli    a0, t0, 32
        srli    a0, a0, 32
        add     a0, a0, s6
        mv      a1, s11
        amo.add
        addi    s8, s8, 8
        bltu    s8, s9, edge
next:   addi    s7, s7, 1
        j       vertex
over:   call    barrier
        li      s7, 0
        li      t3, 217                 # 0.85, of 256
        li      t4, 39
        slli    t4, t4, 24
1:      bgeu    s7, s2, 2f
        slli    t0, s7, 3
        add     t1, t0, s6
        ld      t2, 0(t1)
        sd      zero, 0(t1)
        mul     t2, t2, t3
        srli    t2, t2, 8
        add     t2, t2, t4
        add     t1, t0, s3
        sd      t2, 0(t1)
        addi    s7, s7, 1
        j       1b
2:      call    barrier
        addi    s10, s10, -1
        bnez    s10, round
        la      t0, kernel_return
        ld      ra, 0(t0)
        ret
