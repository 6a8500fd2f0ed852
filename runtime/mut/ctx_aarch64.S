/* ctx_aarch64.S: context switch for aarch64, AAPCS64.
 *
 * A suspended stack, from its sp upwards (176 bytes, 16-aligned):
 *     +0 fpcr, padding   +16 d8..d15 (64)   +80 x19..x28 (80)   +160 x29, x30
 * See ctx_x86_64.S for the contract.
 */
#if defined(__aarch64__)
    .text

    .macro SAVE
    sub sp, sp, #176
    .cfi_adjust_cfa_offset 176
    stp x29, x30, [sp, #160]
    .cfi_rel_offset x29, 160
    .cfi_rel_offset x30, 168
    stp x27, x28, [sp, #144]
    .cfi_rel_offset x27, 144
    .cfi_rel_offset x28, 152
    stp x25, x26, [sp, #128]
    .cfi_rel_offset x25, 128
    .cfi_rel_offset x26, 136
    stp x23, x24, [sp, #112]
    .cfi_rel_offset x23, 112
    .cfi_rel_offset x24, 120
    stp x21, x22, [sp, #96]
    .cfi_rel_offset x21, 96
    .cfi_rel_offset x22, 104
    stp x19, x20, [sp, #80]
    .cfi_rel_offset x19, 80
    .cfi_rel_offset x20, 88
    stp d14, d15, [sp, #64]
    stp d12, d13, [sp, #48]
    stp d10, d11, [sp, #32]
    stp d8, d9, [sp, #16]
    mrs x9, fpcr
    str x9, [sp]
    .endm

    .macro LOAD
    ldp d8, d9, [sp, #16]
    ldp d10, d11, [sp, #32]
    ldp d12, d13, [sp, #48]
    ldp d14, d15, [sp, #64]
    ldp x19, x20, [sp, #80]
    ldp x21, x22, [sp, #96]
    ldp x23, x24, [sp, #112]
    ldp x25, x26, [sp, #128]
    ldp x27, x28, [sp, #144]
    ldp x29, x30, [sp, #160]
    add sp, sp, #176
    .endm

    .globl hg__ctx_call
    .hidden hg__ctx_call
    .type hg__ctx_call, %function
    .p2align 4
hg__ctx_call:
    .cfi_startproc
    SAVE
    mov x9, sp
    str x9, [x0]
    mov x19, sp
    .cfi_def_cfa x19, 176
    mov sp, x1
    mov x9, x2
    mov x0, x3
    mov x1, x4
    blr x9
    mov sp, x19
    .cfi_def_cfa sp, 176
    LOAD
    .cfi_def_cfa sp, 0
    ret
    .cfi_endproc
    .size hg__ctx_call, . - hg__ctx_call

    .globl hg__ctx_resume
    .hidden hg__ctx_resume
    .type hg__ctx_resume, %function
    .p2align 4
hg__ctx_resume:
    .cfi_startproc
    mov sp, x0
    .cfi_def_cfa sp, 176
    ldr x9, [sp]
    mrs x10, fpcr
    cmp x9, x10
    b.eq 1f
    msr fpcr, x9
1:  mov x0, x1
    LOAD
    .cfi_def_cfa sp, 0
    ret
    .cfi_endproc
    .size hg__ctx_resume, . - hg__ctx_resume

/* First code on a fresh stack: x19 = argument, x20 = entry. */
    .globl hg__ctx_entry
    .hidden hg__ctx_entry
    .type hg__ctx_entry, %function
    .p2align 4
hg__ctx_entry:
    .cfi_startproc
    .cfi_undefined x30
    mov x29, #0
    mov x30, #0
    mov x0, x19
    blr x20
    brk #1
    .cfi_endproc
    .size hg__ctx_entry, . - hg__ctx_entry
#endif
    .section .note.GNU-stack, "", %progbits
