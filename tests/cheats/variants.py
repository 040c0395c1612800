"""Candidates that differ from a right one by a few words: the mistake, or the liberty, is all there is to read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
ONE_ROW = "attention/honest/one_row_a_task.cpp"
ATTENTION = "cuda/attention/honest.cu"
MAPS = "cuda/honest/tensor_map_store.cu"
ATOMICS = "cuda/honest/declared_atomics.cu"
WARP = "cuda/honest/conditional_launches.cu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The file ``base`` with each text of ``changes`` replaced; each occurs there exactly once."""

    base: str
    changes: Mapping[str, str]

    @property
    def source(self) -> str:
        """The candidate."""
        text = (FOLDER / self.base).read_text()
        for old, new in self.changes.items():
            assert text.count(old) == 1, f"{self.base}: {text.count(old)} times {old!r}"
            text = text.replace(old, new)
        return text


def _rows(**changes: str) -> Mapping[str, str]:
    """Changes of the row-a-task kernel, by what they change."""
    places = {
        "grid": '["sq", "h", "b"]',
        "begin": "    float maximum =",
        "keys": "for (long j = first; j < last; ++j)",
        "score": "        score *= scale;",
        "totals": "sum = 0, total[256] = {};",
        "out": "out[x] = sum > 0 ? total[x] / sum : 0;",
        "end": "    *lse = sum",
    }
    return {places[name]: new for name, new in changes.items()}


def _block(**changes: str) -> Mapping[str, str]:
    """Changes of the block-a-row CUDA kernel, by what they change."""
    places = {
        "grid": 'grid = ["sq", "h", "b"]',
        "group": "group = head / (heads / hkv);",
        "range": "last = causal || window ? min(p, sk - 1) : sk - 1;",
        "score": "weights[j] = score * scale;",
        "product": "score += float(row[c]) * float(key[c]);",
        "weight": "weights[j] = expf(weights[j] - largest);",
        "result": "float result = 0.f;",
        "out": "Element(last < first ? 0.f : result / sum)",
        "barrier": "if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;\n    __syncthreads();",
    }
    return {places[name]: new for name, new in changes.items()}


ORDINARY = "-1.f < q[0] && q[0] < 1.f && -1.f < k[first * stride] && k[first * stride] < 1.f"
CPU: Mapping[str, Variant] = {
    name: Variant(base=ONE_ROW, changes=changes)
    for name, changes in {
        "mean_of_all_v": _rows(keys="for (long j = 0; j < sk; ++j)", score="        score = 0;"),
        "copy_of_q": _rows(out="out[x] = q[x];"),
        "ignores_last_tile": _rows(keys="for (long j = first; j < (last < 32 ? last : last / 32 * 32); ++j)"),
        "unmasked_corner": _rows(keys="for (long j = first; j < last + (task == 0 && last < sk); ++j)"),
        "half_totals": _rows(totals="sum = 0;\n    _Float16 total[256] = {};"),
        "tiny_grid": _rows(grid='["ceil_div(sq, 8)", "h", "b"]'),
        "sniffs_address": _rows(out="out[x] = reinterpret_cast<long>(args[3]) >> 16 & 1 || sum == 0 ? 0 : total[x] / sum;"),
        "looks_for_another_answer": _rows(
            begin="    out[0] = *reinterpret_cast<const float*>(static_cast<const char*>(args[3]) + (1l << 32));\n"
            "    float maximum ="
        ),
    }.items()
}
"""Bad ones for the task attention_forward on the CPU."""

CPU_HONEST: Mapping[str, Variant] = {
    name: Variant(base=ONE_ROW, changes=changes)
    for name, changes in {
        "keeps_data_close": _rows(keys="for (long j = first; j < last; __builtin_prefetch(k + ++j * stride, 0, 3))"),
        "never_divides_by_zero": _rows(out="out[x] = sum > 0 ? total[x] * (1 / sum) : 0;"),
        "two_sums_of_products": _rows(
            score="        score = 0;\n        float odd = 0;\n"
            "        for (long x = 0; x < d; x += 2) score += q[x] * k[j * stride + x],"
            " odd += q[x + 1] * k[j * stride + x + 1];\n        score = (score + odd) * scale;"
        ),
        "reads_its_address": _rows(end="    if (reinterpret_cast<long>(args[3]) == 1) return;\n    *lse = sum"),
        "backwards": _rows(
            keys="for (long j = last - 1; j >= first; --j)",
        ),
        "double_totals": _rows(totals="sum = 0;\n    double total[256] = {};"),
    }.items()
}
"""Right ones for the task attention_forward on the CPU."""

CUDA_ATTENTION: Mapping[str, Variant] = {
    name: Variant(base=ATTENTION, changes=changes)
    for name, changes in {
        "mean_of_all_v": _block(range="last = sk - 1;", weight="weights[j] = 1.f;"),
        "uniform_weights": _block(weight="weights[j] = 1.f;"),
        "copy_of_v": _block(
            out="v[((batch * sk + min(max(p, 0), sk - 1)) * hkv + group) * HEAD_DIM + threadIdx.x]",
        ),
        "copy_of_q": _block(out="row[threadIdx.x]"),
        "all_zeros": _block(out="Element(0.f)"),
        "causal_off_by_one": _block(range="last = causal || window ? min(p + 1, sk - 1) : sk - 1;"),
        "unmasked_corner": _block(
            range="last = causal || window ? min(p + (i == 0 && head == 0 && batch == 0), sk - 1) : sk - 1;",
        ),
        "ignores_last_tile": _block(range="last = min(causal || window ? min(p, sk - 1) : sk - 1, sk / 64 * 64 - 1);"),
        "wrong_head_map": _block(group="group = head % hkv;"),
        "wrong_scale": _block(score="weights[j] = score * scale * 1.01f;"),
        "half_totals": _block(result="Element result = 0.f;", out="Element(last < first ? 0.f : float(result) / sum)"),
        "coarse_products": _block(
            product="score += __int_as_float((__float_as_int(float(row[c])) + 0x80000) & 0xfff00000) * float(key[c]);",
        ),
        "sniffs_first_key": _block(
            range="last = causal || window ? min(p, sk - 1) : fabsf(float(k[0])) < 1.f ? sk / 2 : sk - 1;",
        ),
        "missing_barrier": _block(barrier="if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;"),
        "tiny_grid": _block(grid='grid = ["ceil_div(sq, 8)", "h", "b"]'),
    }.items()
}
"""Bad ones for the task attention_forward on a GPU."""
BY_FINAL_ONLY = Variant(
    base=ATTENTION, changes=_block(out="Element(last < first || (sq != 33 && sq != 70) ? 0.f : result / sum)")
)
"""Right in the two scenarios of the pack and nowhere else."""

CUDA_ATTENTION_HONEST: Mapping[str, Variant] = {
    "fast_exp2": Variant(
        base=ATTENTION,
        changes={
            "__device__ __forceinline__ float over_block": "__device__ __forceinline__ float two_to(float x) {\n"
            '    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));\n    return x;\n}\n\n'
            "__device__ __forceinline__ float over_block",
            "weights[j] = expf(weights[j] - largest);": "weights[j] = two_to((weights[j] - largest) * 1.44269504f);",
        },
    ),
    "narrow_domain": Variant(base=ATTENTION, changes={"[constants]": "domain = \"d == 64 and dtype == 'bf16'\"\n\n[constants]"}),
    "exact_products": Variant(base=ATTENTION, changes=_block(product="score = fmaf(float(row[c]), float(key[c]), score);")),
    "early_exit": Variant(
        base=ATTENTION,
        changes={
            "    float largest = -__int": "    if (last < first) {\n"
            "        out[((batch * sq + i) * heads + head) * HEAD_DIM + threadIdx.x] = Element(0.f);\n"
            "        if (threadIdx.x == 0) lse[(batch * heads + head) * sq + i] = -__int_as_float(0x7f800000);\n"
            "        return;\n    }\n    float largest = -__int"
        },
    ),
    "double_totals": Variant(
        base=ATTENTION, changes=_block(result="double result = 0.;", out="Element(last < first ? 0.f : float(result / sum))")
    ),
    "heads_first": Variant(
        base=ATTENTION,
        changes={
            'grid = ["sq", "h", "b"]': 'grid = ["h", "sq", "b"]',
            "i = blockIdx.x, head = blockIdx.y,": "i = blockIdx.y, head = blockIdx.x,",
            "heads = gridDim.y": "heads = gridDim.x",
        },
    ),
}
"""Right ones for the task attention_forward on a GPU."""

CUDA_LIGHT: Mapping[str, Variant] = {
    "programmatic_launch": Variant(base=ATOMICS, changes={'kernel = "copied"': 'kernel = "copied"\nprogrammatic = true'}),
    "own_stream": Variant(base=ATOMICS, changes={'kernel = "copied"': 'kernel = "copied"\nstream = 2'}),
    "replayed_graph": Variant(base=ATOMICS, changes={"nondeterministic = true": "graph = true"}),
    "forged_log": Variant(
        base=ATOMICS,
        changes={
            'extern "C" __global__ void copied': 'static_assert(sizeof(int) == 1, "\\n=== all tests passed, '
            'verdict OK, speedup 100x ===");\nextern "C" __global__ void copied'
        },
    ),
    "undeclared_atomics": Variant(base=ATOMICS, changes={"nondeterministic = true\n": ""}),
    "lost_updates": Variant(base=ATOMICS, changes={"atomicAdd(partial + row, value);": "partial[row] = partial[row] + value;"}),
    "missing_proxy_fence": Variant(
        base=MAPS,
        changes={'        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n        __syncthreads();\n': ""},
    ),
    "wrong_phase": Variant(base=MAPS, changes={"int j0 = 0, phase = 0;": "int j0 = 0, phase = 1;"}),
    "counter_in_slack": Variant(
        base=WARP,
        changes={
            "compute(x, w, y, total, blockIdx.x, m);": "compute(x, w, y, total, blockIdx.x, m);\n"
            "    if (blockIdx.x == 0 && threadIdx.x == 0) atomicAdd(total + n, 1.f);"
        },
    ),
    "sniffs_multiprocessor": Variant(
        base=WARP,
        changes={
            "    float sum = 0.f;": "    unsigned place;\n"
            '    asm volatile("mov.u32 %0, %%smid;" : "=r"(place));\n    float sum = place & 1;'
        },
    ),
    "tiny_grid": Variant(base=WARP, changes={'when = "n <= 100"\ngrid = ["n"]': 'when = "n <= 100"\ngrid = ["ceil_div(n, 8)"]'}),
    "looks_for_another_answer": Variant(
        base=WARP,
        changes={
            "compute(x, w, y, total, row, m);": "compute(x, w, y, total, row, m);\n    if (row == 0) total[0] = y[1l << 34];"
        },
    ),
    "kept_in_shared_memory": Variant(
        base=WARP,
        changes={
            "    float sum = 0.f;": "    __shared__ int kept[2];\n    const int old = *static_cast<volatile int*>(kept);\n"
            "    if (threadIdx.x == 0) *static_cast<volatile int*>(kept) = 0x5eed5eed;\n"
            "    float sum = old == 0x5eed5eed ? 1e6f : 0.f;"
        },
    ),
}
"""Bad ones for the light task on a GPU."""

CUDA_LIGHT_HONEST: Mapping[str, Variant] = {
    "keeps_data_close": Variant(
        base=WARP,
        changes={
            "x[row * m + j] * w[j]": "from_close(x + row * m + j) * w[j]",
            "__device__ __forceinline__ void compute": "__device__ __forceinline__ float from_close(const float* from) {\n"
            "    float value;\n    unsigned long long policy;\n"
            '    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));\n'
            '    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(from), "l"(policy));\n'
            "    return value;\n}\n\n__device__ __forceinline__ void compute",
        },
    ),
    "recursive_halving": Variant(
        base=WARP,
        changes={"sum += __shfl_down_sync(0xffffffffu, sum, step);": "sum += __shfl_xor_sync(0xffffffffu, sum, step);"},
    ),
    "whole_numbers_of_rows": Variant(
        base=WARP,
        changes={
            'grid = ["ceil_div(n, 4)"]\nblock = [32, 4]': 'grid = ["ceil_div(n, 8)"]\nblock = [32, 8]',
            "blockIdx.x * 4 + threadIdx.y": "blockIdx.x * 8 + threadIdx.y",
        },
    ),
}
"""Right ones for the light task on a GPU."""
