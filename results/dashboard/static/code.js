/* Colours for CUDA, C++ and PTX in <code data-language>: comments, strings, numbers, words of the language. Text stays text. */
(function () {
  "use strict";
  const KEYWORDS = "alignas alignof asm auto break case catch class const consteval constexpr constinit const_cast continue decltype default delete do else enum explicit extern false final for friend goto if inline mutable namespace new noexcept nullptr operator override private protected public register reinterpret_cast requires return sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union using virtual volatile while __restrict__ __global__ __device__ __host__ __shared__ __constant__ __managed__ __launch_bounds__ __forceinline__ __noinline__ __align__ __cluster_dims__ __grid_constant__";
  const TYPES = "bool char double float int long short signed unsigned void wchar_t size_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t half half2 __half __half2 __nv_bfloat16 __nv_bfloat162 __nv_fp8_e4m3 __nv_fp8_e5m2 float2 float3 float4 double2 int2 int3 int4 uint2 uint3 uint4 dim3 cudaStream_t CUtensorMap";
  const BUILT_IN = "threadIdx blockIdx blockDim gridDim warpSize __syncthreads __syncwarp __shfl_sync __shfl_xor_sync __shfl_down_sync __shfl_up_sync __ballot_sync __ldg __expf __fdividef __frcp_rn fmaf fminf fmaxf expf exp2f logf rsqrtf sqrtf atomicAdd atomicMax atomicMin atomicCAS __threadfence __cvta_generic_to_shared min max";
  const KIND = new Map();
  for (const [kind, words] of [["k", KEYWORDS], ["t", TYPES], ["b", BUILT_IN]]) words.split(" ").forEach((word) => KIND.set(word, kind));
  const TOKEN = /(\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|("(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)|(^[ \t]*#[ \t]*\w+)|(\b0[xX][\da-fA-F']+[uUlL]*|\b\d[\d']*(?:\.\d*)?(?:[eE][+-]?\d+)?[fFuUlLhH]*|\.\d+(?:[eE][+-]?\d+)?[fF]?)|([A-Za-z_]\w*)/gm;
  const KINDS = [null, "c", "s", "p", "n"];
  const MOST = 400000; // letters; more would hold the page up

  /** A fragment with a span for each token that has a colour. */
  function highlighted(text) {
    const parts = document.createDocumentFragment();
    let at = 0;
    for (const match of text.matchAll(TOKEN)) {
      const kind = match[5] !== undefined ? KIND.get(match[5]) : KINDS[match.findIndex((one, k) => k > 0 && one !== undefined)];
      if (!kind) continue;
      parts.append(text.slice(at, match.index));
      const span = document.createElement("span");
      span.className = "h-" + kind;
      span.textContent = match[0];
      parts.append(span);
      at = match.index + match[0].length;
    }
    parts.append(text.slice(at));
    return parts;
  }

  const LANGUAGES = new Set(["cu", "cuda", "cpp", "c++", "ptx"]);
  window.ask.code = function () {
    for (const code of document.querySelectorAll("[data-language]")) {
      if (!LANGUAGES.has(code.dataset.language) || code.querySelector("[class^=h-]") || code.textContent.length > MOST) continue;
      const lines = code.querySelectorAll("[data-line]");
      for (const line of lines.length ? lines : [code]) line.replaceChildren(highlighted(line.textContent));
    }
  };
  window.ask.code();
})();
