# Additions whose results nobody needs: objects and places come from the host. Register 0 takes the
# result, so that the core goes on while as many operations are under way as it may have.
kernel: la      t0, params
        ld      s2, 0(t0)               # how many
        ld      s3, 8(t0)               # object and place
        ld      s4, 16(t0)              # the array
        li      a1, 1
1:      beqz    s2, 2f
        ld      t0, 0(s3)
        srli    t1, t0, 32
        slli    a0, t0, 32
        srli    a0, a0, 32
        add     a0, a0, s4
        eaddie  e10, t1, 0
        eamoadd.d zero, a0, a1
        addi    s2, s2, -1
        addi    s3, s3, 8
        j       1b
2:      fence
        ret
