/* plan
domain = "d in [64, 96, 128, 256] and dtype in ['bf16', 'fp16']"

# Values by measurements of an earlier form on an H200 (bf16, h == hkv, sq == sk, d 64, 128, 256). d 96, windows, sq != sk and fp16
# take over the nearest of them.
[knobs]
WARPGROUPS = { value = 2, choices = [2, 3], when = [["d == 64 and not ((causal or window > 0) and sk <= 1024)", 3]] }   # 64 query rows each
BLOCK_N = { value = 128, choices = [64, 80, 96, 112, 128, 160], when = [
    ["d == 128 and not causal and window == 0 and ceil_div(sk, 160) * 8000 <= sk * 51", 160],   # at most 2 % of padding
    ["d == 256 and (causal or window > 0) and sk <= 1024", 64],
    ["d == 256", 80] ] }
STAGES = { value = 2, choices = [1, 2, 3] }                                 # buffers for K, and as many for V
Q_STAGES = { value = 2, choices = [1, 2], when = [["d == 256", 1]] }        # 2: the next tile's first Q K^T runs beside the last P V
SPLIT = { value = 4, choices = [0, 2, 4, 8, 12], when = [                   # sixteenths of the exponentials before the wait for P V
    ["d == 128 and not causal and window == 0 and ceil_div(sk, 160) * 8000 <= sk * 51", 8],
    ["d == 256 and (causal or window > 0)", 8] ] }
PINGPONG = { value = 0, choices = [0, 1], when = [                          # warpgroups take turns at the tensor cores
    ["d == 64 and not ((causal or window > 0) and sk <= 1024)", 1],
    ["d == 256 and not causal and window == 0", 1] ] }
DYNAMIC = { value = 1, choices = [0, 1], when = [["d == 128 and not causal and window == 0", 0]] }   # tiles from a counter
ASCENDING = { value = 0, choices = [0, 1], when = [                         # without a diagonal: keys from 0 upwards
    ["d == 128 and not causal and window == 0 and ceil_div(sk, 160) * 8000 <= sk * 51", 1] ] }
TMA_STORE = { value = 1, choices = [0, 1], when = [                         # out through shared memory
    ["d == 128 and not causal and window == 0 and ceil_div(sk, 160) * 8000 <= sk * 51", 0],
    ["d == 256", 0] ] }
DEFER = { value = 1, choices = [0, 1], when = [                             # write a tile under the next tile's second Q K^T
    ["d == 128 and not causal and window == 0 and ceil_div(sk, 160) * 8000 <= sk * 51", 0],
    ["d == 256", 0] ] }
HINTS = { value = 3, choices = [0, 1, 2, 3], when = [                       # L2: 1 evict q and out first, 2 evict k and v last
    ["d == 64 and not ((causal or window > 0) and sk <= 1024)", 0],
    ["d == 128 and causal and window == 0 and sk >= 8192", 1] ] }

[constants]
HEAD_DIM = "d"
HALF = "dtype == 'fp16'"
CAUSAL = "1 if causal or window > 0 else 0"
WINDOWED = "window > 0"
SHIFTED = "1 if (causal or window > 0) and sq != sk else 0"

[workspace]
counter = { dtype = "int32", shape = [2], init = "zero", self_resetting = true }   # tiles handed out, blocks that are done

# Rank 5: one operation moves a whole tile, as chunks of 64 columns (128 bytes) one after the other. 96 columns are three
# chunks of 32 (64 bytes) with the swizzle that fits them.
[tensor_maps]
q_map = { tensor = "q", split = { d = 64 }, box = { d0 = 64, sq = "64 * WARPGROUPS", d1 = "d / 64" }, swizzle = "128B", l2_promotion = 256 }
k_map = { tensor = "k", split = { d = 64 }, box = { d0 = 64, sk = "BLOCK_N", d1 = "d / 64" }, swizzle = "128B", l2_promotion = 256 }
v_map = { tensor = "v", split = { d = 64 }, box = { d0 = 64, sk = "BLOCK_N", d1 = "d / 64" }, swizzle = "128B", l2_promotion = 256 }
out_map = { tensor = "out", split = { d = 64 }, box = { d0 = 64, sq = 64, d1 = "d / 64" }, swizzle = "128B", l2_promotion = 256 }
q_map_32 = { tensor = "q", split = { d = 32 }, box = { d0 = 32, sq = "64 * WARPGROUPS", d1 = "d / 32" }, swizzle = "64B", l2_promotion = 256 }
k_map_32 = { tensor = "k", split = { d = 32 }, box = { d0 = 32, sk = "BLOCK_N", d1 = "d / 32" }, swizzle = "64B", l2_promotion = 256 }
v_map_32 = { tensor = "v", split = { d = 32 }, box = { d0 = 32, sk = "BLOCK_N", d1 = "d / 32" }, swizzle = "64B", l2_promotion = 256 }
out_map_32 = { tensor = "out", split = { d = 32 }, box = { d0 = 32, sq = 64, d1 = "d / 32" }, swizzle = "64B", l2_promotion = 256 }

[scalars]
group = "h // hkv"
reach = "min(window, sk)"                                # keys left of the diagonal that a window shows
section = "min(max(1, (16777216 if sk <= 1024 else 33554432) // (4 * sk * d)) * (h // hkv), b * h)"   # heads whose k and v fit in L2

[[launch]]
kernel = "attention_forward"
when = "d % 64 == 0"
grid = ["min(sm_count, ceil_div(sq, 64 * WARPGROUPS) * b * h)"]
block = ["128 * WARPGROUPS + 128"]
shared = "(Q_STAGES + TMA_STORE) * 128 * WARPGROUPS * d + 4 * STAGES * BLOCK_N * d + 1280"
args = ["q_map", "k_map", "v_map", "out_map", "out", "lse", "counter", "scale", "b", "h", "group", "sq", "sk", "reach", "section"]

[[launch]]
kernel = "attention_forward"
when = "d % 64 != 0"
grid = ["min(sm_count, ceil_div(sq, 64 * WARPGROUPS) * b * h)"]
block = ["128 * WARPGROUPS + 128"]
shared = "(Q_STAGES + TMA_STORE) * 128 * WARPGROUPS * d + 4 * STAGES * BLOCK_N * d + 1280"
args = ["q_map_32", "k_map_32", "v_map_32", "out_map_32", "out", "lse", "counter", "scale", "b", "h", "group", "sq", "sk", "reach", "section"]
*/

// Attention forward for Hopper (sm_90a): one persistent block per multiprocessor. Warpgroup 0 loads by TMA, warpgroups 1.. compute
// 64 query rows each. K and V blocks travel through rings of mbarriers. A computing warpgroup does, for each block of BLOCK_N keys,
//   S = Q K^T      wgmma, both operands in swizzled shared memory
//   P = exp(S)     online softmax in registers (exp2, the scale folded into one multiply-add)
//   O += P V       wgmma, P from registers, V read transposed
// Q K^T of block i+1 is issued before P V of block i, so that the exponentials of one run beside the other, also across a change of
// tile. A tile is one query block of one head. Rows that see no key have out = 0 and lse = -inf.

typedef unsigned int u32;
typedef unsigned long long u64;

// ------------------------------------------------------------ Sizes
// An enum, because NVRTC gives namespace-scope constexpr variables memory of their own.
enum : int {
  BLOCK_M = 64 * WARPGROUPS,
  THREADS = 128 * WARPGROUPS + 128,
  COLUMNS = HEAD_DIM % 64 == 0 ? 64 : 32,                  // of a chunk; its rows are as wide as the swizzle
  ROW_BYTES = 2 * COLUMNS,
  GROUP_BYTES = 8 * ROW_BYTES,                             // 8 rows: the unit of the swizzle
  STEPS = COLUMNS / 16,                                    // wgmma k-steps of 16 columns in a chunk
  Q_BYTES = 2 * BLOCK_M * HEAD_DIM,
  KV_BYTES = 2 * BLOCK_N * HEAD_DIM,
  K_OFFSET = Q_STAGES * Q_BYTES,
  V_OFFSET = K_OFFSET + STAGES * KV_BYTES,
  OUT_OFFSET = V_OFFSET + STAGES * KV_BYTES,
  BARRIER_OFFSET = OUT_OFFSET + (TMA_STORE ? Q_BYTES : 0),
  PRODUCER_REGISTERS = WARPGROUPS == 3 ? 32 : 40,
  CONSUMER_REGISTERS = WARPGROUPS == 3 ? 160 : 232,
  UPWARDS = ASCENDING && !CAUSAL,
  LONG_DIAGONAL = CAUSAL && (SHIFTED || BLOCK_N % BLOCK_M != 0),   // a block after a tile's first (the last one) can cross the diagonal
  EARLY = BLOCK_N / 8 * SPLIT / 16                         // groups of 8 columns that are exponentiated before the wait for P V
};
#define MINUS_INFINITY __int_as_float(0xff800000)

static_assert(HEAD_DIM % 32 == 0 && BLOCK_N % 16 == 0, "shapes that wgmma and the swizzle can take");
static_assert(KV_BYTES % GROUP_BYTES == 0, "every buffer begins with a whole swizzle group");

struct alignas(64) TensorMap { u64 opaque[16]; };

// ------------------------------------------------------------ Tiles
struct Tile { int block, head, batch; };                   // query block, query head, batch entry
struct Blocks { int first, last; };                        // key blocks, both inclusive

// Tile number t. Without a diagonal: query blocks of one head side by side, since they read the same keys. With one: longest
// first, inside sections of heads whose keys and values fit in L2 together.
__device__ __forceinline__ Tile tile_at(int t, int blocks, int heads, int all_heads, int section) {
  Tile tile;
  int head;
  if (CAUSAL) {
    const int part = t / (section * blocks), rest = t - part * section * blocks;
    const int width = max(min(section, all_heads - part * section), 1);     // 1: t may lie beyond the last tile
    const int turn = rest / width;
    tile.block = blocks - 1 - turn;
    head = part * section + rest - turn * width;
  } else {
    head = t / blocks;
    tile.block = t - head * blocks;
  }
  tile.batch = head / heads;
  tile.head = head - tile.batch * heads;
  return tile;
}

// The key blocks that a query block needs; at least one, all masked where no row sees a key. offset = sk - sq.
__device__ __forceinline__ Blocks blocks_of(int block, int sq, int sk, int offset, int reach) {
  const int end = CAUSAL ? min(sq, (block + 1) * BLOCK_M) + offset : sk;      // first key that no row sees
  Blocks found;
  found.last = (end + BLOCK_N - 1) / BLOCK_N - 1;
  if (SHIFTED) found.last = max(found.last, 0);
  found.first = WINDOWED ? max(block * BLOCK_M + offset - reach, 0) / BLOCK_N : 0;
  return found;
}

// ------------------------------------------------------------ Instructions
// Everything that is written in PTX. Descriptors, fragments and swizzles: PTX ISA, "Asynchronous warpgroup level matrix instructions".

// The dynamic shared memory from its first multiple of 1024 bytes on: swizzle groups must be aligned to their size.
__device__ __forceinline__ u32 shared_base() {
  extern __shared__ unsigned char shared_memory[];
  return ((u32)__cvta_generic_to_shared(shared_memory) + 1023) & ~1023u;
}
template <int N> __device__ __forceinline__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N)); }
template <int N> __device__ __forceinline__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N)); }

__device__ __forceinline__ void barrier_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count));
}
__device__ __forceinline__ void barriers_ready() {         // the TMA unit sees what barrier_init did
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 bar, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra D;\n"
      "bra W;\n"
      "D:\n"
      "}\n" :: "r"(bar), "r"(parity) : "memory");
}
// Named barriers: 0 belongs to __syncthreads, 1 to 3 hand the tensor cores from warpgroup to warpgroup, 5 to 7 are one warpgroup each.
__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory");
}

// TMA: a box at (column 0, row, chunk 0, head, batch). POLICY: 0 none, else an L2 cache hint as createpolicy would make it.
#define EVICT_FIRST 0x12F0000000000000ull
#define EVICT_LAST 0x14F0000000000000ull
__device__ __forceinline__ void tma_prefetch(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory"); }
template <u64 POLICY>
__device__ __forceinline__ void tma_load(u32 to, const TensorMap* map, u32 bar, int row, int head, int batch) {
  if constexpr (POLICY != 0) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3, %2, %4, %5}], [%6], %7;"
        :: "r"(to), "l"(map), "r"(0), "r"(row), "r"(head), "r"(batch), "r"(bar), "l"(POLICY) : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3, %2, %4, %5}], [%6];"
        :: "r"(to), "l"(map), "r"(0), "r"(row), "r"(head), "r"(batch), "r"(bar) : "memory");
  }
}
__device__ __forceinline__ void tma_store(u32 from, const TensorMap* map, int row, int head, int batch) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%1, %2, %1, %3, %4}], [%5];"
               :: "l"(map), "r"(0), "r"(row), "r"(head), "r"(batch), "r"(from) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void tma_store_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }   // buffer is free
__device__ __forceinline__ void tma_store_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void shared_writes_to_tma() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void put4(u32 to, int a, int b, int c, int d) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ __forceinline__ void get4(u32 from, int& a, int& b, int& c, int& d) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory");
}
__device__ __forceinline__ void put_matrices(u32 to, u32 a, u32 b, u32 c, u32 d) {   // four 8 x 8, one row address a lane
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ __forceinline__ void put_global(unsigned short* to, const u32 (&a)[4]) {
#if HINTS & 1
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" :: "l"(to), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]) : "memory");
#else
  *reinterpret_cast<uint4*>(to) = make_uint4(a[0], a[1], a[2], a[3]);
#endif
}
__device__ __forceinline__ float exp2_approx(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }

// Two floats as a pair of elements. Weights are at most 1. The output may round to just beyond the largest fp16 number, 65504.
#if HALF
#define ELEMENT "f16"
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 pair; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low)); return pair;
}
__device__ __forceinline__ u32 pack_output(float low, float high) {
  u32 pair; asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low)); return pair;
}
#else
#define ELEMENT "bf16"
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 pair; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low)); return pair;
}
__device__ __forceinline__ u32 pack_output(float low, float high) { return pack(low, high); }
#endif

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
// Keeps the compiler from moving uses of an array across this point; no instruction.
template <int N> __device__ __forceinline__ void pin(float (&a)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(a[i]) :: "memory");
}
template <int N> __device__ __forceinline__ void pin(u32 (&a)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+r"(a[i]) :: "memory");
}

// wgmma needs its registers by number: Rk names the first 8k of them, Dk passes as many of d.
#define R1 "%0,%1,%2,%3,%4,%5,%6,%7"
#define R2 R1 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define R3 R2 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define R4 R3 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define R5 R4 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define R6 R5 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define R7 R6 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define R8 R7 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define R9 R8 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define R10 R9 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define R11 R10 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define R12 R11 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define R13 R12 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define R14 R13 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define R15 R14 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define R16 R15 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define EIGHT(b) "+f"(d[b]), "+f"(d[b + 1]), "+f"(d[b + 2]), "+f"(d[b + 3]), "+f"(d[b + 4]), "+f"(d[b + 5]), "+f"(d[b + 6]), "+f"(d[b + 7])
#define D4 EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24)
#define D5 D4, EIGHT(32)
#define D6 D5, EIGHT(40)
#define D7 D6, EIGHT(48)
#define D8 D7, EIGHT(56)
#define D10 D8, EIGHT(64), EIGHT(72)
#define D16 D10, EIGHT(80), EIGHT(88), EIGHT(96), EIGHT(104), EIGHT(112), EIGHT(120)

// D[64 x N] = or += A[64 x 16] B[N x 16]^T, both in shared memory with columns side by side.
#define WGMMA_SHARED(N, R, D, A, B, P)                                                               \
  __device__ __forceinline__ void wgmma_shared(float (&d)[N / 2], u64 a, u64 b, int add) {           \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\n"                                    \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." ELEMENT "." ELEMENT " {" R "}, "  \
                 "%" #A ", %" #B ", p, 1, 1, 0, 0;\n}\n" : D : "l"(a), "l"(b), "r"(add));            \
  }
// D[64 x N] += A[64 x 16] B[16 x N], A in registers, B in shared memory with columns side by side (transposed on the way).
#define WGMMA_REGISTERS(N, R, D, A0, A1, A2, A3, B)                                                  \
  __device__ __forceinline__ void wgmma_registers(float (&d)[N / 2], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) { \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." ELEMENT "." ELEMENT " {" R "}, "  \
                 "{%" #A0 ",%" #A1 ",%" #A2 ",%" #A3 "}, %" #B ", 1, 1, 1, 1;\n"                     \
                 : D : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));                                  \
  }
WGMMA_SHARED(64, R4, D4, 32, 33, 34)
WGMMA_SHARED(80, R5, D5, 40, 41, 42)
WGMMA_SHARED(96, R6, D6, 48, 49, 50)
WGMMA_SHARED(112, R7, D7, 56, 57, 58)
WGMMA_SHARED(128, R8, D8, 64, 65, 66)
WGMMA_SHARED(160, R10, D10, 80, 81, 82)
WGMMA_REGISTERS(64, R4, D4, 32, 33, 34, 35, 36)
WGMMA_REGISTERS(96, R6, D6, 48, 49, 50, 51, 52)
WGMMA_REGISTERS(128, R8, D8, 64, 65, 66, 67, 68)
WGMMA_REGISTERS(256, R16, D16, 128, 129, 130, 131, 132)

// ------------------------------------------------------------ Matrix products
// Shared-memory matrix descriptor. In units of 16 bytes: bits 0-13 address, 16-29 leading offset, 32-45 stride offset; bits 62-63
// swizzle: 1 for 128 bytes, 2 for 64.
__device__ __forceinline__ u64 descriptor(u32 address, u32 leading_bytes, u32 stride_bytes) {
  const u64 swizzle = ROW_BYTES == 128 ? 1 : 2;
  return (u64)((address & 0x3FFFF) >> 4) | ((u64)(leading_bytes >> 4) << 16) | ((u64)(stride_bytes >> 4) << 32) | (swizzle << 62);
}

// S = Q K^T of one warpgroup. A k-step of 16 columns is 32 bytes of a row; the stride is that between groups of 8 rows.
__device__ __forceinline__ void multiply_qk(float (&s)[BLOCK_N / 2], u64 q, u64 k) {
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 16; i++) {
    const u32 q_step = (i / STEPS * (BLOCK_M * ROW_BYTES) + i % STEPS * 32) >> 4;
    const u32 k_step = (i / STEPS * (BLOCK_N * ROW_BYTES) + i % STEPS * 32) >> 4;
    wgmma_shared(s, q + q_step, k + k_step, i != 0);
  }
}

// O += P V. A k-step is 16 rows of V; the leading offset is that between chunks, the stride that between groups of 8 rows.
__device__ __forceinline__ void multiply_pv(float (&o)[HEAD_DIM / 2], u32 (&p)[BLOCK_N / 4], u64 v) {
#pragma unroll
  for (int i = 0; i < BLOCK_N / 16; i++)
    wgmma_registers(o, p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3], v + (u32)(i * (16 * ROW_BYTES >> 4)));
}

// ------------------------------------------------------------ Softmax
// Which columns the two rows of a thread (r and r + 8) see. A thread holds, for each group of 8 columns, s[4j], s[4j + 1] of row r
// at columns 8j + 2 (lane % 4) + {0, 1}, and s[4j + 2], s[4j + 3] of row r + 8. bound is the first hidden column of each row, in a
// window the first visible one, less 2 (lane % 4).
struct Sight { int bound[2]; int reach; };

__device__ __forceinline__ Sight sight_of(int row, int lane4, int sk, int offset, int reach) {
  Sight sight;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int diagonal = row + 8 * r + offset;             // the last column that the row sees
    sight.bound[r] = (WINDOWED ? diagonal - reach : CAUSAL ? min(sk, diagonal + 1) : sk) - 2 * lane4;
  }
  sight.reach = reach;
  return sight;
}
// Whether a column is hidden; both arguments are relative to the same column.
__device__ __forceinline__ bool hidden(int column, int bound, int reach) {
  return WINDOWED ? (u32)(column - bound) > (u32)reach : column >= bound;
}

// One block of scores, first part: masks them, updates the row maxima m and scales the partial sums l. Gives in alpha the factor by
// which O must be scaled, and in peak the maximum times c = scale log2(e).
template <int MASK>
__device__ __forceinline__ void softmax_peak(float (&s)[BLOCK_N / 2], float (&m)[2], float (&l)[2], float (&alpha)[2], float (&peak)[2],
                                             float c, const Sight& sight, int column) {
  if (MASK) {
    const int bound[2] = {sight.bound[0] - column, sight.bound[1] - column};
#pragma unroll
    for (int j = 0; j < BLOCK_N / 8; j++) {
      if (hidden(8 * j, bound[0], sight.reach)) s[4 * j] = MINUS_INFINITY;
      if (hidden(8 * j + 1, bound[0], sight.reach)) s[4 * j + 1] = MINUS_INFINITY;
      if (hidden(8 * j, bound[1], sight.reach)) s[4 * j + 2] = MINUS_INFINITY;
      if (hidden(8 * j + 1, bound[1], sight.reach)) s[4 * j + 3] = MINUS_INFINITY;
    }
  }
  float highest[2] = {m[0], m[1]};
#pragma unroll
  for (int j = 0; j < BLOCK_N / 8; j++) {
    highest[0] = fmaxf(highest[0], fmaxf(s[4 * j], s[4 * j + 1]));
    highest[1] = fmaxf(highest[1], fmaxf(s[4 * j + 2], s[4 * j + 3]));
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    highest[r] = fmaxf(highest[r], __shfl_xor_sync(0xffffffffu, highest[r], 1));
    highest[r] = fmaxf(highest[r], __shfl_xor_sync(0xffffffffu, highest[r], 2));
    peak[r] = MASK && highest[r] == MINUS_INFINITY ? 0.f : __fmul_rn(highest[r], c);
    alpha[r] = exp2_approx(__fmul_rn(m[r], c) - peak[r]);  // the old peak as it was rounded then: scores can be as large as 50,000
    m[r] = highest[r];
    l[r] *= alpha[r];
  }
}
// Second part: the exponentials of column groups FROM to TO - 1. s becomes P, not normalised; l is this thread's share of the row sums.
template <int FROM, int TO>
__device__ __forceinline__ void softmax_exp(float (&s)[BLOCK_N / 2], float (&l)[2], const float (&peak)[2], float c) {
#pragma unroll
  for (int j = FROM; j < TO; j++) {
    s[4 * j] = exp2_approx(fmaf(s[4 * j], c, -peak[0]));
    s[4 * j + 1] = exp2_approx(fmaf(s[4 * j + 1], c, -peak[0]));
    s[4 * j + 2] = exp2_approx(fmaf(s[4 * j + 2], c, -peak[1]));
    s[4 * j + 3] = exp2_approx(fmaf(s[4 * j + 3], c, -peak[1]));
    l[0] += s[4 * j] + s[4 * j + 1];
    l[1] += s[4 * j + 2] + s[4 * j + 3];
  }
}
// The accumulator fragment of S as operand fragments of P: the same thread owns the same elements.
__device__ __forceinline__ void pack_weights(u32 (&p)[BLOCK_N / 4], float (&s)[BLOCK_N / 2]) {
#pragma unroll
  for (int i = 0; i < BLOCK_N / 4; i++) p[i] = pack(s[2 * i], s[2 * i + 1]);
}
__device__ __forceinline__ void rescale(float (&o)[HEAD_DIM / 2], float (&alpha)[2]) {
#pragma unroll
  for (int j = 0; j < HEAD_DIM / 8; j++) {
    o[4 * j] *= alpha[0]; o[4 * j + 1] *= alpha[0];
    o[4 * j + 2] *= alpha[1]; o[4 * j + 3] *= alpha[1];
  }
}

struct Yes { enum { value = 1 }; };
struct No { enum { value = 0 }; };

// ------------------------------------------------------------ Kernel
extern "C" __global__ void __launch_bounds__(THREADS, 1)
attention_forward(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
                  const __grid_constant__ TensorMap out_map, unsigned short* __restrict__ out, float* __restrict__ lse,
                  int* __restrict__ counter, float scale, int b, int h, int group, int sq, int sk, int reach, int section) {
  const u32 base = shared_base();
  const u32 q_buffer = base, k_buffer = base + K_OFFSET, v_buffer = base + V_OFFSET;
  // Each buffer has a barrier "full" (loaded) and one "empty" (all computing warps are done with it).
  const u32 q_full = base + BARRIER_OFFSET, q_empty = q_full + 8 * Q_STAGES;
  const u32 k_full = q_empty + 8 * Q_STAGES, k_empty = k_full + 8 * STAGES;
  const u32 v_full = k_empty + 8 * STAGES, v_empty = v_full + 8 * STAGES;
  const u32 tile_slot = (v_empty + 8 * STAGES + 15) & ~15u;  // the tile (block, head, batch, whether there is one) travels with its Q

  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0);   // the shuffle tells the compiler that it is uniform
  const int blocks = (sq + BLOCK_M - 1) / BLOCK_M, tiles = blocks * b * h;
  const int offset = SHIFTED ? sk - sq : 0;

  if (threadIdx.x == 0) {
    tma_prefetch(&q_map); tma_prefetch(&k_map); tma_prefetch(&v_map);
    for (int i = 0; i < Q_STAGES; i++) { barrier_init(q_full + 8 * i, 1); barrier_init(q_empty + 8 * i, WARPGROUPS * 4); }
    for (int i = 0; i < STAGES; i++) {
      barrier_init(k_full + 8 * i, 1); barrier_init(k_empty + 8 * i, WARPGROUPS * 4);
      barrier_init(v_full + 8 * i, 1); barrier_init(v_empty + 8 * i, WARPGROUPS * 4);
    }
    barriers_ready();
  }
  __syncthreads();

  if (warpgroup == 0) {
    // ---------------------------------------------------------- the loading warpgroup: one thread of it works
    fewer_registers<PRODUCER_REGISTERS>();
    if (threadIdx.x == 0) {
      constexpr u64 q_policy = HINTS & 1 ? EVICT_FIRST : 0, kv_policy = HINTS & 2 ? EVICT_LAST : 0;
      int ks = 0, vs = 0, qs = 0; u32 kp = 0, vp = 0, qp = 0;   // place in each ring, and its phase
      auto load_k = [&](int row, int head, int batch) {
        barrier_wait(k_empty + 8 * ks, kp ^ 1);
        barrier_expect(k_full + 8 * ks, KV_BYTES);
        tma_load<kv_policy>(k_buffer + ks * KV_BYTES, &k_map, k_full + 8 * ks, row, head, batch);
        if (++ks == STAGES) { ks = 0; kp ^= 1; }
      };
      auto load_v = [&](int row, int head, int batch) {
        barrier_wait(v_empty + 8 * vs, vp ^ 1);
        barrier_expect(v_full + 8 * vs, KV_BYTES);
        tma_load<kv_policy>(v_buffer + vs * KV_BYTES, &v_map, v_full + 8 * vs, row, head, batch);
        if (++vs == STAGES) { vs = 0; vp ^= 1; }
      };
      auto load_q = [&](int t, const Tile& tile) {         // t >= tiles: tell the computing warpgroups to stop
        barrier_wait(q_empty + 8 * qs, qp ^ 1);
        put4(tile_slot + 16 * qs, tile.block, tile.head, tile.batch, t < tiles);
        if (t < tiles) {
          barrier_expect(q_full + 8 * qs, Q_BYTES);
          tma_load<q_policy>(q_buffer + qs * Q_BYTES, &q_map, q_full + 8 * qs, tile.block * BLOCK_M, tile.head, tile.batch);
        } else {
          barrier_arrive(q_full + 8 * qs);
        }
        if (++qs == Q_STAGES) { qs = 0; qp ^= 1; }
      };
      // Column of the block with n blocks to go after it, which is block number n from the last one down.
      auto column = [&](const Blocks& range, int n) { return (UPWARDS ? range.last - n : n) * BLOCK_N; };
      int t = blockIdx.x;
      Tile tile = tile_at(t, blocks, h, b * h, section);
      Blocks range = blocks_of(tile.block, sq, sk, offset, reach);
      load_q(t, tile);
      load_k(column(range, range.last), tile.head / group, tile.batch);
      while (t < tiles) {
        // In the order of use, across tiles: K of a block before V of the block before it.
        const int kv_head = tile.head / group;
        const int t_next = DYNAMIC ? gridDim.x + atomicAdd(counter, 1) : t + gridDim.x;
        int n = range.last;
        if (n > range.first) {                             // one pair before the counter's answer is needed
          load_k(column(range, n - 1), kv_head, tile.batch);
          load_v(column(range, n), kv_head, tile.batch);
          --n;
        }
        const Tile next = tile_at(t_next, blocks, h, b * h, section);
        const Blocks next_range = blocks_of(next.block, sq, sk, offset, reach);
        if (Q_STAGES > 1) load_q(t_next, next);            // early: its buffer is free already
        for (; n > range.first; --n) {
          load_k(column(range, n - 1), kv_head, tile.batch);
          load_v(column(range, n), kv_head, tile.batch);
        }
        if (Q_STAGES > 1) {
          if (t_next < tiles) load_k(column(next_range, next_range.last), next.head / group, next.batch);
          load_v(column(range, n), kv_head, tile.batch);
        } else {                                           // Q's buffer is free only after the tile's last Q K^T
          load_v(column(range, n), kv_head, tile.batch);
          load_q(t_next, next);
          if (t_next < tiles) load_k(column(next_range, next_range.last), next.head / group, next.batch);
        }
        t = t_next; tile = next; range = next_range;
      }
      if (DYNAMIC) {                                       // the last block to finish leaves the counter at zero for the next launch
        __threadfence();
        if (atomicAdd(counter + 1, 1) == (int)gridDim.x - 1) { counter[0] = 0; counter[1] = 0; __threadfence(); }
      }
    }
  } else {
    // ---------------------------------------------------------- the computing warpgroups
    more_registers<CONSUMER_REGISTERS>();
    const int self = warpgroup - 1;
    const float c = scale * 1.4426950408889634f;
    const int lane4 = lane & 3;
    const int local_row = self * 64 + (warp & 3) * 16 + (lane >> 2);
    const u64 q_descriptor = descriptor(q_buffer + self * 64 * ROW_BYTES, 16, GROUP_BYTES);
    const u64 k_descriptor = descriptor(k_buffer, 16, GROUP_BYTES);
    const u64 v_descriptor = descriptor(v_buffer, BLOCK_N * ROW_BYTES, GROUP_BYTES);
    [[maybe_unused]] const int my_turn = 1 + self, next_turn = 1 + (self + 1) % WARPGROUPS;
    if (PINGPONG && self == WARPGROUPS - 1) named_arrive(next_turn, 256);      // lets warpgroup 0 go first
    int ks = 0, vs = 0, qs = 0; u32 kp = 0, vp = 0, qp = 0;
    float o[HEAD_DIM / 2], s[BLOCK_N / 2], m[2], l[2], alpha[2], peak[2];
    u32 p[BLOCK_N / 4];
    Tile tile, done;                                       // the current tile, and the one whose output is still in o
    int row, done_row, n;                                  // n: as in column() above
    Blocks range = {0, 0};
    Sight sight;
    auto column = [&]() { return (UPWARDS ? range.last - n : n) * BLOCK_N; };

    // Waits for the next tile (its Q and its numbers); false when there is none.
    auto next_tile = [&]() -> bool {
      barrier_wait(q_full + 8 * qs, qp);
      int more = 0;                                        // lane 0 reads, for it is the lane that frees the slot with Q
      if (lane == 0) get4(tile_slot + 16 * qs, tile.block, tile.head, tile.batch, more);
      if (!__shfl_sync(0xffffffffu, more, 0)) return false;
      tile.block = __shfl_sync(0xffffffffu, tile.block, 0);
      tile.head = __shfl_sync(0xffffffffu, tile.head, 0);
      tile.batch = __shfl_sync(0xffffffffu, tile.batch, 0);
      row = tile.block * BLOCK_M + local_row;
      range = blocks_of(tile.block, sq, sk, offset, reach);
      n = range.last;
      sight = sight_of(row, lane4, sk, offset, reach);
      return true;
    };
    auto release = [&](u32 bar) { if (lane == 0) barrier_arrive(bar); };
    auto free_k = [&]() { release(k_empty + 8 * ks); if (++ks == STAGES) { ks = 0; kp ^= 1; } };
    auto free_v = [&]() { release(v_empty + 8 * vs); if (++vs == STAGES) { vs = 0; vp ^= 1; } };
    auto free_q = [&]() { release(q_empty + 8 * qs); if (++qs == Q_STAGES) { qs = 0; qp ^= 1; } };
    auto q_now = [&]() { return q_descriptor + (u64)(qs * (Q_BYTES >> 4)); };
    auto k_now = [&]() { return k_descriptor + (u64)(ks * (KV_BYTES >> 4)); };
    auto v_now = [&]() { return v_descriptor + (u64)(vs * (KV_BYTES >> 4)); };

    // Q K^T of a block and P V of the block before it, in flight together; returns when S is ready.
    auto issue_both = [&](auto between) {
      barrier_wait(k_full + 8 * ks, kp);
      if (PINGPONG) named_sync(my_turn, 256);
      pin(s); pin(o); pin(p);
      wgmma_fence();
      multiply_qk(s, q_now(), k_now());
      wgmma_commit();
      between();
      barrier_wait(v_full + 8 * vs, vp);
      wgmma_fence();                                       // without it ptxas adds one of its own, at worst it serialises
      multiply_pv(o, p, v_now());
      wgmma_commit();
      if (PINGPONG) named_arrive(next_turn, 256);
      wgmma_wait<1>();
      pin(s);
      free_k();
    };
    // Waits for P V. ptxas moves the wait up across independent arithmetic, as far as the basic block goes; a second wait on a
    // barrier that is complete begins a new one, uniformly and cheaply.
    auto wait_pv = [&]() {
      pin(s);
      barrier_wait(v_full + 8 * vs, vp);
      wgmma_wait<0>();
      pin(o); pin(p);
      free_v();
    };
    // S becomes P while P V of the block before is in flight.
    auto softmax = [&](auto mask) {
      softmax_peak<decltype(mask)::value>(s, m, l, alpha, peak, c, sight, column());
      softmax_exp<0, EARLY>(s, l, peak, c);
      wait_pv();
      softmax_exp<EARLY, BLOCK_N / 8>(s, l, peak, c);
      pack_weights(p, s);
    };
    auto nothing = [] {};
    auto step = [&](auto mask) {
      issue_both(nothing);
      softmax(mask);
      rescale(o, alpha);
    };

    // O / l and the log-sum-exp of a tile to global memory.
    auto write = [&](const Tile& tile, int row, const float (&m)[2], float (&l)[2]) {
      float inverse[2];
#pragma unroll
      for (int r = 0; r < 2; r++) {
        l[r] += __shfl_xor_sync(0xffffffffu, l[r], 1);
        l[r] += __shfl_xor_sync(0xffffffffu, l[r], 2);
        const bool blind = SHIFTED && l[r] == 0.f;         // the row sees no key
        inverse[r] = blind ? 0.f : __fdividef(1.f, l[r]);
        const float rounding = fmaf(m[r], c, -__fmul_rn(m[r], c));             // of the peak that l was summed with
        const float value = m[r] * scale + (__logf(l[r]) - rounding * 0.6931471805599453f);
        if (lane4 == 0 && row + 8 * r < sq)
          lse[((long long)tile.batch * h + tile.head) * sq + row + 8 * r] = blind ? MINUS_INFINITY : value;
      }
      if (TMA_STORE) {                                     // this warpgroup's 64 rows as chunks in shared memory, then one operation
        const u32 buffer = base + OUT_OFFSET + self * (64 * HEAD_DIM * 2);
        const bool leader = (threadIdx.x & 127) == 0;
        if (leader) tma_store_read();
        named_sync(5 + self, 128);
        const int line = (warp & 3) * 16 + (lane & 15);
        const int swizzle = (ROW_BYTES == 128 ? line & 7 : line >> 1 & 3) * 16;
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 16; i++) {
          const float* f = &o[8 * i];
          put_matrices(buffer + i / STEPS * (64 * ROW_BYTES) + line * ROW_BYTES + ((i % STEPS * 32 + (lane >> 4) * 16) ^ swizzle),
                       pack_output(f[0] * inverse[0], f[1] * inverse[0]), pack_output(f[2] * inverse[1], f[3] * inverse[1]),
                       pack_output(f[4] * inverse[0], f[5] * inverse[0]), pack_output(f[6] * inverse[1], f[7] * inverse[1]));
        }
        shared_writes_to_tma();
        named_sync(5 + self, 128);
        if (leader) tma_store(buffer, &out_map, tile.block * BLOCK_M + self * 64, tile.head, tile.batch);
      } else {                                             // 4 x 4 transposed inside each four lanes, so that each stores 16 bytes
        unsigned short* at = out + (((long long)tile.batch * sq + row) * h + tile.head) * HEAD_DIM + 8 * lane4;
        const long long eight_rows = 8ll * h * HEAD_DIM;
        const bool odd = lane4 & 1, high = lane4 & 2;
#pragma unroll
        for (int g = 0; g < HEAD_DIM / 32; g++) {
#pragma unroll
          for (int r = 0; r < 2; r++) {
            u32 a[4], x, y;
#pragma unroll
            for (int j = 0; j < 4; j++) {
              const int i = 4 * (4 * g + j) + 2 * r;
              a[j] = pack_output(o[i] * inverse[r], o[i + 1] * inverse[r]);
            }
            x = odd ? a[0] : a[1]; y = odd ? a[2] : a[3];
            x = __shfl_xor_sync(0xffffffffu, x, 1); y = __shfl_xor_sync(0xffffffffu, y, 1);
            if (odd) { a[0] = x; a[2] = y; } else { a[1] = x; a[3] = y; }
            x = high ? a[0] : a[2]; y = high ? a[1] : a[3];
            x = __shfl_xor_sync(0xffffffffu, x, 2); y = __shfl_xor_sync(0xffffffffu, y, 2);
            if (high) { a[0] = x; a[1] = y; } else { a[2] = x; a[3] = y; }
            if (row + 8 * r < sq) put_global(at + r * eight_rows + 32 * g, a);
          }
        }
      }
    };

    // The very first block: there is no P V to overlap with.
    next_tile();
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; i++) o[i] = 0.f;
    m[0] = m[1] = MINUS_INFINITY; l[0] = l[1] = 0.f;
    barrier_wait(k_full + 8 * ks, kp);
    pin(s);
    wgmma_fence();
    multiply_qk(s, q_now(), k_now());
    wgmma_commit();
    wgmma_wait<0>();
    pin(s);
    free_k();
    softmax_peak<1>(s, m, l, alpha, peak, c, sight, column());
    softmax_exp<0, BLOCK_N / 8>(s, l, peak, c);
    pack_weights(p, s);

    for (;;) {
      --n;
      if constexpr (UPWARDS) {
#pragma unroll 1
        for (; n >= 0 && column() + BLOCK_N <= sk; --n) step(No{});
#pragma unroll 1
        for (; n >= 0; --n) step(Yes{});
      } else {
        const int diagonal = tile.block * BLOCK_M + offset;                   // last column that the tile's first row sees
        if constexpr (LONG_DIAGONAL)
          for (; n >= range.first && (n + 1) * BLOCK_N > diagonal + 1; --n) step(Yes{});
#pragma unroll 1
        for (; n >= range.first && (!WINDOWED || n * BLOCK_N >= diagonal + BLOCK_M - 1 - reach); --n) step(No{});
        if constexpr (WINDOWED) {
#pragma unroll 1
          for (; n >= range.first; --n) step(Yes{});
        }
      }
      free_q();
      done = tile; done_row = row;
      if (!next_tile()) break;
      // Change of tile: the first Q K^T of the new one together with the last P V of the old one.
      float done_m[2] = {m[0], m[1]}, done_l[2] = {l[0], l[1]};
      m[0] = m[1] = MINUS_INFINITY; l[0] = l[1] = 0.f;
      issue_both(nothing);
      softmax(Yes{});
      auto finish = [&]() {
        write(done, done_row, done_m, done_l);
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; i++) o[i] = 0.f;
        pin(o);
      };
      if (DEFER && n > range.first) {                      // as step(), with the old tile written between Q K^T and P V
        --n;
        issue_both(finish);
        if constexpr (UPWARDS || WINDOWED || LONG_DIAGONAL) softmax(Yes{}); else softmax(No{});
        rescale(o, alpha);
      } else {
        finish();
      }
    }
    // The last P V of the last tile.
    barrier_wait(v_full + 8 * vs, vp);
    pin(o); pin(p);
    wgmma_fence();
    multiply_pv(o, p, v_now());
    wgmma_commit();
    wgmma_wait<0>();
    pin(o);
    write(done, done_row, m, l);
    if (TMA_STORE && (threadIdx.x & 127) == 0) tma_store_done();
    if (PINGPONG && self == 0) named_sync(my_turn, 256);   // takes the arrival that is left over
  }
}
