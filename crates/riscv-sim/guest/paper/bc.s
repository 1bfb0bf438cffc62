# Betweenness of one source (Brandes): shortest paths are counted level by level; then each level,
# the last one first, hands (1 + delta) / sigma to the vertices before it, a number of 20 bits
# behind the point.
kernel: la      t0, kernel_return
        sd      ra, 0(t0)
        la      t0, params
        ld      s2, 0(t0)               # vertices here
        ld      s3, 8(t0)               # their levels, -1 if not reached
        ld      s4, 16(t0)              # where their edges begin
        ld      s6, 24(t0)              # sigma
        li      s5, 0                   # the level
round:  li      s7, 0
        li      s10, 0
vertex: bgeu    s7, s2, over
        slli    t0, s7, 3
        add     t1, t0, s3
        ld      t1, 0(t1)
        bne     t1, s5, next
        add     t1, t0, s6
        ld      s11, 0(t1)
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
        addi    a2, s5, 1
        amo.cas
        li      t0, -1
        bne     a0, t0, 1f
        addi    s10, s10, 1
        j       2f
1:      addi    t0, s5, 1
        bne     a0, t0, 3f
2:      ld      t0, 0(s8)
        srli    a3, t0, 32
        slli    a0, t0, 32
        srli    a0, a0, 32
        add     a0, a0, s6
        mv      a1, s11
        amo.add
3:      addi    s8, s8, 8
        j       edge
next:   addi    s7, s7, 1
        j       vertex
over:   mv      a1, s10
        call    agree
        addi    s5, s5, 1
        bnez    a0, round

        la      t0, params
        ld      s6, 32(t0)              # what came back, and then delta
back:   addi    s5, s5, -1
        blez    s5, done
        li      s7, 0
vback:  bgeu    s7, s2, oback
        slli    t0, s7, 3
        add     t1, t0, s3
        ld      t1, 0(t1)
        bne     t1, s5, nback
        la      t2, params
        ld      t2, 24(t2)
        add     t2, t2, t0
        ld      t2, 0(t2)
        add     t3, t0, s6
        ld      t4, 0(t3)
        mul     t4, t4, t2
        sd      t4, 0(t3)
        li      t5, 0x100000
        add     t4, t4, t5
        divu    s11, t4, t2
        add     t0, t0, s4
        ld      s8, 0(t0)
        ld      s9, 8(t0)
eback:  bgeu    s8, s9, nback
        ld      t0, 0(s8)
        srli    a3, t0, 32
        slli    a0, t0, 32
        srli    a0, a0, 32
        add     a0, a0, s3
        amo.get
        addi    t1, s5, -1
        bne     a0, t1, 1f
        ld      t0, 0(s8)
        srli    a3, t0, 32
        slli    a0, t0, 32
        srli    a0, a0, 32
        add     a0, a0, s6
        mv      a1, s11
        amo.add
1:      addi    s8, s8, 8
        j       eback
nback:  addi    s7, s7, 1
        j       vback
oback:  call    barrier
        j       back
done:   la      t0, kernel_return
        ld      ra, 0(t0)
        ret
