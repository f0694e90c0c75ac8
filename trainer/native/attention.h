/// Softmax attention over blocks of the key-value cache (Vaswani et al. 2017, eq. 1). A query's result depends on the
/// query and on the positions that it sees, in their order. Neither the other queries in its tile nor the places of the
/// blocks change a bit.
#pragma once

#include <cmath>

#include "product.h"

namespace longhaul {

/// Positions of a block: the columns of a panel.
constexpr int kBlock = kPanel;

/// One head's keys `[headDim, kBlock]` and values `[kBlock, headDim padded]` in each block of a sequence.
struct HeadBlocks {
  const float* cache;
  /// The sequence's blocks, in order.
  const int* table;
  /// Floats from one block to the next, and from a block's start to the head's keys and values in this layer.
  size_t blockSize;
  size_t keys;
  size_t values;
  int headDim;
};

/// Replaces one query's scores, `[seen]`, by undivided softmax weights, and those up to `width` by 0. Returns the sum.
inline float soften(float* scores, int seen, int width) {
  Floats most = all(-INFINITY);
  int i = 0;
  for (; i + kLanes <= seen; i += kLanes) most = larger(load(scores + i), most);
  float largest = largestOf(most);
  for (int j = i; j < seen; j++) largest = scores[j] > largest ? scores[j] : largest;
  Floats sum = all(0);
  const Floats lane = {0, 1, 2, 3, 4, 5, 6, 7};
  for (i = 0; i < seen; i += kLanes) {
    Floats weight = exponential(load(scores + i) - all(largest));
    if (i + kLanes > seen) weight = lane < all(static_cast<float>(seen - i)) ? weight : all(0);
    store(scores + i, weight);
    sum += weight;
  }
  for (; i < width; i += kLanes) store(scores + i, all(0));
  return sumOf(sum);
}

/// Attends with up to `kTileRows` queries `[rows, headDim]`; row r sees `seen[r]` positions. `out`: `[rows, headDim
/// padded]`; `scores`: room for `[rows, positions padded]`.
inline void attend(const HeadBlocks& head, const float* queries, int rows, const int* seen, float* scores, float* out) {
  int most = 0;
  for (int r = 0; r < rows; r++) most = seen[r] > most ? seen[r] : most;
  const int blocks = (most + kBlock - 1) / kBlock, width = blocks * kBlock, wide = padded(head.headDim);
  const auto blockAt = [&](int b, size_t part) { return head.cache + head.table[b] * head.blockSize + part; };
  const bool pairs = rows <= kPairRows;
  for (int b = 0; b < blocks; b++) {
    float* to = scores + b * kBlock;
    if (!pairs || b + 1 == blocks) {
      tileOf(rows, queries, wide, blockAt(b, head.keys), kBlock, to, width, head.headDim, false);
      continue;
    }
    tilePairOf(rows, queries, wide, blockAt(b, head.keys), blockAt(b + 1, head.keys), kBlock, to, to + kBlock, width, head.headDim, false);
    b += 1;
  }
  float sums[kTileRows];
  for (int r = 0; r < rows; r++) sums[r] = soften(scores + r * width, seen[r], width);
  for (int b = 0; b < blocks; b++) {
    const float* values = blockAt(b, head.values);
    // Reads only the written part of the last block: the rest may hold anything.
    const int depth = most - b * kBlock < kBlock ? most - b * kBlock : kBlock;
    int c = 0;
    if (pairs) for (; c + kPanel < wide; c += 2 * kPanel) tilePairOf(rows, scores + b * kBlock, width, values + c, values + c + kPanel, wide, out + c, out + c + kPanel, wide, depth, b > 0);
    for (; c < wide; c += kPanel) tileOf(rows, scores + b * kBlock, width, values + c, wide, out + c, wide, depth, b > 0);
  }
  for (int r = 0; r < rows; r++) {
    for (int c = 0; c < wide; c++) out[r * wide + c] /= sums[r];
  }
}

}  // namespace longhaul
