# Fills 4,096 words with pseudo-random numbers and sorts them on a heap, `repetitions` times.
# Reaches nothing outside of its node.
        .equ    n, 4096
_start:
        la      s0, words
        li      s1, n
        la      t0, repetitions
        lw      s2, 0(t0)
        li      s3, 12345               # the seed
again:
        # Fill.
        li      t2, 1664525
        li      t3, 1013904223
        mv      t0, s0
        slli    t1, s1, 2
        add     t1, t1, s0
1:      mulw    s3, s3, t2
        addw    s3, s3, t3
        sw      s3, 0(t0)
        addi    t0, t0, 4
        bltu    t0, t1, 1b
        # Make a heap: sift down every word that has children.
        srli    s4, s1, 1
2:      addi    s4, s4, -1
        mv      a0, s4
        mv      a1, s1
        call    sift
        bnez    s4, 2b
        # Take the largest away, again and again.
        addi    s4, s1, -1
3:      slli    t0, s4, 2
        add     t0, t0, s0
        lw      t1, 0(t0)
        lw      t2, 0(s0)
        sw      t1, 0(s0)
        sw      t2, 0(t0)
        li      a0, 0
        mv      a1, s4
        call    sift
        addi    s4, s4, -1
        bnez    s4, 3b
        # Check.
        addi    t0, s1, -1
        mv      t1, s0
4:      lwu     t2, 0(t1)
        lwu     t3, 4(t1)
        bltu    t3, t2, wrong
        addi    t1, t1, 4
        addi    t0, t0, -1
        bnez    t0, 4b
        addi    s2, s2, -1
        bnez    s2, again
        li      a0, 0
        li      a7, 93
        ecall
wrong:
        li      a0, 1
        li      a7, 93
        ecall

# Lets word a0 sink to its place in the heap of the first a1 words.
sift:
        slli    a2, a0, 2
        add     a2, a2, s0
        lwu     a3, 0(a2)               # what sinks
1:      slli    a4, a0, 1
        addi    a4, a4, 1               # its first child
        bgeu    a4, a1, 3f
        slli    a5, a4, 2
        add     a5, a5, s0
        lwu     a6, 0(a5)
        addi    t0, a4, 1
        bgeu    t0, a1, 2f
        lwu     t1, 4(a5)
        bgeu    a6, t1, 2f
        mv      a4, t0                  # the second child is larger
        addi    a5, a5, 4
        mv      a6, t1
2:      bgeu    a3, a6, 3f
        sw      a6, 0(a2)
        mv      a2, a5
        mv      a0, a4
        j       1b
3:      sw      a3, 0(a2)
        ret

        .data
        .balign 4096                    # so that pages hold either instructions or data
repetitions:
        .word   10
        .balign 64
words:
        .zero   4 * n
