/// Threads that compute the phases of a job together: a phase starts when every chunk of the one before is done.
/// Threads take chunks when they are ready. So a thread that the system pauses delays the others only if it holds one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
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

/// Work for a team. Chunks of one phase may be computed at the same time, in any order.
class Job {
 public:
  virtual ~Job() = default;
  virtual int phases() const = 0;
  /// 1 to `kMostChunks`.
  virtual int chunks(int phase) const = 0;
  virtual void compute(int phase, int chunk, int thread) = 0;
};

constexpr int kMostChunks = 65535;

class Team {
 public:
  explicit Team(int size) : size_(size < 1 ? 1 : size) {
    for (int i = 1; i < size_; i++) workers_.emplace_back([this, i] { serve(i); });
  }

  ~Team() {
    ended_ = true;
    publish(Ticket{static_cast<uint32_t>(open_ + 1), 0, 0});
    for (std::thread& worker : workers_) worker.join();
  }

  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  /// Returns when the job is done. One job at a time.
  void run(Job& job) {
    job_ = &job;
    first_ = open_ + 1;
    last_ = open_ + job.phases();
    open(first_);
    for (;;) {
      const uint64_t word = ticket_.load();
      if (static_cast<int32_t>(Ticket(word).phase - last_) > 0) break;
      if (!take(word, 0)) await(word);
    }
    open_ = last_ + 1;
  }

 private:
  static constexpr int kSpins = 2000;

  /// The open phase, its number of chunks, and the next one to take: in one word, so that a chunk is taken only while
  /// its phase is open. While a thread holds a chunk, the job cannot end.
  struct Ticket {
    uint32_t phase;
    uint16_t chunks, next;
    Ticket(uint32_t phase, uint16_t chunks, uint16_t next) : phase(phase), chunks(chunks), next(next) {}
    explicit Ticket(uint64_t word) : phase(static_cast<uint32_t>(word >> 32)), chunks(static_cast<uint16_t>(word >> 16)), next(static_cast<uint16_t>(word)) {}
    uint64_t word() const { return static_cast<uint64_t>(phase) << 32 | static_cast<uint64_t>(chunks) << 16 | next; }
  };

  void open(uint32_t phase) {
    const bool over = static_cast<int32_t>(phase - last_) > 0;
    done_.store(0);
    publish(Ticket{phase, static_cast<uint16_t>(over ? 0 : job_->chunks(static_cast<int>(phase - first_))), 0});
  }

  void publish(Ticket ticket) {
    ticket_.store(ticket.word());
    // A thread counts itself as a sleeper before it checks the ticket for the last time.
    if (sleepers_.load() == 0) return;
    std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  }

  /// Computes the next chunk, if one is left. The thread that ends a phase's last chunk opens the next phase.
  bool take(uint64_t word, int thread) {
    const Ticket ticket(word);
    if (ticket.next >= ticket.chunks) return false;
    if (!ticket_.compare_exchange_strong(word, word + 1)) return true;
    job_->compute(static_cast<int>(ticket.phase - first_), ticket.next, thread);
    if (done_.fetch_add(1) + 1 == ticket.chunks) open(ticket.phase + 1);
    return true;
  }

  void await(uint64_t word) {
    for (int spins = 0; spins < kSpins; spins++) {
      if (ticket_.load() != word) return;
      relax();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    changed_.wait(lock, [&] { return ticket_.load() != word; });
    sleepers_.fetch_sub(1);
  }

  void serve(int thread) {
    while (!ended_) {
      const uint64_t word = ticket_.load();
      if (!take(word, thread)) await(word);
    }
  }

  const int size_;
  Job* job_ = nullptr;
  /// Phases of all jobs are counted together; the count may wrap around.
  uint32_t open_ = 0, first_ = 0, last_ = 0;
  std::atomic<uint64_t> ticket_{0};
  std::atomic<int> done_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> ended_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> workers_;
};

}  // namespace longhaul
