# What every workload of the paper begins with: a barrier, the measured part, a barrier, and the
# results.
#
# A line `amo.add`, `amo.min`, `amo.cas`, `amo.get` or `amo.put` stands for one operation: the
# object in a3, the address in a0, the operand (or what to expect) in a1, the new value of a
# compare-and-swap in a2. The old value comes in a0; registers a and t are lost, s0 (this node) and
# s1 (how many there are) are not. What such a line becomes is the variant's matter.
_start: csrr    t0, mhartid
        bnez    t0, second_core
        eaddi   s0, e10, 0
        eaddi   s1, e11, 0
        call    barrier
        csrwi   0x800, 1
        la      t0, began
        rdinstret t1
        sd      t1, 0(t0)
        rdcycle t1
        sd      t1, 8(t0)
        call    kernel
        call    barrier
        la      t0, began
        rdcycle t1
        ld      t2, 8(t0)
        sub     t1, t1, t2
        sd      t1, 8(t0)
        rdinstret t1
        ld      t2, 0(t0)
        sub     t1, t1, t2
        sd      t1, 0(t0)
        csrwi   0x800, 0
        li      a0, 0
        li      a7, 93
        ecall

# All nodes have come here, and what they did before is done. Arrivals are counted at node 0 by an
# atomic of the variant. The last one lets node 0 go by a store, and each node two more, whatever the
# variant: so many nodes go on within few round trips. Loses registers a and t.
#
# On a machine of 256 nodes or more, where some come long before the last, a line `rest` stands for a
# pause after 4,096 looks: a wait of 25,000 cycles then ends up to 200 later.
barrier:
        la      t0, barrier_return
        sd      ra, 0(t0)
        fence
        la      t0, epoch
        ld      t1, 0(t0)
        addi    t1, t1, 1
        sd      t1, 0(t0)
        li      a3, 1
        la      a0, arrived
        li      a1, 1
        amo.add
        la      t0, epoch
        ld      t1, 0(t0)
        mul     t2, t1, s1
        addi    t2, t2, -1
        bne     a0, t2, 2f
        la      t3, released
        li      t4, 1
        eaddie  e28, t4, 0
        esd     t1, 0(t3)
2:      li      t5, 256
        bgeu    s1, t5, many
few:
        serve
        la      t0, epoch
        ld      t1, 0(t0)
        la      t3, released
        ld      t2, 0(t3)
        bltu    t2, t1, few
        j       go
many:   li      t5, 4096
4:
        serve
        la      t0, epoch
        ld      t1, 0(t0)
        la      t3, released
        ld      t2, 0(t3)
        bgeu    t2, t1, go
        rest
        j       4b
go:     slli    t4, s0, 1
        addi    t4, t4, 2
        bgtu    t4, s1, 3f
        eaddie  e28, t4, 0
        esd     t1, 0(t3)
        addi    t4, t4, 1
        bgtu    t4, s1, 3f
        eaddie  e28, t4, 0
        esd     t1, 0(t3)
3:      la      t0, barrier_return
        ld      ra, 0(t0)
        ret

# The sum of a1 over all nodes, in a0; a barrier. Two sums take turns, so that nobody adds to one
# that others still read.
agree:  la      t0, agree_return
        sd      ra, 0(t0)
        la      t0, turn
        ld      t1, 0(t0)
        xori    t1, t1, 8
        sd      t1, 0(t0)
        li      a3, 1
        la      a0, sums
        add     a0, a0, t1
        amo.add
        call    barrier
        la      t0, turn
        ld      t1, 0(t0)
        li      a3, 1
        la      a0, sums
        add     a0, a0, t1
        amo.get
        la      t0, turn
        ld      t1, 0(t0)
        la      t0, sums_before
        add     t0, t0, t1
        ld      t1, 0(t0)
        sd      a0, 0(t0)
        sub     a0, a0, t1
        la      t0, agree_return
        ld      ra, 0(t0)
        ret

        .data
        .balign 64
arrived:
        .dword  0
        .balign 64
released:
        .dword  0
        .balign 64
sums:   .dword  0, 0
outcome:
        .dword  0
        .balign 64
began:  .dword  0, 0
epoch:  .dword  0
turn:   .dword  0
sums_before:
        .dword  0, 0
barrier_return:
        .dword  0
agree_return:
        .dword  0
kernel_return:
        .dword  0
        .balign 64
params: .space  64
        .text
