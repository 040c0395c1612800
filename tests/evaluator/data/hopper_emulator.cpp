// Runs the kernel of seeds/hopper.cu on a CPU, one fibre a thread, in a random order of warps. The sections of the source that hold
// no PTX are compiled as they are; this file stands for its section "Instructions" and for what CUDA builds in.
//
// Loads arrive in any order, stores happen as late as the kernel's waits allow, and wgmma at either end of its time, so that a
// missing wait shows as a wrong number; a wait that never ends shows as a deadlock. Layouts: PTX ISA, chapters "Tensors" (swizzle
// modes) and "Asynchronous warpgroup level matrix operations".

#include <setjmp.h>
#include <ucontext.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define __grid_constant__
#define __launch_bounds__(threads, blocks)
#define threadIdx (me->index)
#define blockIdx (me->cta->index)
#define gridDim grid

using std::max;
using std::min;

struct Index { unsigned x; };
static Index grid;
static std::mt19937 chance;
static long progress = 0;  // anything that happened; a long time without is a deadlock

struct Gathering { int arrived = 0; long round = 0; };
struct Barrier { int count = 0, pending = 0; long bytes = 0; unsigned phase = 0; };
struct Product { float* d; int width; bool from_registers, add; unsigned a[4]; unsigned long long a_at, b_at; };
struct Cta;
struct Fibre {
  ucontext_t start;
  jmp_buf at;
  std::vector<char> stack;
  bool started = false, finished = false;
  Index index;
  Cta* cta;
  std::deque<std::vector<Product>> groups;  // committed products that have not run
  std::vector<Product> open;
};
struct Warp { Gathering gathering; unsigned long long values[2][32]; };
struct Cta {
  Index index;
  std::vector<unsigned char> memory;
  std::vector<Fibre> fibres;
  std::vector<Warp> warps;
  Gathering all, groups[8], named[16];
  std::map<unsigned, Barrier> barriers;
  std::vector<std::function<void()>> loads;
  std::map<unsigned, std::vector<std::function<void()>>> stores;  // by thread
};
static Fibre* me;
static jmp_buf scheduler;

static void pause() {
  if (!_setjmp(me->at)) _longjmp(scheduler, 1);
}
static void fail(const char* what) { std::printf("%s\n", what); std::fflush(stdout); std::_Exit(2); }
static void gather(Gathering& g, int count, const std::function<void()>& last = [] {}) {
  const long round = g.round;
  if (++g.arrived == count) { last(); g.arrived = 0; g.round++; progress++; }
  while (g.round == round) pause();
}
static Warp& my_warp() { return me->cta->warps[me->index.x / 32]; }
static unsigned char* memory_at(unsigned address, unsigned bytes) {
  if (address + bytes > me->cta->memory.size()) fail("shared memory out of bounds");
  return &me->cta->memory[address];
}

// ---- what CUDA builds in
template <class T> T exchange(T value, int source) {
  Warp& warp = my_warp();
  const int turn = warp.gathering.round & 1;
  std::memcpy(&warp.values[turn][me->index.x & 31], &value, sizeof value);
  gather(warp.gathering, 32);
  std::memcpy(&value, &warp.values[turn][source], sizeof value);
  return value;
}
template <class T> T __shfl_sync(unsigned, T value, int source) { return exchange(value, source); }
template <class T> T __shfl_xor_sync(unsigned, T value, int mask) { return exchange(value, (me->index.x & 31) ^ mask); }
static void __syncthreads() { gather(me->cta->all, me->cta->fibres.size()); }
static void __threadfence() {}
static int atomicAdd(int* at, int value) { const int old = *at; *at += value; progress++; return old; }
static float __int_as_float(unsigned bits) { float value; std::memcpy(&value, &bits, 4); return value; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fdividef(float a, float b) { return a / b; }
#define __logf natural_logarithm
static float __logf(float a) { return std::log(a); }

#include "before.inc"

// ---- stands for the section "Instructions"
static const unsigned long long EVICT_FIRST = 1, EVICT_LAST = 2;
static u32 shared_base() { return 0; }
template <int N> void fewer_registers() {}
template <int N> void more_registers() {}

static Barrier& barrier_at(u32 address) {
  const auto found = me->cta->barriers.find(address);
  if (found == me->cta->barriers.end()) fail("a barrier that was not initialised");
  return found->second;
}
static void settle(Barrier& bar) {
  if (bar.pending < 0) fail("a barrier with too many arrivals");
  if (bar.pending == 0 && bar.bytes == 0) { bar.phase ^= 1; bar.pending = bar.count; }
  progress++;
}
static void barrier_init(u32 address, u32 count) {
  memory_at(address, 8);
  Barrier& bar = me->cta->barriers[address];
  bar.count = bar.pending = count;
}
static void barriers_ready() {}
static void barrier_expect(u32 address, u32 bytes) { Barrier& bar = barrier_at(address); bar.bytes += bytes; bar.pending--; settle(bar); }
static void barrier_arrive(u32 address) { Barrier& bar = barrier_at(address); bar.pending--; settle(bar); }
static void barrier_wait(u32 address, u32 parity) { while (barrier_at(address).phase == (parity & 1)) pause(); }
static void named_sync(int id, int threads) { gather(me->cta->named[id], threads); }
static void named_arrive(int id, int threads) {
  Gathering& g = me->cta->named[id];
  if (++g.arrived == threads) { g.arrived = 0; g.round++; }
  progress++;
}

// A map as the host gives it: the tensor's memory, sizes, strides and box, innermost axis first.
struct Map { unsigned char* tensor; long dims[5], strides[5], box[5]; int swizzle; };
static u32 swizzled(u32 address, int width) {
  return width == 128 ? address ^ (address >> 3 & 0x70) : width == 64 ? address ^ (address >> 3 & 0x30) : address;
}
static void prepare(const TensorMap* map, Map& out) { std::memcpy(&out, reinterpret_cast<const void*>(map->opaque[0]), sizeof out); }
static void move_box(Cta* cta, const Map& map, u32 shared, const long (&at)[5], bool load) {
  long i[5];
  for (i[4] = 0; i[4] < map.box[4]; i[4]++) for (i[3] = 0; i[3] < map.box[3]; i[3]++) for (i[2] = 0; i[2] < map.box[2]; i[2]++)
  for (i[1] = 0; i[1] < map.box[1]; i[1]++) for (i[0] = 0; i[0] < map.box[0]; i[0]++) {
    long place = 0, offset = 0;
    bool inside = true;
    for (int axis = 4; axis >= 0; axis--) {
      const long coordinate = at[axis] + i[axis];
      inside &= coordinate >= 0 && coordinate < map.dims[axis];
      offset += coordinate * map.strides[axis];
      place = place * map.box[axis] + i[axis];
    }
    const u32 address = swizzled(shared + 2 * place, map.swizzle);
    if (address + 2 > cta->memory.size()) fail("a box out of bounds");
    if (load && inside) std::memcpy(&cta->memory[address], map.tensor + offset, 2);
    if (load && !inside) std::memset(&cta->memory[address], 0, 2);
    if (!load && inside) std::memcpy(map.tensor + offset, &cta->memory[address], 2);
  }
}
static void tma_prefetch(const TensorMap*) {}
template <unsigned long long POLICY> void tma_load(u32 to, const TensorMap* described, u32 bar, int row, int head, int batch) {
  Map map;
  prepare(described, map);
  Cta* cta = me->cta;
  if (to % 1024 != 0 && map.swizzle == 128) fail("a buffer that is not aligned to its swizzle");
  if (to % 512 != 0) fail("a buffer that is not aligned to its swizzle");
  cta->loads.push_back([=] {
    move_box(cta, map, to, {0, row, 0, head, batch}, true);
    Barrier& barrier = cta->barriers.at(bar);
    barrier.bytes -= map.box[0] * map.box[1] * map.box[2] * 2;
    settle(barrier);
  });
}
static void tma_store(u32 from, const TensorMap* described, int row, int head, int batch) {
  Map map;
  prepare(described, map);
  Cta* cta = me->cta;
  cta->stores[me->index.x].push_back([=] { move_box(cta, map, from, {0, row, 0, head, batch}, false); });
}
static void tma_store_read() { for (auto& store : me->cta->stores[me->index.x]) store(); me->cta->stores[me->index.x].clear(); }
static void tma_store_done() { tma_store_read(); }
static void shared_writes_to_tma() {}

static void put4(u32 to, int a, int b, int c, int d) { const int all[4] = {a, b, c, d}; std::memcpy(memory_at(to, 16), all, 16); }
static void get4(u32 from, int& a, int& b, int& c, int& d) {
  int all[4];
  std::memcpy(all, memory_at(from, 16), 16);
  a = all[0]; b = all[1]; c = all[2]; d = all[3];
}
static void put_matrices(u32 to, u32 a, u32 b, u32 c, u32 d) {
  const u32 values[4] = {a, b, c, d};
  const int lane = me->index.x & 31;
  for (int matrix = 0; matrix < 4; matrix++) {
    const u32 row = exchange(to, matrix * 8 + lane / 4);   // the address that the lane of this row gave
    std::memcpy(memory_at(row + lane % 4 * 4, 4), &values[matrix], 4);
  }
}
static void put_global(unsigned short* to, const u32 (&a)[4]) { std::memcpy(to, a, 16); }
static float exp2_approx(float x) { return x < -126.f ? 0.f : std::exp2(x); }

static float decode(unsigned short bits) {
#if HALF
  _Float16 value;
  std::memcpy(&value, &bits, 2);
  return value;
#else
  return __int_as_float((u32)bits << 16);
#endif
}
static unsigned short encode(float value, [[maybe_unused]] bool saturate) {
#if HALF
  if (saturate) value = max(-65504.f, min(65504.f, value));
  const _Float16 half = value;
  unsigned short bits;
  std::memcpy(&bits, &half, 2);
  return bits;
#else
  u32 bits;
  std::memcpy(&bits, &value, 4);
  return std::isnan(value) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#endif
}
static u32 pack(float low, float high) { return encode(low, false) | (u32)encode(high, false) << 16; }
static u32 pack_output(float low, float high) { return encode(low, true) | (u32)encode(high, true) << 16; }
template <class T> void pin(T&) {}

// ---- wgmma: products are noted by each thread; a warpgroup's run when it commits them or when it waits for them, by chance
static void wgmma_fence() {}
template <int N> void wgmma_shared(float (&d)[N], u64 a, u64 b, int add) { me->open.push_back({d, 2 * N, false, add != 0, {}, a, b}); }
template <int N> void wgmma_registers(float (&d)[N], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  me->open.push_back({d, 2 * N, true, true, {a0, a1, a2, a3}, 0, b});
}
static float element(Cta* cta, u64 descriptor, int line, int column, bool transposed) {
  const u32 start = (descriptor & 0x3FFF) << 4, leading = (descriptor >> 16 & 0x3FFF) << 4, stride = (descriptor >> 32 & 0x3FFF) << 4;
  const int width = descriptor >> 62 == 1 ? 128 : descriptor >> 62 == 2 ? 64 : 0;
  if (width == 0) fail("a descriptor with an unknown swizzle");
  const u32 offset = transposed ? line / (width / 2) * leading + column / 8 * stride + column % 8 * width + line % (width / 2) * 2
                                : line / 8 * stride + line % 8 * width + column * 2;
  unsigned short bits;
  std::memcpy(&bits, &cta->memory.at(swizzled(start + offset, width)), 2);
  return decode(bits);
}
static void multiply(Fibre* threads, size_t number) {
  const Product one = threads[0].groups.front()[number];
  static float a[64][16], b[16][256], c[64][256];
  for (int k = 0; k < 16; k++) for (int n = 0; n < one.width; n++) b[k][n] = element(threads->cta, one.b_at, n, k, one.from_registers);
  for (int thread = 0; thread < 128; thread++) {
    const Product& mine = threads[thread].groups.front()[number];
    if (mine.b_at != one.b_at || mine.add != one.add || mine.width != one.width) fail("wgmma with different operands");
    const int row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
    for (int i = 0; i < mine.width / 2; i++) c[row + (i & 2) * 4][i / 4 * 8 + column + (i & 1)] = mine.add ? mine.d[i] : 0.f;
    if (!mine.from_registers) continue;
    for (int i = 0; i < 8; i++) a[row + (i & 2) * 4][column + (i & 1) + (i & 4) * 2] = decode(mine.a[i / 2] >> 16 * (i & 1));
  }
  if (!one.from_registers) for (int m = 0; m < 64; m++) for (int k = 0; k < 16; k++) a[m][k] = element(threads->cta, one.a_at, m, k, false);
  for (int m = 0; m < 64; m++) {
    double sums[256];                                      // one rounding an instruction, as tensor cores do more or less
    for (int n = 0; n < one.width; n++) sums[n] = c[m][n];
    for (int k = 0; k < 16; k++) for (int n = 0; n < one.width; n++) sums[n] += (double)a[m][k] * b[k][n];
    for (int n = 0; n < one.width; n++) c[m][n] = sums[n];
  }
  for (int thread = 0; thread < 128; thread++) {
    const Product& mine = threads[thread].groups.front()[number];
    const int row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
    for (int i = 0; i < mine.width / 2; i++) mine.d[i] = c[row + (i & 2) * 4][i / 4 * 8 + column + (i & 1)];
  }
}
static void run_products(size_t left, bool now) {
  const int number = me->index.x / 128;
  Fibre* threads = &me->cta->fibres[number * 128];
  gather(me->cta->groups[number], 128, [=] {
    while (now && threads[0].groups.size() > left) {
      for (size_t i = 0; i < threads[0].groups.front().size(); i++) multiply(threads, i);
      for (int thread = 0; thread < 128; thread++) threads[thread].groups.pop_front();
    }
  });
}
static void wgmma_commit() {
  me->groups.push_back(me->open);
  me->open.clear();
  run_products(0, chance() % 2);
}
template <int N> void wgmma_wait() { run_products(N, true); }

#include "after.inc"

// ---- the host: a description on stdin, q k v out lse counter as one file that is read and written
static long number() { long value; if (std::scanf("%ld", &value) != 1) fail("a number is missing"); return value; }
static std::vector<std::vector<unsigned char>> buffers;
static TensorMap maps[4];
static Map described[4];
static float scale;
static int integers[7];

static void run_fibre() {
  attention_forward(maps[0], maps[1], maps[2], maps[3], reinterpret_cast<unsigned short*>(buffers[3].data()),
                    reinterpret_cast<float*>(buffers[4].data()), reinterpret_cast<int*>(buffers[5].data()), scale, integers[0], integers[1],
                    integers[2], integers[3], integers[4], integers[5], integers[6]);
  me->finished = true;
  progress++;
  _longjmp(scheduler, 1);
}
static void turn(Fibre& fibre) {
  me = &fibre;
  if (_setjmp(scheduler)) return;
  if (fibre.started) _longjmp(fibre.at, 1);
  fibre.started = true;
  setcontext(&fibre.start);
}
static std::unique_ptr<Cta> block(unsigned index, int threads, long shared_bytes) {
  auto cta = std::make_unique<Cta>();
  cta->index = {index};
  cta->memory.assign(shared_bytes - 1024, 0xff);           // 1024 bytes are there for alignment; the rest begins as NaN
  cta->warps.resize(threads / 32);
  cta->fibres.resize(threads);
  for (int i = 0; i < threads; i++) {
    Fibre& fibre = cta->fibres[i];
    fibre.index = {(unsigned)i};
    fibre.cta = cta.get();
    fibre.stack.resize(128 << 10);
    getcontext(&fibre.start);
    fibre.start.uc_stack.ss_sp = fibre.stack.data();
    fibre.start.uc_stack.ss_size = fibre.stack.size();
    makecontext(&fibre.start, run_fibre, 0);
  }
  return cta;
}
int main(int, char** arguments) {
  chance.seed(number());
  const int blocks = number(), threads = number();
  const long shared_bytes = number();
  for (int& value : integers) value = number();
  if (std::scanf("%f", &scale) != 1) fail("the scale is missing");
  FILE* file = std::fopen(arguments[1], "rb");
  for (int i = 0; i < 6; i++) {
    buffers.emplace_back(number());
    if (std::fread(buffers[i].data(), 1, buffers[i].size(), file) != buffers[i].size()) fail("the file is short");
  }
  std::fclose(file);
  for (int i = 0; i < 4; i++) {
    described[i].tensor = buffers[i].data();
    described[i].swizzle = number();
    for (long& value : described[i].dims) value = number();
    for (long& value : described[i].strides) value = number();
    for (long& value : described[i].box) value = number();
    maps[i].opaque[0] = reinterpret_cast<u64>(&described[i]);
  }
  grid = {(unsigned)blocks};
  std::vector<std::unique_ptr<Cta>> ctas;
  std::vector<std::pair<Cta*, int>> warps;
  for (int i = 0; i < blocks; i++) ctas.push_back(block(i, threads, shared_bytes));
  for (auto& cta : ctas) for (int i = 0; i < threads / 32; i++) warps.emplace_back(cta.get(), i);
  for (int idle = 0; idle < 200;) {
    const long before = progress;
    std::shuffle(warps.begin(), warps.end(), chance);
    bool all = true;
    for (auto& [cta, warp] : warps) {
      for (int lane = 0; lane < 32; lane++) if (!cta->fibres[warp * 32 + lane].finished) { turn(cta->fibres[warp * 32 + lane]); all = false; }
    }
    for (auto& cta : ctas) {
      if (cta->loads.empty() || chance() % 6 != 0) continue;   // late enough that a missing wait shows
      const size_t which = chance() % cta->loads.size();
      auto load = cta->loads[which];
      cta->loads.erase(cta->loads.begin() + which);
      load();
    }
    if (all) {
      for (auto& cta : ctas) for (auto& [thread, stores] : cta->stores) if (!stores.empty()) fail("the kernel ended before a store was done");
      for (auto& cta : ctas) for (auto& gathering : cta->named) if (gathering.arrived) fail("an arrival was left over");
      file = std::fopen(arguments[1], "wb");
      for (auto& buffer : buffers) std::fwrite(buffer.data(), 1, buffer.size(), file);
      std::fclose(file);
      return 0;
    }
    bool loading = false;
    for (auto& cta : ctas) loading |= !cta->loads.empty();
    idle = progress == before && !loading ? idle + 1 : 0;
  }
  fail("deadlock");
}
