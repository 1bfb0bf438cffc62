# a[b[i]] = c[i]: objects and addresses come from the host; object 0 stands for this node, whose
# memory is then written as it is.
kernel: la      t0, params
        ld      s2, 0(t0)               # how many
        ld      s3, 8(t0)               # object and place
        ld      s4, 16(t0)              # the values
        ld      s5, 24(t0)              # the array
1:      beqz    s2, 2f
        ld      t0, 0(s3)
        srli    t1, t0, 32
        slli    t2, t0, 32
        srli    t2, t2, 32
        add     t2, t2, s5
        ld      t3, 0(s4)
        eaddie  e7, t1, 0
        esd     t3, 0(t2)
        addi    s2, s2, -1
        addi    s3, s3, 8
        addi    s4, s4, 8
        j       1b
2:      ret
