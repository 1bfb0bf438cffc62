# The software path of an initiator whose NIC does atomics: a descriptor, a doorbell, a completion.
# The NIC's own processor is the node's second core, which runs what is below `second_core`; at the
# target the NIC's hardware executes the operation.
# In: the operation in a4, all else as `amo` lines have it.
software:
        la      t0, posted_count
        ld      t1, 0(t0)
        addi    t1, t1, 1
        sd      t1, 0(t0)
        andi    t2, t1, 15
        slli    t2, t2, 6
        la      t3, descriptors
        add     t2, t2, t3
        sd      a4, 0(t2)
        sd      a3, 8(t2)
        sd      a0, 16(t2)
        sd      a1, 24(t2)
        sd      a2, 32(t2)
        la      t4, completions
        andi    t5, t1, 15
        slli    t5, t5, 6
        add     t4, t4, t5
        pad
        fence
        la      t3, doorbell
        sd      t1, 0(t3)
posted: ld      t5, 8(t4)
        bne     t5, t1, posted
        ld      a0, 0(t4)
        ret
path_end:

second_core:
        li      s2, 0
        la      s3, doorbell
1:      ld      t1, 0(s3)
        bgeu    s2, t1, 1b
        addi    s2, s2, 1
        andi    t2, s2, 15
        slli    t2, t2, 6
        la      t3, descriptors
        add     t3, t3, t2
        la      t4, completions
        add     t4, t4, t2
        ld      a4, 0(t3)
        ld      a3, 8(t3)
        ld      a0, 16(t3)
        ld      a1, 24(t3)
        eaddie  e10, a3, 0
        beqz    a4, 2f
        addi    a4, a4, -1
        beqz    a4, 3f
        addi    a4, a4, -1
        beqz    a4, 4f
        addi    a4, a4, -1
        beqz    a4, 5f
        esd     a1, 0(a0)
        fence
        j       6f
2:      eamoadd.d a0, a0, a1
        j       6f
3:      eamomin.d a0, a0, a1
        j       6f
4:      ld      a2, 32(t3)
        eamocas.d a1, a0, a2
        mv      a0, a1
        j       6f
5:      eld     a0, 0(a0)
6:      sd      a0, 0(t4)
        sd      s2, 8(t4)
        j       1b

        .data
        .balign 64
posted_count:
        .dword  0
        .balign 64
doorbell:
        .dword  0
        .balign 64
descriptors:
        .space  1024
completions:
        .space  1024
        .text
