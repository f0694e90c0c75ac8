/// What a pass computes, and the memory for keys and values that it works over.
#pragma once

#include <algorithm>
#include <string>
#include <sys/mman.h>

#include "adapter.h"

namespace longhaul {

/// Blocks of keys and values. Only blocks that are written take memory.
class Cache {
 public:
  const int blocks;
  const size_t blockSize;

  Cache(int count, size_t size) : blocks(count), blockSize(size) {
    void* at = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::string("no memory for the key-value cache");
    data_ = static_cast<float*>(at);
  }
  ~Cache() { munmap(data_, bytes()); }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  float* data() const { return data_; }
  void copy(int from, int to) { std::copy(data_ + from * blockSize, data_ + (from + 1) * blockSize, data_ + to * blockSize); }

 private:
  size_t bytes() const { return sizeof(float) * blocks * blockSize; }
  float* data_;
};

/// One pass. Sequence s has the new tokens `starts[s]` to `starts[s + 1] - 1`, the first of them at position
/// `begins[s]`, and its blocks from `tables + tableStarts[s]` on.
struct Plan {
  int tokens, sequences;
  const int *ids, *starts, *begins, *tables, *tableStarts;
  /// `[sequences]`: the adapter of each, or null. Sequences of one adapter that stand together are multiplied together.
  const Adapter* const* adapters;
  /// New tokens whose logits are wanted: each with a temperature for a draw (0 is greedy), or NaN for the logits.
  int ends;
  const int* endTokens;
  const double *temperatures, *uniforms;
  /// Only ids below it are drawn.
  int limit;
  /// Results: `chosen` and `logprobs` `[ends]`, and the requested rows of logits, in order.
  int* chosen;
  double* logprobs;
  float* logits;
};

}  // namespace longhaul
