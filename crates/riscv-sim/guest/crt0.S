# Start of a guest in C: the stack, floating point, the zeroed section, then main, whose result is
# the node's code.
    .section .text.start, "ax"
    .globl _start
_start:
    # Only the first core of a node runs main.
    csrr    t0, mhartid
    bnez    t0, park
    la      sp, __stack_top
    li      t0, 0x2000
    csrs    mstatus, t0
    la      t0, __bss_start
    la      t1, __bss_end
    bgeu    t0, t1, 2f
1:  sd      zero, 0(t0)
    addi    t0, t0, 8
    bltu    t0, t1, 1b
    # At reset e10 is the number of the node and e11 how many there are: eaddi a0, e10, 0 and eaddi
    # a1, e11, 0.
2:  .insn i 0x7b, 6, a0, a0, 0
    .insn i 0x7b, 6, a1, a1, 0
    call    xbrt_start
    call    main
    call    exit
park:
    wfi
    j       park

    .section .tohost, "aw", @progbits
    .balign 64
    .globl tohost
tohost:
    .dword 0
    .balign 64
    .globl fromhost
fromhost:
    .dword 0
