/* plan
domain = "d in [64, 128, 256] and dtype in ['bf16', 'fp16'] and window == 0"

# All head dimensions start from the same numbers; the cases let a tuner part them. d = 256 has the value without a case.
[knobs]
BLOCK_M = { value = 128, when = [["d == 64", 128], ["d == 128", 128]], choices = [64, 128] }  # query rows: 64 a warpgroup
BLOCK_N = { value = 64, when = [["d == 64", 64], ["d == 128", 64]], choices = [32, 48, 64, 80, 96, 112, 128] }  # keys of a tile
STAGES = { value = 2, when = [["d == 64", 2], ["d == 128", 2]], choices = [1, 2, 3, 4] }  # tiles of k and of v in flight
ORDER = { value = 0, when = [["causal == 1", 0]], choices = [0, 1, 2] }  # which block takes which query tile, see `locate`

# As many stages as asked for, but no more than fit beside q; 2048 is for rounding up to 1024 and for the barriers.
[constants]
HEAD_DIM = "d"
HALF = "dtype == 'fp16'"
RING = "min(STAGES, (shared_limit - 2048 - 2 * BLOCK_M * d) // (4 * BLOCK_N * d))"

[compile]
fast_math = true

[tensor_maps]  # a box is 64 columns wide, as wide as the swizzle; one load brings all d / 64 of them
q_map = { tensor = "q", split = { d = 64 }, box = { d0 = 64, sq = "BLOCK_M", d1 = "d / 64" }, swizzle = "128B", l2_promotion = 256 }
k_map = { tensor = "k", split = { d = 64 }, box = { d0 = 64, sk = "BLOCK_N", d1 = "d / 64" }, swizzle = "128B", l2_promotion = 256 }
v_map = { tensor = "v", split = { d = 64 }, box = { d0 = 64, sk = "BLOCK_N", d1 = "d / 64" }, swizzle = "128B", l2_promotion = 256 }

[[launch]]
kernel = "attention_forward"
grid = ["ceil_div(sq, BLOCK_M) * h * b"]
block = ["2 * BLOCK_M + 128"]
shared = "1024 + 2 * BLOCK_M * d + 4 * BLOCK_N * d * min(STAGES, (shared_limit - 2048 - 2 * BLOCK_M * d) // (4 * BLOCK_N * d))"
args = ["q_map", "k_map", "v_map", "out", "lse", "scale", "sq", "sk", "h", "hkv", "causal"]
*/

// Attention forward for Hopper (sm_90a) with its two own units in their simplest form: TMA moves tiles into shared memory, wgmma
// multiplies them there. After FlashAttention (Dao et al., 2022).
//
// A block takes BLOCK_M query rows of one head. One thread, the producer, asks TMA for the query tile and then for tile after
// tile of keys and values, which go round in a ring of RING places each. BLOCK_M / 64 warpgroups, the consumers, own 64 query
// rows each and do, for every tile of BLOCK_N keys,
//
//     S  = Q K^T          wgmma, both operands in shared memory
//     P  = exp(S - max)   in registers, with the running maximum and sum of each row
//     O  = O f + P V      wgmma, P comes from registers; f corrects for a new maximum
//
// Each step waits for the one before. What overlaps is one warpgroup's exponentials with another's products, and the loads.
//
// Tiles in shared memory: a row of 64 elements fills 128 bytes, the widest swizzle. A tile of R rows and HEAD_DIM columns is
// HEAD_DIM / 64 chunks of R x 128 bytes, one after the other; TMA writes them so because the plan splits d by 64. Within each
// 1024 bytes (8 rows) the hardware exchanges 16-byte pieces so that neither rows nor columns meet in one bank. wgmma undoes
// that, so nobody here has to know how, as long as every chunk begins at a multiple of 1024.

typedef unsigned int u32;
typedef unsigned long long u64;

// Enumerators, because a constexpr out here would become a variable of the device, which outlives a launch.
enum : int {
    consumers = 2 * BLOCK_M,  // threads; the producer's warpgroup comes after them
    consumer_warps = consumers / 32,
    row_bytes = 128,  // of a row within its chunk
    q_chunk_bytes = BLOCK_M * row_bytes,
    kv_chunk_bytes = BLOCK_N * row_bytes,
    q_bytes = q_chunk_bytes * (HEAD_DIM / 64),
    kv_bytes = kv_chunk_bytes * (HEAD_DIM / 64),
};

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }

static_assert(BLOCK_M == 64 || BLOCK_M == 128, "a warpgroup multiplies 64 query rows, and two share the registers here");
static_assert(BLOCK_N % 16 == 0, "P V advances by 16 keys");
static_assert(RING >= 1, "one tile of k and one of v must fit beside q");

struct alignas(64) TensorMap { char bytes[128]; };

// ---- Barriers and loads -------------------------------------------------------------------------------------------------------
// An mbarrier counts arrivals, and bytes that TMA still has to write. When both are complete it enters its next phase. Waiting
// names the parity of the phase that has to be over: 0 for the first, then 1, 0, ... A fresh barrier counts as past a phase of
// parity 1. A warp's lane 0 may arrive for all its lanes after a product, because wgmma keeps the lanes of a warp together.

__device__ __forceinline__ void initialise(u32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ __forceinline__ void arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(u32 barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
    asm volatile(
        "{\n"
        ".reg .pred over;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
        "@!over bra again;\n"
        "}" ::"r"(barrier), "r"(parity) : "memory");
}

// Makes fresh barriers known to TMA, which reaches memory by another path than the threads.
__device__ __forceinline__ void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Loads one tile, all its chunks at once. Coordinates follow the map's axes: first those of `box` in the plan, d0, row and d1,
// then head and batch. Rows beyond the end are zero, and their bytes count as written.
__device__ __forceinline__ void load_tile(u32 target, const TensorMap* map, u32 barrier, int row, int head, int batch) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3, %2, %4, %5}], [%6];" ::"r"(target),
        "l"(map), "r"(0), "r"(row), "r"(head), "r"(batch), "r"(barrier)
        : "memory");
}

// ---- wgmma --------------------------------------------------------------------------------------------------------------------
// m64nNk16: four warps multiply 64 x 16 by 16 x N and add to 64 x N. Thread t of the warpgroup (lane = t % 32) holds N / 2 sums:
// number 4 j + 2 r + e is row 16 (t / 32) + lane / 4 + 8 r, column 8 j + 2 (lane % 4) + e, for r and e 0 or 1.

#if HALF
#define ELEMENT "f16"
#else
#define ELEMENT "bf16"
#endif

__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_finish() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// wgmma works on registers behind the compiler's back. This keeps every use of them on its side of this line.
template <int N>
__device__ __forceinline__ void hold(float (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

template <int N>
__device__ __forceinline__ void hold(u32 (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

// Where a matrix lies in shared memory, in units of 16 bytes: address, two distances, and 1 << 62 for the swizzle of 128 bytes.
// `stride` is always the 1024 bytes from 8 rows to the next 8. `leading` is the distance between chunks, and matters only where
// one instruction spans several of them: in V, whose columns are the instruction's N.
__device__ __forceinline__ u64 descriptor(u32 address, u32 leading_bytes) {
    const u64 stride_bytes = 8 * row_bytes;
    return (u64)((address & 0x3FFFF) >> 4) | (u64)(leading_bytes >> 4) << 16 | (stride_bytes >> 4) << 32 | 1ull << 62;
}

__device__ __forceinline__ u64 advance(u64 matrix, u32 bytes) { return matrix + (bytes >> 4); }

// The registers of one instruction, as its text (NAMES) and as its operands (SUMS), in groups of eight.
#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_16 NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_24 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define NAMES_32 NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_40 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NAMES_48 NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_56 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define NAMES_64 NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_96                                                                                               \
    NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82" \
             ", %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_128                                                                                                         \
    NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113"   \
             ", %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define FOUR_SUMS(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define EIGHT_SUMS(i) FOUR_SUMS(i), FOUR_SUMS(i + 4)
#define SUMS_16 EIGHT_SUMS(0), EIGHT_SUMS(8)
#define SUMS_24 SUMS_16, EIGHT_SUMS(16)
#define SUMS_32 SUMS_24, EIGHT_SUMS(24)
#define SUMS_40 SUMS_32, EIGHT_SUMS(32)
#define SUMS_48 SUMS_40, EIGHT_SUMS(40)
#define SUMS_56 SUMS_48, EIGHT_SUMS(48)
#define SUMS_64 SUMS_56, EIGHT_SUMS(56)
#define SUMS_96 SUMS_64, EIGHT_SUMS(64), EIGHT_SUMS(72), EIGHT_SUMS(80), EIGHT_SUMS(88)
#define SUMS_128 SUMS_96, EIGHT_SUMS(96), EIGHT_SUMS(104), EIGHT_SUMS(112), EIGHT_SUMS(120)

// sums = a b^T, or sums += a b^T with `add`; a is 64 x 16, b is N x 16, both with the 16 side by side in shared memory. COUNT is
// N / 2; A, B and C are the numbers of the operands that follow the sums.
#define DEFINE_SCORES(N, COUNT, A, B, C)                                                                               \
    __device__ __forceinline__ void wgmma(float (&sums)[COUNT], u64 a, u64 b, int add) {                               \
        asm volatile("{ .reg .pred add; setp.ne.b32 add, %" #C ", 0; wgmma.mma_async.sync.aligned.m64n" #N "k16.f32."  \
                     ELEMENT "." ELEMENT " {" NAMES_##COUNT "}, %" #A ", %" #B ", add, 1, 1, 0, 0; }"                  \
                     : SUMS_##COUNT : "l"(a), "l"(b), "r"(add));                                                       \
    }

// sums += a b; a is 64 x 16 in four registers a thread, b is 16 x N with the N side by side in shared memory (the last 1). The
// registers hold, two columns each, what the thread would hold of two groups of eight columns as sums, in the same order.
#define DEFINE_VALUES(N, COUNT, A0, A1, A2, A3, B)                                                                     \
    __device__ __forceinline__ void wgmma(float (&sums)[COUNT], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {               \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." ELEMENT "." ELEMENT " {" NAMES_##COUNT "}, {%"  \
                     #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", 1, 1, 1, 1;"                                       \
                     : SUMS_##COUNT : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));                                     \
    }

DEFINE_SCORES(32, 16, 16, 17, 18)
DEFINE_SCORES(48, 24, 24, 25, 26)
DEFINE_SCORES(64, 32, 32, 33, 34)
DEFINE_SCORES(80, 40, 40, 41, 42)
DEFINE_SCORES(96, 48, 48, 49, 50)
DEFINE_SCORES(112, 56, 56, 57, 58)
DEFINE_SCORES(128, 64, 64, 65, 66)
DEFINE_VALUES(64, 32, 32, 33, 34, 35, 36)
DEFINE_VALUES(128, 64, 64, 65, 66, 67, 68)
DEFINE_VALUES(256, 128, 128, 129, 130, 131, 132)

// Registers are dealt out evenly at launch: to 384 threads 168 each. The producer's warpgroup gives most of its own to the two
// of the consumers, 128 x 40 + 256 x 232 being less than 65536. A single one has enough to begin with.
__device__ __forceinline__ void give_registers() {
    if (BLOCK_M == 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
}

__device__ __forceinline__ void take_registers() {
    if (BLOCK_M == 128) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
}

// ---- What a block works on ----------------------------------------------------------------------------------------------------

struct Problem {
    float* lse;
    unsigned short* out;
    float scale;
    int sq, sk, h, hkv, causal;
};

struct Work {
    int first_row, head, batch;
    int key_tiles;  // that its rows need: none where no row sees a key
};

// Keys that a query row sees: 0 to this, not included. Zero or less for a row that sees none.
__device__ __forceinline__ int visible_keys(const Problem& problem, int row) {
    return problem.causal ? min(problem.sk, row + 1 + problem.sk - problem.sq) : problem.sk;
}

// The query tile of a block. Neighbours run at about the same time. ORDER 0 and 1 put the tiles of a head side by side, so that
// they share its keys in the L2 cache, 0 from the first tile and 1 from the last, which is the longest under the causal mask.
// ORDER 2 puts the heads side by side, the last tiles of all heads first: long work first, short work fills the end.
__device__ __forceinline__ Work locate(const Problem& problem, int block, int blocks) {
    const int tiles = (problem.sq + BLOCK_M - 1) / BLOCK_M, heads = blocks / tiles;
    const int place = ORDER == 2 ? block / heads : block % tiles;
    const int tile = ORDER == 0 ? place : tiles - 1 - place;
    const int head = ORDER == 2 ? block % heads : block / tiles;
    Work work;
    work.first_row = tile * BLOCK_M;
    work.head = head % problem.h;
    work.batch = head / problem.h;
    const int last_row = min(work.first_row + BLOCK_M, problem.sq) - 1;
    work.key_tiles = (max(visible_keys(problem, last_row), 0) + BLOCK_N - 1) / BLOCK_N;
    return work;
}

// Addresses in shared memory. Place i of a ring has its tile at k + i * kv_bytes and its barriers at k_full + 8 * i and
// k_empty + 8 * i; the same for v.
struct Shared {
    u32 q, k, v;
    u32 q_full, k_full, k_empty, v_full, v_empty;
};

// A position in the ring: the place, and the parity of the round.
struct Position {
    int place = 0;
    u32 parity = 0;
    __device__ __forceinline__ void next() {
        if (++place < RING) return;
        place = 0;
        parity ^= 1;
    }
};

// ---- Producer -----------------------------------------------------------------------------------------------------------------

// Fills one place, once the consumers have left it. In the first round nobody has been there: the opposite parity passes at once.
__device__ __forceinline__ void fill(
    u32 tiles, u32 full, u32 empty, Position at, const TensorMap* map, int row, int head, int batch
) {
    wait(empty + 8 * at.place, at.parity ^ 1);
    arrive_and_expect(full + 8 * at.place, kv_bytes);
    load_tile(tiles + at.place * kv_bytes, map, full + 8 * at.place, row, head, batch);
}

__device__ __forceinline__ void produce(
    const Shared& shared, const Work& work, int kv_head, const TensorMap* q_map, const TensorMap* k_map, const TensorMap* v_map
) {
    arrive_and_expect(shared.q_full, q_bytes);
    load_tile(shared.q, q_map, shared.q_full, work.first_row, work.head, work.batch);
    Position at;
    for (int tile = 0; tile < work.key_tiles; ++tile, at.next()) {
        fill(shared.k, shared.k_full, shared.k_empty, at, k_map, tile * BLOCK_N, kv_head, work.batch);
        fill(shared.v, shared.v_full, shared.v_empty, at, v_map, tile * BLOCK_N, kv_head, work.batch);
    }
}

// ---- Consumers ----------------------------------------------------------------------------------------------------------------

// A thread's two rows: r = 0 and 1 are 8 rows apart.
struct Rows {
    float peak[2] = {minus_infinity(), minus_infinity()};  // largest score so far, times scale * log2(e)
    float sum[2] = {0.f, 0.f};                                                   // of this thread's columns
};

// scores = Q K^T. 16 columns are 32 bytes of a row, and 64 columns a chunk.
__device__ __forceinline__ void multiply_keys(float (&scores)[BLOCK_N / 2], u64 q, u64 k) {
    hold(scores);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < HEAD_DIM / 16; ++step) {
        const u32 within = step % 4 * 32;
        wgmma(scores, advance(q, step / 4 * q_chunk_bytes + within), advance(k, step / 4 * kv_chunk_bytes + within), step != 0);
    }
    wgmma_finish();
    hold(scores);
}

// sums += P V. 16 keys are 16 rows of a chunk.
__device__ __forceinline__ void multiply_values(float (&sums)[HEAD_DIM / 2], u32 (&weights)[BLOCK_N / 4], u64 v) {
    hold(sums);
    hold(weights);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < BLOCK_N / 16; ++step) {
        const u32* part = weights + 4 * step;
        wgmma(sums, part[0], part[1], part[2], part[3], advance(v, step * 16 * row_bytes));
    }
    wgmma_finish();
    hold(sums);
    hold(weights);
}

// Hides the columns from `visible` on; `visible` counts from the first column of this thread.
__device__ __forceinline__ void mask(float (&scores)[BLOCK_N / 2], const int (&visible)[2]) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) {
        const int column = i / 4 * 8 + i % 2, r = i / 2 % 2;
        if (column >= visible[r]) scores[i] = minus_infinity();
    }
}

// The largest value among the four threads that share a row.
__device__ __forceinline__ float largest_of_row(float value) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffff, value, 2));
}

__device__ __forceinline__ float sum_of_row(float value) {
    value += __shfl_xor_sync(0xffffffff, value, 1);
    return value + __shfl_xor_sync(0xffffffff, value, 2);
}

// Scores become weights exp(scale * score - peak), as powers of two. `factor` is what earlier weights have to be multiplied by.
__device__ __forceinline__ void weigh(float (&scores)[BLOCK_N / 2], Rows& rows, float (&factor)[2], float scale_log2) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float largest = scores[2 * r];
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i)
            if (i / 2 % 2 == r) largest = fmaxf(largest, scores[i]);
        const float peak = fmaxf(rows.peak[r], largest_of_row(largest) * scale_log2);
        const float shift = peak == minus_infinity() ? 0.f : peak;  // a row that has seen no key: weights stay 0
        factor[r] = exp2f(rows.peak[r] - shift);
        rows.peak[r] = peak;
        rows.sum[r] *= factor[r];
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i)
            if (i / 2 % 2 == r) rows.sum[r] += scores[i] = exp2f(scores[i] * scale_log2 - shift);
    }
}

// Two floats as a register of two elements, the first in the lower half.
__device__ __forceinline__ u32 pack(float first, float second) {
    u32 packed;
    asm("cvt.rn." ELEMENT "x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
    return packed;
}

__device__ __forceinline__ void pack_weights(u32 (&weights)[BLOCK_N / 4], const float (&scores)[BLOCK_N / 2]) {
#pragma unroll
    for (int i = 0; i < BLOCK_N / 4; ++i) weights[i] = pack(scores[2 * i], scores[2 * i + 1]);
}

__device__ __forceinline__ void multiply_rows(float (&sums)[HEAD_DIM / 2], const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; ++i) sums[i] *= factor[i / 2 % 2];
}

// Divides by the sums of weights and writes out and lse; a row that saw no key has out 0 and lse -inf, which is log2(0).
__device__ __forceinline__ void store(
    const Problem& problem, const Work& work, float (&sums)[HEAD_DIM / 2], const Rows& rows, int row
) {
    const int lane = threadIdx.x % 32;
    float inverse[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const float sum = sum_of_row(rows.sum[r]);
        inverse[r] = sum > 0.f ? 1.f / sum : 0.f;
        if (lane % 4 == 0 && row + 8 * r < problem.sq)
            problem.lse[((long long)work.batch * problem.h + work.head) * problem.sq + row + 8 * r] =
                sum > 0.f ? (rows.peak[r] + log2f(sum)) * 0.693147181f : minus_infinity();
    }
    multiply_rows(sums, inverse);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (row + 8 * r >= problem.sq) continue;
        const long long position = ((long long)work.batch * problem.sq + row + 8 * r) * problem.h + work.head;
        u32* target = reinterpret_cast<u32*>(problem.out + position * HEAD_DIM) + lane % 4;
#pragma unroll
        for (int j = 0; j < HEAD_DIM / 8; ++j) target[4 * j] = pack(sums[4 * j + 2 * r], sums[4 * j + 2 * r + 1]);
    }
}

// Says that this warp is done with a place of the ring.
__device__ __forceinline__ void leave(u32 empty, Position at) {
    if (threadIdx.x % 32 == 0) arrive(empty + 8 * at.place);
}

__device__ __forceinline__ void consume(const Shared& shared, const Work& work, const Problem& problem) {
    // The shuffle tells the compiler that the whole warp agrees, so that descriptors stay in uniform registers.
    const int group = __shfl_sync(0xffffffff, threadIdx.x / 128, 0), lane = threadIdx.x % 32;
    const int group_row = work.first_row + 64 * group, row = group_row + threadIdx.x % 128 / 32 * 16 + lane / 4;
    const int fewest_visible = visible_keys(problem, group_row);
    const int visible[2] = {visible_keys(problem, row), visible_keys(problem, row + 8)};
    const float scale_log2 = problem.scale * 1.44269504f;  // exp(x) is exp2(x log2(e))
    const u64 q = descriptor(shared.q + 64 * group * row_bytes, 0);

    float sums[HEAD_DIM / 2];
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; ++i) sums[i] = 0.f;
    Rows rows;
    Position at;
    wait(shared.q_full, 0);
    for (int tile = 0; tile < work.key_tiles; ++tile, at.next()) {
        float scores[BLOCK_N / 2], factor[2];
        u32 weights[BLOCK_N / 4];

        wait(shared.k_full + 8 * at.place, at.parity);
        multiply_keys(scores, q, descriptor(shared.k + at.place * kv_bytes, 0));
        leave(shared.k_empty, at);

        if ((tile + 1) * BLOCK_N > fewest_visible) {
            const int first_column = tile * BLOCK_N + lane % 4 * 2;
            mask(scores, {visible[0] - first_column, visible[1] - first_column});
        }
        weigh(scores, rows, factor, scale_log2);
        pack_weights(weights, scores);
        multiply_rows(sums, factor);

        wait(shared.v_full + 8 * at.place, at.parity);
        multiply_values(sums, weights, descriptor(shared.v + at.place * kv_bytes, kv_chunk_bytes));
        leave(shared.v_empty, at);
    }
    store(problem, work, sums, rows, row);
}

// ---- Kernel -------------------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(consumers + 128, 1) attention_forward(
    const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
    unsigned short* out, float* lse, float scale, int sq, int sk, int h, int hkv, int causal
) {
    extern __shared__ unsigned char tiles[];
    __shared__ alignas(8) u64 barriers[1 + 4 * RING];

    Shared shared;
    shared.q = ((u32)__cvta_generic_to_shared(tiles) + 1023) / 1024 * 1024;
    shared.k = shared.q + q_bytes;
    shared.v = shared.k + RING * kv_bytes;
    shared.q_full = (u32)__cvta_generic_to_shared(barriers);
    shared.k_full = shared.q_full + 8;
    shared.k_empty = shared.k_full + 8 * RING;
    shared.v_full = shared.k_empty + 8 * RING;
    shared.v_empty = shared.v_full + 8 * RING;

    if (threadIdx.x == 0) {
        initialise(shared.q_full, 1);
        for (int i = 0; i < RING; ++i) {
            initialise(shared.k_full + 8 * i, 1);
            initialise(shared.v_full + 8 * i, 1);
            initialise(shared.k_empty + 8 * i, consumer_warps);
            initialise(shared.v_empty + 8 * i, consumer_warps);
        }
        publish_barriers();
    }
    __syncthreads();

    const Problem problem = {lse, out, scale, sq, sk, h, hkv, causal};
    const Work work = locate(problem, blockIdx.x, gridDim.x);
    if (threadIdx.x < consumers) {
        take_registers();
        consume(shared, work, problem);
    } else {
        give_registers();
        if (threadIdx.x == consumers) produce(shared, work, work.head / (h / hkv), &q_map, &k_map, &v_map);
    }
}
