# Triangles: edges lead to smaller vertices alone and are sorted; the lists of two neighbours are
# merged, the other one's read over the network.
kernel: la      t0, kernel_return
        sd      ra, 0(t0)
        la      t0, params
        ld      s2, 0(t0)               # vertices here
        ld      s4, 16(t0)              # where their edges begin
        li      s6, 0                   # triangles
        li      s7, 0
vertex: bgeu    s7, s2, over
        slli    t0, s7, 3
        add     t0, t0, s4
        ld      s8, 0(t0)
        ld      s9, 8(t0)
edge:   bgeu    s8, s9, next
        ld      t0, 0(s8)
        srli    s10, t0, 32
        slli    s11, t0, 32
        srli    s11, s11, 32
        add     s11, s11, s4
        mv      a3, s10
        mv      a0, s11
        amo.get
        mv      s3, a0
        mv      a3, s10
        addi    a0, s11, 8
        amo.get
        mv      s11, a0
        slli    t0, s7, 3
        add     t0, t0, s4
        ld      s5, 0(t0)
merge:  bgeu    s3, s11, merged
        mv      a3, s10
        mv      a0, s3
        amo.get
        addi    s3, s3, 8
1:      bgeu    s5, s9, merged
        ld      t0, 0(s5)
        bgeu    t0, a0, 2f
        addi    s5, s5, 8
        j       1b
2:      bne     t0, a0, merge
        addi    s6, s6, 1
        j       merge
merged: addi    s8, s8, 8
        j       edge
next:   addi    s7, s7, 1
        j       vertex
over:   li      a3, 1
        la      a0, outcome
        mv      a1, s6
        amo.add
        la      t0, kernel_return
        ld      ra, 0(t0)
        ret
