/// Products with packed matrices. An element of the result adds its inputs one after the other, first to last: its bits
/// depend on its own row and column alone, for any number of rows, threads and blocks.
#pragma once

#include <cstddef>
#include <vector>

#include "lanes.h"

namespace longhaul {

/// Columns that are computed together: two vectors.
constexpr int kPanel = 16;
/// Inputs of a panel that stay in the L1 cache while all rows are multiplied.
constexpr int kDepth = 256;
/// Rows whose inputs stay in the L2 cache while all panels are multiplied.
constexpr int kRows = 96;

inline int panels(int columns) { return (columns + kPanel - 1) / kPanel; }
inline int padded(int columns) { return panels(columns) * kPanel; }

/// `R` rows by one panel: c = (add ? c : 0) + a @ b, where row i of b is at `b + i * stride`.
template <int R>
inline void tile(const float* a, ptrdiff_t lda, const float* b, ptrdiff_t stride, float* c, ptrdiff_t ldc, int depth, bool add) {
  Floats left[R], right[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; r++) {
    left[r] = add ? load(c + r * ldc) : all(0);
    right[r] = add ? load(c + r * ldc + kLanes) : all(0);
  }
  for (int i = 0; i < depth; i++, b += stride) {
    const Floats b0 = load(b), b1 = load(b + kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
      const Floats value = all(a[r * lda + i]);
      left[r] += value * b0;
      right[r] += value * b1;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; r++) {
    store(c + r * ldc, left[r]);
    store(c + r * ldc + kLanes, right[r]);
  }
}

/// Two panels at once, c0 with b0 and c1 with b1: with few rows, registers are free for a second one.
template <int R>
inline void tilePair(const float* a, ptrdiff_t lda, const float* b0, const float* b1, ptrdiff_t stride, float* c0, float* c1, ptrdiff_t ldc,
                     int depth, bool add) {
  Floats sums[R][4];
#pragma GCC unroll 2
  for (int r = 0; r < R; r++) {
    sums[r][0] = add ? load(c0 + r * ldc) : all(0);
    sums[r][1] = add ? load(c0 + r * ldc + kLanes) : all(0);
    sums[r][2] = add ? load(c1 + r * ldc) : all(0);
    sums[r][3] = add ? load(c1 + r * ldc + kLanes) : all(0);
  }
  for (int i = 0; i < depth; i++, b0 += stride, b1 += stride) {
    const Floats v0 = load(b0), v1 = load(b0 + kLanes), v2 = load(b1), v3 = load(b1 + kLanes);
#pragma GCC unroll 2
    for (int r = 0; r < R; r++) {
      const Floats value = all(a[r * lda + i]);
      sums[r][0] += value * v0;
      sums[r][1] += value * v1;
      sums[r][2] += value * v2;
      sums[r][3] += value * v3;
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < R; r++) {
    store(c0 + r * ldc, sums[r][0]);
    store(c0 + r * ldc + kLanes, sums[r][1]);
    store(c1 + r * ldc, sums[r][2]);
    store(c1 + r * ldc + kLanes, sums[r][3]);
  }
}

/// Panels are computed in pairs up to so many rows.
constexpr int kPairRows = 2;

inline void tilePairOf(int rows, const float* a, ptrdiff_t lda, const float* b0, const float* b1, ptrdiff_t stride, float* c0, float* c1,
                       ptrdiff_t ldc, int depth, bool add) {
  if (rows == 1) tilePair<1>(a, lda, b0, b1, stride, c0, c1, ldc, depth, add);
  else tilePair<2>(a, lda, b0, b1, stride, c0, c1, ldc, depth, add);
}

/// `tile` for a number of rows that is known at run time: 1 to 6.
inline void tileOf(int rows, const float* a, ptrdiff_t lda, const float* b, ptrdiff_t stride, float* c, ptrdiff_t ldc, int depth, bool add) {
  switch (rows) {
    case 1: return tile<1>(a, lda, b, stride, c, ldc, depth, add);
    case 2: return tile<2>(a, lda, b, stride, c, ldc, depth, add);
    case 3: return tile<3>(a, lda, b, stride, c, ldc, depth, add);
    case 4: return tile<4>(a, lda, b, stride, c, ldc, depth, add);
    case 5: return tile<5>(a, lda, b, stride, c, ldc, depth, add);
    default: return tile<6>(a, lda, b, stride, c, ldc, depth, add);
  }
}

constexpr int kTileRows = 6;

/// `[inputs, columns]`, panel by panel; the last one is padded with zeros.
class Packed {
 public:
  Packed(int inputs, int columns) : inputs_(inputs), columns_(columns), data_(static_cast<size_t>(inputs) * padded(columns)) {}

  /// Sets column `to` from the `inputs` values at `from`; input `i` goes to row `rowOf(i)`.
  template <typename RowOf>
  void setColumn(int to, const float* from, int inputs, RowOf rowOf) {
    float* panel = data_.data() + static_cast<size_t>(to / kPanel) * inputs_ * kPanel + to % kPanel;
    for (int i = 0; i < inputs; i++) panel[static_cast<size_t>(rowOf(i)) * kPanel] = from[i];
  }

  /// Reads the first `inputs` inputs of column `from`.
  void column(int from, float* to, int inputs) const {
    const float* panel = data_.data() + static_cast<size_t>(from / kPanel) * inputs_ * kPanel + from % kPanel;
    for (int i = 0; i < inputs; i++) to[i] = panel[static_cast<size_t>(i) * kPanel];
  }

  int columns() const { return columns_; }

  /// Computes panels `first` to `last - 1` of c = (add ? c : 0) + a @ this.
  void multiply(const float* a, ptrdiff_t lda, int rows, float* c, ptrdiff_t ldc, int first, int last, bool add) const {
    for (int top = 0; top < rows; top += kRows) {
      const int count = rows - top < kRows ? rows - top : kRows;
      int panel = first;
      if (count <= kPairRows) for (; panel + 1 < last; panel += 2) multiplyPair(a + top * lda, lda, count, c + top * ldc + panel * kPanel, ldc, panel, add);
      for (; panel < last; panel++) multiplyPanel(a + top * lda, lda, count, c + top * ldc + panel * kPanel, ldc, panel, add);
    }
  }

 private:
  void multiplyPair(const float* a, ptrdiff_t lda, int rows, float* c, ptrdiff_t ldc, int panel, bool add) const {
    const size_t size = static_cast<size_t>(inputs_) * kPanel;
    const float* b = data_.data() + panel * size;
    tilePairOf(rows, a, lda, b, b + size, kPanel, c, c + kPanel, ldc, inputs_, add);
  }

  void multiplyPanel(const float* a, ptrdiff_t lda, int rows, float* c, ptrdiff_t ldc, int panel, bool add) const {
    const float* b = data_.data() + static_cast<size_t>(panel) * inputs_ * kPanel;
    const int tiles = (rows + kTileRows - 1) / kTileRows;
    for (int from = 0; from < inputs_; from += kDepth) {
      const int depth = inputs_ - from < kDepth ? inputs_ - from : kDepth;
      int row = 0;
      for (int t = 0; t < tiles; t++) {
        const int count = (rows - row + tiles - t - 1) / (tiles - t);
        tileOf(count, a + row * lda + from, lda, b + static_cast<size_t>(from) * kPanel, kPanel, c + row * ldc, ldc, depth, add || from > 0);
        row += count;
      }
    }
  }

  int inputs_;
  int columns_;
  std::vector<float> data_;
};

}  // namespace longhaul
