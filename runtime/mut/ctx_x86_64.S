/* ctx_x86_64.S: context switch for x86-64, System V ABI.
 *
 * A suspended stack, from its sp upwards:
 *     +0  mxcsr (4 bytes), x87 control word (2), padding (2)
 *     +8  r15  +16 r14  +24 r13  +32 r12  +40 rbx  +48 rbp  +56 return address
 * Only what the ABI says a callee preserves is kept; everything that can hold a reference is on the
 * stack before any scan looks at it. CFI lets debuggers and unwinders walk from the scheduler stack
 * into the task that called.
 */
#if defined(__x86_64__)
    .text

    .macro SAVE
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    pushq %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r12, 0
    pushq %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r13, 0
    pushq %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r14, 0
    pushq %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r15, 0
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    .endm

    .macro RESTORE
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r15
    popq %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r14
    popq %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r13
    popq %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r12
    popq %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbx
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbp
    ret
    .endm

/* void *hg__ctx_call(uintptr_t *sp, uintptr_t to, hg_ctx_fn fn, void *a, void *b) */
    .globl hg__ctx_call
    .hidden hg__ctx_call
    .type hg__ctx_call, @function
    .p2align 4
hg__ctx_call:
    .cfi_startproc
    SAVE
    movq %rsp, (%rdi)
    movq %rsp, %rbx
    .cfi_def_cfa %rbx, 64
    movq %rsi, %rsp
    movq %rcx, %rdi
    movq %r8, %rsi
    call *%rdx
    movq %rbx, %rsp
    .cfi_def_cfa %rsp, 64
    RESTORE
    .cfi_endproc
    .size hg__ctx_call, . - hg__ctx_call

/* _Noreturn void hg__ctx_resume(uintptr_t sp, void *value) */
    .globl hg__ctx_resume
    .hidden hg__ctx_resume
    .type hg__ctx_resume, @function
    .p2align 4
hg__ctx_resume:
    .cfi_startproc
    movq %rdi, %rsp
    .cfi_def_cfa %rsp, 64
    .cfi_offset %rbp, -16
    .cfi_offset %rbx, -24
    .cfi_offset %r12, -32
    .cfi_offset %r13, -40
    .cfi_offset %r14, -48
    .cfi_offset %r15, -56
    ldmxcsr (%rsp)              /* loading is cheaper than reading the present ones to compare */
    fldcw 4(%rsp)
    movq %rsi, %rax
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %r15
    .cfi_adjust_cfa_offset -8
    popq %r14
    .cfi_adjust_cfa_offset -8
    popq %r13
    .cfi_adjust_cfa_offset -8
    popq %r12
    .cfi_adjust_cfa_offset -8
    popq %rbx
    .cfi_adjust_cfa_offset -8
    popq %rbp
    .cfi_adjust_cfa_offset -8
    popq %rcx                   /* a jump: a return would miss the return predictor */
    .cfi_adjust_cfa_offset -8
    jmpq *%rcx
    .cfi_adjust_cfa_offset 64
    .cfi_endproc
    .size hg__ctx_resume, . - hg__ctx_resume

/* First code on a fresh stack: r12 = argument, r13 = entry. The chain of frames ends here. */
    .globl hg__ctx_entry
    .hidden hg__ctx_entry
    .type hg__ctx_entry, @function
    .p2align 4
hg__ctx_entry:
    .cfi_startproc
    .cfi_undefined %rip
    xorl %ebp, %ebp
    movq %r12, %rdi
    call *%r13
    ud2
    .cfi_endproc
    .size hg__ctx_entry, . - hg__ctx_entry
#endif
    .section .note.GNU-stack, "", @progbits
