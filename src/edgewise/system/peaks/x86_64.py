"""Kernels for x86-64: what each processor generation multiplies and loads with.

`code` is `assembly` as GNU as makes it (Intel syntax); a test assembles the text again and compares, where there is an
assembler. The first arguments of a function arrive in rdi, rsi, rdx and rcx.
"""

from __future__ import annotations

from .kernel import BRAIN, BYTES, FLOAT, HALF, TILES, Kernel

KERNELS = (
    Kernel(
        "fp32",
        "avx512f",
        "vfmadd231ps zmm",
        768,
        r"""
    vbroadcastss zmm31, [rsi]
.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23
    vpxord zmm\r, zmm\r, zmm\r
.endr
1:
.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23
    vfmadd231ps zmm\r, zmm31, zmm31
.endr
    dec rdi
    jnz 1b
    vzeroupper
    ret
""",
        "62627d48183e62f17d48efc062f17548efc962f16d48efd262f16548efdb62f15d48efe462f15548efed62f14d48eff6"
        "62f14548efff62513d48efc062513548efc962512d48efd262512548efdb62511d48efe462511548efed62510d48eff6"
        "62510548efff62a17d40efc062a17540efc962a16d40efd262a16540efdb62a15d40efe462a15540efed62a14d40eff6"
        "62a14540efff62920540b8c762920540b8cf62920540b8d762920540b8df62920540b8e762920540b8ef62920540b8f7"
        "62920540b8ff62120540b8c762120540b8cf62120540b8d762120540b8df62120540b8e762120540b8ef62120540b8f7"
        "62120540b8ff62820540b8c762820540b8cf62820540b8d762820540b8df62820540b8e762820540b8ef62820540b8f7"
        "62820540b8ff48ffcf0f8567ffffffc5f877c3",
        FLOAT,
    ),
    Kernel(
        "fp32",
        "fma",
        "vfmadd231ps ymm",
        192,
        r"""
    vbroadcastss ymm15, [rsi]
.irp r,0,1,2,3,4,5,6,7,8,9,10,11
    vxorps ymm\r, ymm\r, ymm\r
.endr
1:
.irp r,0,1,2,3,4,5,6,7,8,9,10,11
    vfmadd231ps ymm\r, ymm15, ymm15
.endr
    dec rdi
    jnz 1b
    vzeroupper
    ret
""",
        "c4627d183ec5fc57c0c5f457c9c5ec57d2c5e457dbc5dc57e4c5d457edc5cc57f6c5c457ffc4413c57c0c4413457c9c4"
        "412c57d2c4412457dbc4c205b8c7c4c205b8cfc4c205b8d7c4c205b8dfc4c205b8e7c4c205b8efc4c205b8f7c4c205b8"
        "ffc44205b8c7c44205b8cfc44205b8d7c44205b8df48ffcf75bfc5f877c3",
        FLOAT,
    ),
    Kernel(
        "fp16",
        "avx512_fp16",
        "vfmadd231ph zmm",
        1536,
        r"""
    vbroadcastss zmm31, [rsi]
.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23
    vpxord zmm\r, zmm\r, zmm\r
.endr
1:
.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23
    vfmadd231ph zmm\r, zmm31, zmm31
.endr
    dec rdi
    jnz 1b
    vzeroupper
    ret
""",
        "62627d48183e62f17d48efc062f17548efc962f16d48efd262f16548efdb62f15d48efe462f15548efed62f14d48eff6"
        "62f14548efff62513d48efc062513548efc962512d48efd262512548efdb62511d48efe462511548efed62510d48eff6"
        "62510548efff62a17d40efc062a17540efc962a16d40efd262a16540efdb62a15d40efe462a15540efed62a14d40eff6"
        "62a14540efff62960540b8c762960540b8cf62960540b8d762960540b8df62960540b8e762960540b8ef62960540b8f7"
        "62960540b8ff62160540b8c762160540b8cf62160540b8d762160540b8df62160540b8e762160540b8ef62160540b8f7"
        "62160540b8ff62860540b8c762860540b8cf62860540b8d762860540b8df62860540b8e762860540b8ef62860540b8f7"
        "62860540b8ff48ffcf0f8567ffffffc5f877c3",
        HALF,
    ),
    Kernel(
        "bf16",
        "amx_bf16",
        "tdpbf16ps",
        98304,
        r"""
    ldtilecfg [rsi]
    mov eax, 64
    tileloadd tmm6, [rsi + rax + 64]
    tileloadd tmm7, [rsi + rax + 64]
.irp r,0,1,2,3,4,5
    tilezero tmm\r
.endr
1:
.irp r,0,1,2,3,4,5
    tdpbf16ps tmm\r, tmm6, tmm7
.endr
    dec rdi
    jnz 1b
    tilerelease
    ret
""",
        "c4e2784906b840000000c4e27b4b740640c4e27b4b7c0640c4e27b49c0c4e27b49c8c4e27b49d0c4e27b49d8c4e27b49"
        "e0c4e27b49e8c4e2425cc6c4e2425ccec4e2425cd6c4e2425cdec4e2425ce6c4e2425cee48ffcf75ddc4e27849c0c3",
        TILES,
    ),
    Kernel(
        "bf16",
        "avx512_bf16",
        "vdpbf16ps zmm",
        1536,
        r"""
    vbroadcastss zmm31, [rsi]
.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23
    vpxord zmm\r, zmm\r, zmm\r
.endr
1:
.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23
    vdpbf16ps zmm\r, zmm31, zmm31
.endr
    dec rdi
    jnz 1b
    vzeroupper
    ret
""",
        "62627d48183e62f17d48efc062f17548efc962f16d48efd262f16548efdb62f15d48efe462f15548efed62f14d48eff6"
        "62f14548efff62513d48efc062513548efc962512d48efd262512548efdb62511d48efe462511548efed62510d48eff6"
        "62510548efff62a17d40efc062a17540efc962a16d40efd262a16540efdb62a15d40efe462a15540efed62a14d40eff6"
        "62a14540efff6292064052c76292064052cf6292064052d76292064052df6292064052e76292064052ef6292064052f7"
        "6292064052ff6212064052c76212064052cf6212064052d76212064052df6212064052e76212064052ef6212064052f7"
        "6212064052ff6282064052c76282064052cf6282064052d76282064052df6282064052e76282064052ef6282064052f7"
        "6282064052ff48ffcf0f8567ffffffc5f877c3",
        BRAIN,
    ),
    Kernel(
        "int8",
        "amx_int8",
        "tdpbusd",
        196608,
        r"""
    ldtilecfg [rsi]
    mov eax, 64
    tileloadd tmm6, [rsi + rax + 64]
    tileloadd tmm7, [rsi + rax + 64]
.irp r,0,1,2,3,4,5
    tilezero tmm\r
.endr
1:
.irp r,0,1,2,3,4,5
    tdpbusd tmm\r, tmm6, tmm7
.endr
    dec rdi
    jnz 1b
    tilerelease
    ret
""",
        "c4e2784906b840000000c4e27b4b740640c4e27b4b7c0640c4e27b49c0c4e27b49c8c4e27b49d0c4e27b49d8c4e27b49"
        "e0c4e27b49e8c4e2415ec6c4e2415ecec4e2415ed6c4e2415edec4e2415ee6c4e2415eee48ffcf75ddc4e27849c0c3",
        TILES,
    ),
    Kernel(
        "int8",
        "avx512_vnni",
        "vpdpbusd zmm",
        3072,
        r"""
    vbroadcastss zmm31, [rsi]
.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23
    vpxord zmm\r, zmm\r, zmm\r
.endr
1:
.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23
    vpdpbusd zmm\r, zmm31, zmm31
.endr
    dec rdi
    jnz 1b
    vzeroupper
    ret
""",
        "62627d48183e62f17d48efc062f17548efc962f16d48efd262f16548efdb62f15d48efe462f15548efed62f14d48eff6"
        "62f14548efff62513d48efc062513548efc962512d48efd262512548efdb62511d48efe462511548efed62510d48eff6"
        "62510548efff62a17d40efc062a17540efc962a16d40efd262a16540efdb62a15d40efe462a15540efed62a14d40eff6"
        "62a14540efff6292054050c76292054050cf6292054050d76292054050df6292054050e76292054050ef6292054050f7"
        "6292054050ff6212054050c76212054050cf6212054050d76212054050df6212054050e76212054050ef6212054050f7"
        "6212054050ff6282054050c76282054050cf6282054050d76282054050df6282054050e76282054050ef6282054050f7"
        "6282054050ff48ffcf0f8567ffffffc5f877c3",
        BYTES,
    ),
    Kernel(
        "int8",
        "avx_vnni",
        "vpdpbusd ymm",
        768,
        r"""
    vbroadcastss ymm15, [rsi]
.irp r,0,1,2,3,4,5,6,7,8,9,10,11
    vxorps ymm\r, ymm\r, ymm\r
.endr
1:
.irp r,0,1,2,3,4,5,6,7,8,9,10,11
    {vex} vpdpbusd ymm\r, ymm15, ymm15
.endr
    dec rdi
    jnz 1b
    vzeroupper
    ret
""",
        "c4627d183ec5fc57c0c5f457c9c5ec57d2c5e457dbc5dc57e4c5d457edc5cc57f6c5c457ffc4413c57c0c4413457c9c4"
        "412c57d2c4412457dbc4c20550c7c4c20550cfc4c20550d7c4c20550dfc4c20550e7c4c20550efc4c20550f7c4c20550"
        "ffc4420550c7c4420550cfc4420550d7c4420550df48ffcf75bfc5f877c3",
        BYTES,
    ),
    Kernel(
        "int8",
        "avx512f",
        "vpmaddubsw zmm",
        3072,
        r"""
    vbroadcastss zmm31, [rsi]
    vpbroadcastw zmm30, [rsi + 64]
.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23
    vpxord zmm\r, zmm\r, zmm\r
.endr
1:
.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23
    vpmaddubsw zmm29, zmm31, zmm31
    vpmaddwd zmm29, zmm29, zmm30
    vpaddd zmm\r, zmm\r, zmm29
.endr
    dec rdi
    jnz 1b
    vzeroupper
    ret
""",
        "62627d48183e62627d4879762062f17d48efc062f17548efc962f16d48efd262f16548efdb62f15d48efe462f15548ef"
        "ed62f14d48eff662f14548efff62513d48efc062513548efc962512d48efd262512548efdb62511d48efe462511548ef"
        "ed62510d48eff662510548efff62a17d40efc062a17540efc962a16d40efd262a16540efdb62a15d40efe462a15540ef"
        "ed62a14d40eff662a14540efff6202054004ef62011540f5ee62917d48fec56202054004ef62011540f5ee62917548fe"
        "cd6202054004ef62011540f5ee62916d48fed56202054004ef62011540f5ee62916548fedd6202054004ef62011540f5"
        "ee62915d48fee56202054004ef62011540f5ee62915548feed6202054004ef62011540f5ee62914d48fef56202054004"
        "ef62011540f5ee62914548fefd6202054004ef62011540f5ee62113d48fec56202054004ef62011540f5ee62113548fe"
        "cd6202054004ef62011540f5ee62112d48fed56202054004ef62011540f5ee62112548fedd6202054004ef62011540f5"
        "ee62111d48fee56202054004ef62011540f5ee62111548feed6202054004ef62011540f5ee62110d48fef56202054004"
        "ef62011540f5ee62110548fefd6202054004ef62011540f5ee62817d40fec56202054004ef62011540f5ee62817540fe"
        "cd6202054004ef62011540f5ee62816d40fed56202054004ef62011540f5ee62816540fedd6202054004ef62011540f5"
        "ee62815d40fee56202054004ef62011540f5ee62815540feed6202054004ef62011540f5ee62814d40fef56202054004"
        "ef62011540f5ee62814540fefd48ffcf0f8547feffffc5f877c3",
        BYTES,
    ),
    Kernel(
        "int8",
        "avx2",
        "vpmaddubsw ymm",
        768,
        r"""
    vbroadcastss ymm15, [rsi]
    vpbroadcastw ymm14, [rsi + 64]
.irp r,0,1,2,3,4,5,6,7,8,9,10,11
    vxorps ymm\r, ymm\r, ymm\r
.endr
1:
.irp r,0,1,2,3,4,5,6,7,8,9,10,11
    vpmaddubsw ymm13, ymm15, ymm15
    vpmaddwd ymm13, ymm13, ymm14
    vpaddd ymm\r, ymm\r, ymm13
.endr
    dec rdi
    jnz 1b
    vzeroupper
    ret
""",
        "c4627d183ec4627d797640c5fc57c0c5f457c9c5ec57d2c5e457dbc5dc57e4c5d457edc5cc57f6c5c457ffc4413c57c0"
        "c4413457c9c4412c57d2c4412457dbc4420504efc44115f5eec4c17dfec5c4420504efc44115f5eec4c175fecdc44205"
        "04efc44115f5eec4c16dfed5c4420504efc44115f5eec4c165feddc4420504efc44115f5eec4c15dfee5c4420504efc4"
        "4115f5eec4c155feedc4420504efc44115f5eec4c14dfef5c4420504efc44115f5eec4c145fefdc4420504efc44115f5"
        "eec4413dfec5c4420504efc44115f5eec44135fecdc4420504efc44115f5eec4412dfed5c4420504efc44115f5eec441"
        "25fedd48ffcf0f8543ffffffc5f877c3",
        BYTES,
    ),
    Kernel(
        "read",
        "avx512f",
        "vmovups zmm",
        512,
        r"""
1:
    mov rax, rsi
    mov rcx, rdx
2:
.irp r,0,1,2,3,4,5,6,7
    vmovups zmm\r, [rax + 64 * \r]
.endr
    add rax, 512
    dec rcx
    jnz 2b
    dec rdi
    jnz 1b
    vzeroupper
    ret
""",
        "4889f04889d162f17c48100062f17c4810480162f17c4810500262f17c4810580362f17c4810600462f17c4810680562"
        "f17c4810700662f17c4810780748050002000048ffc975be48ffcf75b3c5f877c3",
    ),
    Kernel(
        "read",
        "avx2",
        "vmovups ymm",
        256,
        r"""
1:
    mov rax, rsi
    mov rcx, rdx
2:
.irp r,0,1,2,3,4,5,6,7
    vmovups ymm\r, [rax + 32 * \r]
.endr
    add rax, 256
    dec rcx
    jnz 2b
    dec rdi
    jnz 1b
    vzeroupper
    ret
""",
        "4889f04889d1c5fc1000c5fc104820c5fc105040c5fc105860c5fc10a080000000c5fc10a8a0000000c5fc10b0c00000"
        "00c5fc10b8e000000048050001000048ffc975c248ffcf75b7c5f877c3",
    ),
    Kernel(
        "copy",
        "avx512f",
        "vmovups and vmovntps zmm",
        512,
        r"""
    mov r10, rcx
1:
    mov rax, rsi
    mov r8, r10
    mov rcx, rdx
2:
.irp r,0,1,2,3
    vmovups zmm\r, [rax + 64 * \r]
.endr
.irp r,0,1,2,3
    vmovntps [r8 + 64 * \r], zmm\r
.endr
    add rax, 256
    add r8, 256
    dec rcx
    jnz 2b
    dec rdi
    jnz 1b
    sfence
    vzeroupper
    ret
""",
        "4989ca4889f04d89d04889d162f17c48100062f17c4810480162f17c4810500262f17c4810580362d17c482b0062d17c"
        "482b480162d17c482b500262d17c482b58034805000100004981c00001000048ffc975b848ffcf75aa0faef8c5f877c3",
    ),
    Kernel(
        "copy",
        "avx2",
        "vmovups and vmovntps ymm",
        256,
        r"""
    mov r10, rcx
1:
    mov rax, rsi
    mov r8, r10
    mov rcx, rdx
2:
.irp r,0,1,2,3
    vmovups ymm\r, [rax + 32 * \r]
.endr
.irp r,0,1,2,3
    vmovntps [r8 + 32 * \r], ymm\r
.endr
    add rax, 128
    add r8, 128
    dec rcx
    jnz 2b
    dec rdi
    jnz 1b
    sfence
    vzeroupper
    ret
""",
        "4989ca4889f04d89d04889d1c5fc1000c5fc104820c5fc105040c5fc105860c4c17c2b00c4c17c2b4820c4c17c2b5040"
        "c4c17c2b58604805800000004981c08000000048ffc975c448ffcf75b60faef8c5f877c3",
    ),
)
