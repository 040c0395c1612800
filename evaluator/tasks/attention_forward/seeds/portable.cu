/* plan
domain = "d in [64, 96, 128, 256] and dtype in ['bf16', 'fp16']"

[knobs]
BLOCK_M = { value = 128, when = [["d > 128", 64]], choices = [64, 128] }  # query rows of a block
BLOCK_N = { value = 64, choices = [32, 64, 96, 128] }                     # keys of a tile; TILE_N is what fits
WARPS   = { value = 4, choices = [4, 8] }                                 # warps of a block, at most one for each 16 rows
STAGES  = { value = 2, choices = [1, 2, 3] }                              # tiles of k and v in flight; DEPTH is what fits
HOLD_Q  = { value = 0, when = [["d == 64", 1]], choices = [0, 1] }        # 1: q stays in registers

[constants]
HEAD_DIM = "d"
IS_BF16 = "dtype == 'bf16'"
# Keys of a tile, cut down to what one stage has room for beside q.
TILE_N = "min(BLOCK_N, (shared_limit - BLOCK_M * d * 2) // (d * 64) * 16)"
# As many stages as let two blocks share a multiprocessor, of whose memory each block costs 1 KiB more; at least one.
DEPTH = "max(1, min(STAGES, (shared_limit // 2 - 512 - BLOCK_M * d * 2) // (BLOCK_N * d * 4)))"

[scalars]
# As many query heads as have 32 MiB of keys and values, which so stay in the L2 cache while the blocks of these heads run.
section = "max(1, min(b * h, 33554432 * h // (4 * sk * d * hkv)))"
heads = "b * h"
group = "h // hkv"

[[launch]]
kernel = "attention_forward"
grid = ["ceil_div(sq, BLOCK_M) * h * b"]
block = ["32 * min(WARPS, BLOCK_M // 16)"]
shared = """min(shared_limit, BLOCK_M * d * 2 + BLOCK_N * d * 4 * \
    max(1, min(STAGES, (shared_limit // 2 - 512 - BLOCK_M * d * 2) // (BLOCK_N * d * 4))))"""  # q, and DEPTH tiles of k and v
args = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv", "causal", "window", "section", "heads", "group"]
*/

// Attention forward for sm_80 and newer, after FlashAttention-2 (Dao, 2023).
//
// A block takes BLOCK_M query rows of one head and walks over tiles of TILE_N keys, from the last that any of its rows sees to
// the first. Each warp owns 16 or 32 rows and does everything for them: scores by mma.m16n8k16, a running softmax in registers,
// and weights times v, with the weights going from accumulators straight into operands. The warps share only the tiles of k and
// v, which cp.async brings to shared memory ahead of their use. With 32 rows a warp each load of k and v feeds two products,
// without which shared memory would be slower than the tensor cores. That takes nearly all 255 registers, so what follows from
// the block's number is worked out again or kept in uniform registers. Two blocks on a multiprocessor overlap softmax and
// products.

// Sizes, as an enumeration because NVRTC would make a device variable of every constexpr at this level.
enum Size : int {
    warps = WARPS < BLOCK_M / 16 ? WARPS : BLOCK_M / 16,
    threads = 32 * warps,
    // Blocks for which a multiprocessor's registers must do.
    blocks = threads > 128 ? (HEAD_DIM > 128 ? 1 : 2) : (HEAD_DIM <= 64 && !HOLD_Q ? 3 : 2),
    rows_per_warp = BLOCK_M / warps,
    m_tiles = rows_per_warp / 16,  // tiles of 16 rows that a warp owns
    n_tiles = TILE_N / 8,          // accumulator tiles of 8 keys
    d_tiles = HEAD_DIM / 8,        // accumulator tiles of 8 channels
    d_steps = HEAD_DIM / 16,       // steps of 16 channels in q k^T
    chunks = HEAD_DIM / 8,         // chunks of 16 bytes in a row
    row_bytes = 2 * HEAD_DIM,
    q_bytes = BLOCK_M * row_bytes,
    tile_bytes = TILE_N * row_bytes,
    rows_per_pass = chunks * 32 <= threads ? 32 : chunks * 16 <= threads ? 16 : chunks * 8 <= threads ? 8 : 4,  // of a copy
    span = HEAD_DIM % 64 == 0 ? 8 : 4,  // chunks that the swizzle permutes
};

static_assert(BLOCK_M % (16 * warps) == 0, "every warp owns a multiple of 16 rows");
static_assert(TILE_N >= 16 && TILE_N % 16 == 0, "weights times v takes 16 keys at a time");
static_assert(HEAD_DIM % 32 == 0, "the swizzle permutes at least 64 bytes");

// How mma and ldmatrix spread matrices over the lanes of a warp, with g = lane / 4 and t = lane % 4 ("Parallel Thread Execution
// ISA", "Matrix Fragments for mma.m16n8k16" and "ldmatrix"):
using Bits = unsigned short;   // a bf16 or fp16 number
using Accumulator = float[4];  // 16 x 8: columns 2t, 2t + 1 of row g, then of row g + 8
using Operand = unsigned[4];   // 16 x 16, two numbers a register: columns 2t, 2t + 1 of rows g, g + 8; the same 8 columns further

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }

// The instructions that C++ has no words for. Shared memory is addressed by its 32-bit address throughout.
namespace ptx {

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Starts to copy 16 bytes to shared memory. With `bytes` 0 nothing is read and zeros are written.
__device__ __forceinline__ void copy_async(unsigned to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// Number of the thread and of the block. Being volatile they are read wherever they are needed: what follows from them is then
// worked out again, while a register kept for it throughout the loop would be one too many.
__device__ __forceinline__ unsigned thread_number() {
    unsigned number;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
    return number;
}

__device__ __forceinline__ int block_number() {
    int number;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(number));
    return number;
}

// Closes a group of copies.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most Pending of this thread's groups are under way.
template <int Pending>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// Loads four 8 x 8 matrices; lane l gives the address of row l % 8 of matrix l / 8 and gets columns 2t, 2t + 1 of row g of each.
__device__ __forceinline__ void load_matrices(Operand& to, unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

// The same, but a lane gets rows 2t, 2t + 1 of column g.
__device__ __forceinline__ void load_transposed(Operand& to, unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

// sum (16 x 8) += left (16 x 16) * right (16 x 8). A lane holds column g of `right`: rows 2t, 2t + 1, then the same 8 further
// down.
__device__ __forceinline__ void multiply_add(Accumulator& sum, const Operand& left, unsigned right_top, unsigned right_bottom) {
#if IS_BF16
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
#endif
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_top), "r"(right_bottom));
}

// Two numbers rounded to the element type, `low` in the lower half.
__device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned both;
#if IS_BF16
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#endif
    return both;
}

// 2^x; 0 for minus infinity and wherever the result would be subnormal.
__device__ __forceinline__ float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ void store_shared(unsigned to, unsigned value) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}

__device__ __forceinline__ uint4 load_shared(unsigned from) {
    uint4 value;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(from)
                 : "memory");
    return value;
}

}  // namespace ptx

// Shared memory holds rows of d elements side by side: q, then for each stage a tile of k and a tile of v. ldmatrix reads one
// 16-byte chunk of 8 rows at once, which would hit the same banks in every row, so chunks are permuted within a row: among 8
// chunks (128 bytes) by the row number modulo 8; or, where a row isn't a multiple of 128 bytes (d = 96), among 4, by half the row
// number modulo 4, the other factor 2 coming from the 192-byte stride. Either way 8 rows cover all 32 banks once.
__device__ __forceinline__ int swizzled(int row, int chunk) {
    const int phase = span == 8 ? row & 7 : row >> 1 & 3;
    return row * row_bytes + ((chunk ^ phase) << 4);
}

// The swizzled offset of the chunk `step` times 16 elements to the right of one in the first two: an exclusive or within the
// span, and beyond it an addition, which goes into the load's immediate. Sixteen rows down, or eight with span 8, the phase is
// the same.
__device__ __forceinline__ unsigned right(unsigned offset, int step) {
    return (offset ^ (step % (span / 2) << 5)) + step / (span / 2) * (span * 16);
}

// Starts to copy d elements from `column` on of Rows rows, `stride` apart, to the tile at `to`; rows from `valid` on become zeros
// and aren't read, lest NaN reach the products. In each pass the threads take a power of two rows, so that the swizzle's phase
// seldom changes; with d = 96 some have nothing to do.
template <int Rows>
__device__ __forceinline__ void copy_rows(unsigned to, const Bits* from, int column, int stride, int valid) {
    static_assert(Rows % rows_per_pass == 0, "passes take whole tiles");
    const int number = ptx::thread_number(), first = number / chunks, chunk = number % chunks;
    if (threads != rows_per_pass * chunks && first >= rows_per_pass) return;
    from += first * stride + column + chunk * 8;
#pragma unroll
    for (int pass = 0; pass < Rows / rows_per_pass; ++pass) {
        const int row = first + pass * rows_per_pass;
        ptx::copy_async(to + swizzled(row, chunk), from, row < valid ? 16 : 0);
        from += rows_per_pass * stride;
    }
}

// Query row i sees keys max(0, i + low) to min(i + high, sk - 1). No mask is a band that is wide enough.
struct Band {
    int low, high;
};

__device__ __forceinline__ Band find_band(int sq, int sk, bool causal, int window) {
    const int edge = sk - sq;
    return {window > 0 ? edge - window : -sq, window > 0 || causal ? edge : sk};
}

// The value that all lanes of the warp have, as one that ptxas knows to be the same and keeps out of the vector registers.
__device__ __forceinline__ int uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

// What a block works on: `tiles` tiles of keys, and the first of them.
struct Work {
    int batch, head, first_row, first_tile, tiles;
};

// Blocks are numbered section by section of heads, and within a section the rows that see most keys come first, so that a long
// block doesn't run on when all others have ended.
__device__ __forceinline__ Work find_work(int sq, int sk, int h, int section, int heads, Band band) {
    const unsigned row_blocks = (sq + BLOCK_M - 1) / BLOCK_M, block = ptx::block_number();
    const unsigned start = block / (row_blocks * section) * section, width = min(static_cast<unsigned>(section), heads - start);
    const unsigned number = block - start * row_blocks, entry = start + number % width;
    const int first_row = (row_blocks - 1 - number / width) * BLOCK_M, last_row = min(first_row + BLOCK_M, sq) - 1;
    const int begin = max(0, first_row + band.low), end = min(sk, last_row + band.high + 1);
    const int first_tile = begin / TILE_N;
    const int tiles = end > begin ? (end + TILE_N - 1) / TILE_N - first_tile : 0;
    const unsigned batch = entry / static_cast<unsigned>(h), head = entry % static_cast<unsigned>(h);
    return {uniform(batch), uniform(head), uniform(first_row), uniform(first_tile), uniform(tiles)};
}

// The running state of a warp's rows. Thread t of a quad holds columns 2t, 2t + 1 of every 8 and its own part of `sum`.
struct Rows {
    float out[m_tiles][d_tiles][4];
    float top[m_tiles][2];  // largest score so far, before scaling; `lowest` at first, so that no infinities are subtracted
    float sum[m_tiles][2];
};

// The row that a lane addresses for ldmatrix in a 16 x 16 block of q: matrices 0 and 1 are rows 0 to 7 and 8 to 15 of columns 0
// to 7, matrices 2 and 3 those of columns 8 to 15, which is the order of an Operand. In a block of v, read transposed, it gives
// keys 0 to 7 and 8 to 15 (top and bottom of the right factor) of channels 0 to 7, then of channels 8 to 15.
__device__ __forceinline__ unsigned block_row() {
    const int lane = threadIdx.x % 32;
    return swizzled(lane % 16, lane / 16);
}

// The same in a block of k, whose rows are columns of the right factor: channels 0 to 7 and 8 to 15 (top and bottom) of keys 0 to
// 7, then of keys 8 to 15.
__device__ __forceinline__ unsigned key_row() {
    const int lane = threadIdx.x % 32;
    return swizzled(lane % 8 + lane / 16 * 8, lane / 8 % 2);
}

// The warp's rows of q as operands, where they are to stay in registers.
__device__ __forceinline__ void load_queries(unsigned (&held)[m_tiles][d_steps][4], unsigned q) {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int step = 0; step < d_steps; ++step)
            ptx::load_matrices(held[m][step], q + right(block_row(), step) + m * 16 * row_bytes);
}

// scores = q k^T; `q` is where the warp's rows begin in shared memory, `k` the tile.
__device__ __forceinline__ void multiply_keys(float (&scores)[m_tiles][n_tiles][4], unsigned q, unsigned k,
                                              const unsigned (&held)[m_tiles][d_steps][4]) {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) scores[m][n][i] = 0.0f;
#pragma unroll
    for (int step = 0; step < d_steps; ++step) {
        unsigned left[m_tiles][4];
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
            if (HOLD_Q) {
#pragma unroll
                for (int i = 0; i < 4; ++i) left[m][i] = held[m][step][i];
            } else {
                ptx::load_matrices(left[m], q + right(block_row(), step) + m * 16 * row_bytes);
            }
        }
#pragma unroll
        for (int n = 0; n < n_tiles; n += 2) {
            Operand keys;
            ptx::load_matrices(keys, k + right(key_row(), step) + n * 8 * row_bytes);
#pragma unroll
            for (int m = 0; m < m_tiles; ++m) {
                ptx::multiply_add(scores[m][n], left[m], keys[0], keys[1]);
                ptx::multiply_add(scores[m][n + 1], left[m], keys[2], keys[3]);
            }
        }
    }
}

// Scores of hidden keys become minus infinity. `row` is the warp's first row, `key` the tile's first key.
__device__ __forceinline__ void hide(float (&scores)[m_tiles][n_tiles][4], int row, int key, int sk, Band band) {
    const int lane = threadIdx.x % 32;
    const int own_row = row + lane / 4, own_key = key + lane % 4 * 2;  // this thread's first row and column
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int position = own_row + m * 16 + half * 8;
            const int first = position + band.low - own_key, last = min(position + band.high, sk - 1) - own_key;
#pragma unroll
            for (int n = 0; n < n_tiles; ++n)
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    if (n * 8 + i < first || n * 8 + i > last) scores[m][n][2 * half + i] = minus_infinity();
        }
}

// Moves the state to the maximum that includes these scores. After the first tiles most leave every maximum of the warp as it is.
__device__ __forceinline__ void raise_top(Rows& rows, const float (&scores)[m_tiles][n_tiles][4], float scale_log2) {
    float keep[m_tiles][2];
    bool raised = false;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float top = rows.top[m][half];
#pragma unroll
            for (int n = 0; n < n_tiles; ++n) top = fmaxf(top, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            keep[m][half] = ptx::exp2((rows.top[m][half] - top) * scale_log2);
            raised |= top != rows.top[m][half];
            rows.top[m][half] = top;
        }
    if (!__any_sync(0xffffffffu, raised)) return;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) rows.sum[m][half] *= keep[m][half];
#pragma unroll
        for (int n = 0; n < d_tiles; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) rows.out[m][n][i] *= keep[m][i / 2];
    }
}

// out += weights v, with weights exp(scale (score - top)), and sum += weights. The maximum is subtracted before scaling: a row's
// largest weight is then exactly 1, however large its scores. Two accumulator tiles of weights, rounded, are just the operand for
// 16 keys; the sum takes them unrounded. v lies with channels side by side, so its blocks are read transposed.
__device__ __forceinline__ void multiply_values(Rows& rows, const float (&scores)[m_tiles][n_tiles][4], unsigned v,
                                                float scale_log2) {
#pragma unroll
    for (int n = 0; n < n_tiles; n += 2) {
        unsigned left[m_tiles][4];
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float* pair = &scores[m][n + i / 2][i % 2 * 2];
                const float first = ptx::exp2((pair[0] - rows.top[m][i % 2]) * scale_log2);
                const float second = ptx::exp2((pair[1] - rows.top[m][i % 2]) * scale_log2);
                rows.sum[m][i % 2] += first + second;
                left[m][i] = ptx::pack(first, second);
            }
#pragma unroll
        for (int step = 0; step < d_steps; ++step) {
            Operand values;
            ptx::load_transposed(values, v + right(block_row(), step) + n * 8 * row_bytes);
#pragma unroll
            for (int m = 0; m < m_tiles; ++m) {
                ptx::multiply_add(rows.out[m][2 * step], left[m], values[0], values[1]);
                ptx::multiply_add(rows.out[m][2 * step + 1], left[m], values[2], values[3]);
            }
        }
    }
}

// Divides by the sums and writes the warp's first `valid` rows. `out` and `lse` point to the warp's first row; `memory` is the
// warp's own part of q in shared memory, where out is laid out for writes of 16 bytes.
__device__ __forceinline__ void finish(Rows& rows, unsigned memory, Bits* out, float* lse, int stride, int valid, float scale) {
    const int lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = m * 16 + half * 8 + lane / 4;
            float sum = rows.sum[m][half];
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            const float inverse = sum > 0.0f ? __fdividef(1.0f, sum) : 0.0f;
            const float total = sum > 0.0f ? fmaf(rows.top[m][half], scale, __logf(sum)) : minus_infinity();
            if (lane % 4 == 0 && row < valid) lse[row] = total;
#pragma unroll
            for (int n = 0; n < d_tiles; ++n) {
                const unsigned both = ptx::pack(rows.out[m][n][2 * half] * inverse, rows.out[m][n][2 * half + 1] * inverse);
                ptx::store_shared(memory + swizzled(row, n) + lane % 4 * 4, both);
            }
        }
    __syncwarp();
#pragma unroll
    for (int pass = 0; pass < rows_per_warp * chunks / 32; ++pass) {
        const int number = pass * 32 + lane, row = number / chunks, chunk = number % chunks;
        if (row < valid)
            *reinterpret_cast<uint4*>(out + static_cast<long long>(row) * stride + chunk * 8) =
                ptx::load_shared(memory + swizzled(row, chunk));
    }
}

extern "C" __global__ void __launch_bounds__(threads, blocks)
attention_forward(const Bits* __restrict__ q, const Bits* __restrict__ k, const Bits* __restrict__ v, Bits* __restrict__ out,
                  float* __restrict__ lse, float scale, int sq, int sk, int h, int hkv, int causal, int window, int section,
                  int heads, int group) {
    extern __shared__ __align__(128) unsigned char memory[];
    const unsigned q_tile = ptx::shared_address(memory), stages = q_tile + q_bytes;
    const int warp_row = uniform(threadIdx.x / 32) * rows_per_warp;
    const Band band = find_band(sq, sk, causal != 0, window);
    const Work work = find_work(sq, sk, h, section, heads, band);

    // Tile 0 is the last one along the keys. Offsets into tensors may pass 2^31 elements; numbers of rows, and offsets in a tile,
    // don't.
    const int q_stride = h * HEAD_DIM, kv_stride = hkv * HEAD_DIM;
    const int column = static_cast<unsigned>(work.head) / static_cast<unsigned>(group) * HEAD_DIM;  // of the head of k and v
    const auto first_key = [&](int tile) { return (work.first_tile + work.tiles - 1 - tile) * TILE_N; };
    const auto copy_tile = [&](unsigned to, const Bits* from, int tile) {
        const int key = first_key(tile);
        const long long row = work.batch * sk + key;
        copy_rows<TILE_N>(to, from + row * kv_stride, column, kv_stride, sk - key);
    };
    const auto stage = [&](int tile) { return stages + tile % DEPTH * 2 * tile_bytes; };

    const float lowest = -3.402823466e38f;  // of the finite numbers
    Rows rows;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int n = 0; n < d_tiles; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) rows.out[m][n][i] = 0.0f;
#pragma unroll
        for (int half = 0; half < 2; ++half) rows.top[m][half] = lowest, rows.sum[m][half] = 0.0f;
    }

    // A group of copies for each tile, the first together with q. With one stage v follows later, in a group of its own.
    if (work.tiles > 0) {
        const long long row = work.batch * sq + work.first_row;
        copy_rows<BLOCK_M>(q_tile, q + row * q_stride, work.head * HEAD_DIM, q_stride, sq - work.first_row);
#pragma unroll
        for (int tile = 0; tile < (DEPTH > 1 ? DEPTH - 1 : 1); ++tile) {
            if (tile < work.tiles) {
                copy_tile(stage(tile), k, tile);
                if (DEPTH > 1) copy_tile(stage(tile) + tile_bytes, v, tile);
            }
            ptx::commit_copies();
        }
    }

    const float scale_log2 = scale * 1.44269504088896341f;
    const int row = work.first_row + warp_row;  // the warp's first
    const unsigned own_q = q_tile + warp_row * row_bytes;
    unsigned held[m_tiles][d_steps][4];
    for (int tile = 0; tile < work.tiles; ++tile) {
        // This thread's copies of the tile have arrived; after the barrier everyone's have, and no warp reads the tile before.
        ptx::wait_copies<(DEPTH > 1 ? DEPTH - 2 : 0)>();
        __syncthreads();
        if (DEPTH == 1) {
            copy_tile(stage(tile) + tile_bytes, v, tile);
        } else if (const int next = tile + DEPTH - 1; next < work.tiles) {
            copy_tile(stage(next), k, next);
            copy_tile(stage(next) + tile_bytes, v, next);
        }
        ptx::commit_copies();

        if (HOLD_Q && tile == 0) load_queries(held, own_q);
        const int key = first_key(tile), last_key = min(row + band.high, sk - 1);  // of the warp's first row
        // A tile that no row of the warp sees; with one stage every warp is wanted at the next barrier.
        if (DEPTH > 1 && (key > last_key + rows_per_warp - 1 || key + TILE_N <= row + band.low)) continue;
        float scores[m_tiles][n_tiles][4];
        multiply_keys(scores, own_q, stage(tile), held);
        if (DEPTH == 1) {
            ptx::wait_copies<0>();
            __syncthreads();
            if (tile + 1 < work.tiles) copy_tile(stage(tile), k, tile + 1);
            ptx::commit_copies();
        }
        if (key < row + rows_per_warp - 1 + band.low || key + TILE_N - 1 > last_key) hide(scores, row, key, sk, band);
        raise_top(rows, scores, scale_log2);
        multiply_values(rows, scores, stage(tile) + tile_bytes, scale_log2);
    }

    // The block's numbers are worked out again, which is cheaper than registers for them throughout the loop.
    const Work done = find_work(sq, sk, h, section, heads, band);
    const int done_row = done.first_row + warp_row;
    finish(rows, own_q, out + ((static_cast<long long>(done.batch) * sq + done_row) * h + done.head) * HEAD_DIM,
           lse + (static_cast<long long>(done.batch) * h + done.head) * sq + done_row, q_stride, sq - done_row, scale);
}
