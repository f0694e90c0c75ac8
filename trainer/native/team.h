/// Threads that run one function together, each with its number, and meet at barriers.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace longhaul {

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

class Team {
 public:
  explicit Team(int size) : size_(size < 1 ? 1 : size) {
    for (int i = 1; i < size_; i++) workers_.emplace_back([this, i] { serve(i); });
  }

  ~Team() {
    job_ = nullptr;
    round_.fetch_add(1);
    round_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  /// Returns when every thread has returned from `job(number)`.
  void run(const std::function<void(int)>& job) {
    job_ = &job;
    round_.fetch_add(1);
    round_.notify_all();
    job(0);
    barrier();
  }

  /// No thread leaves before all have come. Whoever waits longer than a step takes sleeps: another process may have the core.
  void barrier() {
    if (size_ == 1) return;
    const int phase = phase_.load();
    if (arrived_.fetch_add(1) + 1 == size_) {
      arrived_.store(0);
      phase_.store(phase + 1);
      phase_.notify_all();
      return;
    }
    for (int spins = 0; phase_.load() == phase && spins < kSpins; spins++) relax();
    phase_.wait(phase);
  }

 private:
  static constexpr int kSpins = 2000;

  void serve(int number) {
    for (int seen = 0;;) {
      for (int spins = 0; round_.load() == seen && spins < kSpins; spins++) relax();
      round_.wait(seen);
      seen += 1;
      if (job_ == nullptr) return;
      (*job_)(number);
      barrier();
    }
  }

  const int size_;
  const std::function<void(int)>* job_ = nullptr;
  std::atomic<int> round_{0};
  std::atomic<int> arrived_{0};
  std::atomic<int> phase_{0};
  std::vector<std::thread> workers_;
};

}  // namespace longhaul
