// The threads of an exported CPU kernel: they take task numbers from one counter until none is left.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

using Kernel = void (*)(long task, void* const* args);

namespace {

struct Pool {
    std::mutex turn, state;
    std::condition_variable begun, ended;
    std::vector<std::thread> threads;
    unsigned long batch = 0;
    long working = 0, tasks = 0;
    std::atomic<long> next{0};
    Kernel kernel = nullptr;
    void* const* args = nullptr;

    void take() {
        for (long task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) kernel(task, args);
    }
    void work() {
        unsigned long seen = 0;
        for (;;) {
            {
                std::unique_lock<std::mutex> lock(state);
                begun.wait(lock, [&] { return batch != seen; });
                seen = batch;
            }
            take();
            std::lock_guard<std::mutex> lock(state);
            if (--working == 0) ended.notify_one();
        }
    }
};

}  // namespace

// A pool of `threads`, the caller's among them; it lives until the process ends.
extern "C" void* pool_new(int threads) {
    Pool* pool = new Pool;
    for (int i = 1; i < threads; i++) pool->threads.emplace_back([pool] { pool->work(); });
    return pool;
}

// Runs every task of one launch; calls from several threads take turns.
extern "C" void pool_run(void* handle, Kernel kernel, void* const* args, long tasks) {
    Pool* pool = static_cast<Pool*>(handle);
    std::lock_guard<std::mutex> turn(pool->turn);
    {
        std::lock_guard<std::mutex> lock(pool->state);
        pool->kernel = kernel;
        pool->args = args;
        pool->tasks = tasks;
        pool->next = 0;
        pool->working = static_cast<long>(pool->threads.size());
        pool->batch++;
    }
    pool->begun.notify_all();
    pool->take();
    std::unique_lock<std::mutex> lock(pool->state);
    pool->ended.wait(lock, [&] { return pool->working == 0; });
}
