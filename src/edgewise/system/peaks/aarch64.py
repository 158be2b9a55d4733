"""Kernels for AArch64. Encodings are checked against an assembler; they have not yet run on such a processor.

`code` is `assembly` as llvm-mc makes it; a test assembles the text again and compares, where there is an assembler. The
first arguments of a function arrive in x0 to x3; v8 to v15 belong to the caller, so they are left alone.
"""

from __future__ import annotations

from .kernel import BRAIN, BYTES, FLOAT, HALF, Kernel

KERNELS = (
    Kernel(
        "fp32",
        "asimd",
        "fmla 4s",
        184,
        r"""
    ld1r {v31.4s}, [x1]
.irp r,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    movi v\r\().2d, #0
.endr
1:
.irp r,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    fmla v\r\().4s, v31.4s, v31.4s
.endr
    subs x0, x0, #1
    b.ne 1b
    ret
""",
        "3fc8404d00e4006f01e4006f02e4006f03e4006f04e4006f05e4006f06e4006f07e4006f10e4006f11e4006f12e4006f"
        "13e4006f14e4006f15e4006f16e4006f17e4006f18e4006f19e4006f1ae4006f1be4006f1ce4006f1de4006f1ee4006f"
        "e0cf3f4ee1cf3f4ee2cf3f4ee3cf3f4ee4cf3f4ee5cf3f4ee6cf3f4ee7cf3f4ef0cf3f4ef1cf3f4ef2cf3f4ef3cf3f4e"
        "f4cf3f4ef5cf3f4ef6cf3f4ef7cf3f4ef8cf3f4ef9cf3f4efacf3f4efbcf3f4efccf3f4efdcf3f4efecf3f4e000400f1"
        "01fdff54c0035fd6",
        FLOAT,
    ),
    Kernel(
        "fp16",
        "asimdhp",
        "fmla 8h",
        368,
        r"""
    ld1r {v31.4s}, [x1]
.irp r,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    movi v\r\().2d, #0
.endr
1:
.irp r,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    fmla v\r\().8h, v31.8h, v31.8h
.endr
    subs x0, x0, #1
    b.ne 1b
    ret
""",
        "3fc8404d00e4006f01e4006f02e4006f03e4006f04e4006f05e4006f06e4006f07e4006f10e4006f11e4006f12e4006f"
        "13e4006f14e4006f15e4006f16e4006f17e4006f18e4006f19e4006f1ae4006f1be4006f1ce4006f1de4006f1ee4006f"
        "e00f5f4ee10f5f4ee20f5f4ee30f5f4ee40f5f4ee50f5f4ee60f5f4ee70f5f4ef00f5f4ef10f5f4ef20f5f4ef30f5f4e"
        "f40f5f4ef50f5f4ef60f5f4ef70f5f4ef80f5f4ef90f5f4efa0f5f4efb0f5f4efc0f5f4efd0f5f4efe0f5f4e000400f1"
        "01fdff54c0035fd6",
        HALF,
    ),
    Kernel(
        "bf16",
        "bf16",
        "bfmmla",
        736,
        r"""
    ld1r {v31.4s}, [x1]
.irp r,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    movi v\r\().2d, #0
.endr
1:
.irp r,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    bfmmla v\r\().4s, v31.8h, v31.8h
.endr
    subs x0, x0, #1
    b.ne 1b
    ret
""",
        "3fc8404d00e4006f01e4006f02e4006f03e4006f04e4006f05e4006f06e4006f07e4006f10e4006f11e4006f12e4006f"
        "13e4006f14e4006f15e4006f16e4006f17e4006f18e4006f19e4006f1ae4006f1be4006f1ce4006f1de4006f1ee4006f"
        "e0ef5f6ee1ef5f6ee2ef5f6ee3ef5f6ee4ef5f6ee5ef5f6ee6ef5f6ee7ef5f6ef0ef5f6ef1ef5f6ef2ef5f6ef3ef5f6e"
        "f4ef5f6ef5ef5f6ef6ef5f6ef7ef5f6ef8ef5f6ef9ef5f6efaef5f6efbef5f6efcef5f6efdef5f6efeef5f6e000400f1"
        "01fdff54c0035fd6",
        BRAIN,
    ),
    Kernel(
        "int8",
        "i8mm",
        "smmla",
        1472,
        r"""
    ld1r {v31.4s}, [x1]
.irp r,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    movi v\r\().2d, #0
.endr
1:
.irp r,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    smmla v\r\().4s, v31.16b, v31.16b
.endr
    subs x0, x0, #1
    b.ne 1b
    ret
""",
        "3fc8404d00e4006f01e4006f02e4006f03e4006f04e4006f05e4006f06e4006f07e4006f10e4006f11e4006f12e4006f"
        "13e4006f14e4006f15e4006f16e4006f17e4006f18e4006f19e4006f1ae4006f1be4006f1ce4006f1de4006f1ee4006f"
        "e0a79f4ee1a79f4ee2a79f4ee3a79f4ee4a79f4ee5a79f4ee6a79f4ee7a79f4ef0a79f4ef1a79f4ef2a79f4ef3a79f4e"
        "f4a79f4ef5a79f4ef6a79f4ef7a79f4ef8a79f4ef9a79f4efaa79f4efba79f4efca79f4efda79f4efea79f4e000400f1"
        "01fdff54c0035fd6",
        BYTES,
    ),
    Kernel(
        "int8",
        "asimddp",
        "sdot",
        736,
        r"""
    ld1r {v31.4s}, [x1]
.irp r,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    movi v\r\().2d, #0
.endr
1:
.irp r,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30
    sdot v\r\().4s, v31.16b, v31.16b
.endr
    subs x0, x0, #1
    b.ne 1b
    ret
""",
        "3fc8404d00e4006f01e4006f02e4006f03e4006f04e4006f05e4006f06e4006f07e4006f10e4006f11e4006f12e4006f"
        "13e4006f14e4006f15e4006f16e4006f17e4006f18e4006f19e4006f1ae4006f1be4006f1ce4006f1de4006f1ee4006f"
        "e0979f4ee1979f4ee2979f4ee3979f4ee4979f4ee5979f4ee6979f4ee7979f4ef0979f4ef1979f4ef2979f4ef3979f4e"
        "f4979f4ef5979f4ef6979f4ef7979f4ef8979f4ef9979f4efa979f4efb979f4efc979f4efd979f4efe979f4e000400f1"
        "01fdff54c0035fd6",
        BYTES,
    ),
    Kernel(
        "read",
        "asimd",
        "ldp q",
        128,
        r"""
1:
    mov x4, x1
    mov x5, x2
2:
    ldp q0, q1, [x4]
    ldp q2, q3, [x4, #32]
    ldp q4, q5, [x4, #64]
    ldp q6, q7, [x4, #96]
    add x4, x4, #128
    subs x5, x5, #1
    b.ne 2b
    subs x0, x0, #1
    b.ne 1b
    ret
""",
        "e40301aae50302aa800440ad820c41ad841442ad861c43ad84000291a50400f141ffff54000400f1c1feff54c0035fd6",
    ),
    Kernel(
        "copy",
        "asimd",
        "ldp and stnp q",
        256,
        r"""
1:
    mov x4, x1
    mov x5, x2
    mov x6, x3
2:
    ldp q0, q1, [x4]
    ldp q2, q3, [x4, #32]
    ldp q4, q5, [x4, #64]
    ldp q6, q7, [x4, #96]
    stnp q0, q1, [x6]
    stnp q2, q3, [x6, #32]
    stnp q4, q5, [x6, #64]
    stnp q6, q7, [x6, #96]
    add x4, x4, #128
    add x6, x6, #128
    subs x5, x5, #1
    b.ne 2b
    subs x0, x0, #1
    b.ne 1b
    ret
""",
        "e40301aae50302aae60303aa800440ad820c41ad841442ad861c43adc00400acc20c01acc41402acc61c03ac84000291"
        "c6000291a50400f1a1feff54000400f101feff54c0035fd6",
    ),
)
