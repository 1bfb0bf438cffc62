# Every node adds 1 to a word of node 0, `repetitions` times; node 0 waits for the sum and checks
# it.
_start:
        eaddi   s0, e10, 0              # this node
        eaddi   s1, e11, 0              # how many there are
        la      t0, repetitions
        ld      s2, 0(t0)
        li      t0, 1                   # the object that stands for node 0
        eaddie  e10, t0, 0
        la      a0, word
        li      a1, 1
        mv      t0, s2
1:      eamoadd.d t1, a0, a1
        addi    t0, t0, -1
        bnez    t0, 1b
        bnez    s0, end
        mul     s3, s1, s2
2:      ld      t1, 0(a0)
        bne     t1, s3, 2b
end:
        li      a0, 0
        li      a7, 93
        ecall

        .data
        .balign 64
repetitions:
        .dword  1000
        .balign 64
word:
        .dword  0
