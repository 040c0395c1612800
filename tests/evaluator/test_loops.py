"""The innermost loops of compiled code, read from what objdump and nvdisasm print."""

from pathlib import Path

import pytest

from evaluator.backend import Build
from evaluator.cache import BuildCache
from evaluator.cpu.build import build_candidate
from evaluator.cpu.listing import listing_of
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.cuda.sass import find_disassembler, listing
from evaluator.loops import MAX_LINES, MAX_LOOPS, Instruction, innermost, loop_text, read_nvdisasm, read_objdump
from tests.evaluator.cuda_cases import launch, plan

OBJDUMP = """
candidate.so:     file format elf64-x86-64

0000000000001000 <kernel>:
    1000:\txor    eax,eax
    1002:\tmov    edx,0x4
    1007:\tvfmadd231ps zmm0,zmm1,ZMMWORD PTR [rdi]
    100d:\tdec    edx
    100f:\tjne    1007 <kernel+0x7>
    1011:\tinc    eax
    1013:\tjne    1002 <kernel+0x2>
    1015:\tjmp    1020 <kernel+0x20>
    1020:\tret

0000000000001030 <straight>:
    1030:\tret
"""
SASS = """
\t.section\t.text.hot,"ax",@progbits
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_1:
        /*0010*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24 ;
        /*0020*/              @P0 BRA `(.L_x_1) ;
        /*0030*/              @P1 BRA `(.L_x_2) ;
.L_x_2:
        /*0040*/                   EXIT ;
"""
NOTHING = plan()


def test_the_innermost_loop_of_an_objdump_listing_is_found_with_its_mix() -> None:
    functions = read_objdump(OBJDUMP)
    assert [len(code) for code in functions.values()] == [9, 1]
    (loop,) = innermost(functions)
    assert [one.opcode for one in loop.instructions] == ["vfmadd231ps", "dec", "jne"]
    lines = loop_text(functions).splitlines()
    assert lines[0] == "kernel: innermost loop of 3 instructions (1 vfmadd231ps, 1 dec, 1 jne)"
    assert lines[1] == "  vfmadd231ps zmm0,zmm1,ZMMWORD PTR [rdi]"


def test_the_loop_of_an_nvdisasm_listing_is_found_and_forward_jumps_are_none() -> None:
    (loop,) = innermost(read_nvdisasm(SASS))
    assert (loop.function, [one.opcode for one in loop.instructions]) == ("hot", ["HGMMA.64x128x16.F32.BF16", "BRA"])


def test_code_without_a_loop_and_no_code_give_nothing() -> None:
    assert loop_text(read_objdump("")) == loop_text(read_nvdisasm("garbage")) == ""
    assert loop_text({"f": (Instruction(text="ret"),)}) == ""


def test_long_and_many_loops_are_cut_and_it_says_so() -> None:
    long = [Instruction(text="nop") for _ in range(MAX_LINES + 9)] + [Instruction(text="jmp", to=0)]
    text = loop_text({"long": long})
    assert len(text.splitlines()) == MAX_LINES + 2
    assert text.endswith("  ... and 10 more")
    many = {f"f{place}": (Instruction(text="nop"), Instruction(text="jmp", to=0)) for place in range(MAX_LOOPS + 2)}
    assert loop_text(many).endswith("2 shorter innermost loops are left out")


def test_a_compiled_cpu_kernel_shows_its_loop(tmp_path: Path) -> None:
    source = """extern "C" void kernel(long task, void* const* args) {
        float* x = static_cast<float*>(args[0]);
        for (long i = 0; i < 1000003; ++i) x[i] = x[i] * x[i] + float(task);
    }"""
    build = build_candidate(source, NOTHING, BuildCache(tmp_path / "builds"))
    assert isinstance(build, Build), build
    text = listing_of(build.path)
    assert text.startswith("kernel: innermost loop of ")
    assert "vfmadd" in text or "mul" in text
    (tmp_path / "broken.so").write_bytes(b"no library")
    assert listing_of(tmp_path / "broken.so") == ""


@pytest.mark.skipif(find_disassembler() is None, reason="no nvdisasm here: pip install nvidia-cuda-nvdisasm")
def test_a_compiled_cuda_kernel_shows_its_loop(tmp_path: Path) -> None:
    source = """extern "C" __global__ void k(float* x, float* y, int n) {
        #pragma unroll 1
        for (int i = 0; i < n; ++i) y[i] = __expf(x[i]);
    }"""
    build = compile_cuda(source, plan(launch("k", "x:p y:p n:i")), "sm_90a", BuildCache(tmp_path / "builds"))
    assert isinstance(build, Build), build
    tool = find_disassembler()
    assert tool is not None
    text = loop_text(read_nvdisasm(listing(build.path.read_bytes(), tool) or ""))
    assert text.startswith("k: innermost loop of ")
    assert "MUFU.EX2" in text
