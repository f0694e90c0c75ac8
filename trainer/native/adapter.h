/// A low-rank adapter's matrices, packed for the decoder. Nothing of it is added to the base's weights: rows of a pass
/// that have the adapter get y + B (A x), where y is the base's product.
#pragma once

#include <string>
#include <vector>

#include "model.h"

namespace longhaul {

/// W + B A in place of W, with the scaling in B. Rank 0: the module has no adapter.
struct LowRank {
  int rank;
  /// `[inputs, rank]` and `[rank, columns]`, with the inputs and columns of the base's packed matrix.
  Packed a, b;

  LowRank(int rank, int inputs, int columns) : rank(rank), a(rank > 0 ? inputs : 0, rank), b(rank, rank > 0 ? columns : 0) {}
};

/// Modules that an adapter may change: those of each layer, then the head.
enum Module { kQueries, kKeys, kValues, kOutputs, kGates, kUps, kDowns, kModulesOfLayer };
enum Side { kSideA, kSideB };

class Adapter {
 public:
  /// `ranks`: of each layer's modules, then of the head.
  Adapter(const Shape& given, const int* ranks) : shape_(given), most_(0) {
    const int wide = shape_.headWidth(), hidden = shape_.hidden, inner = shape_.inner;
    const int queries = shape_.heads * wide, keys = shape_.kvHeads * wide;
    const int inputs[] = {hidden, hidden, hidden, queries, hidden, hidden, inner};
    const int columns[] = {queries, keys, keys, hidden, inner, inner, hidden};
    const auto add = [&](int rank, int in, int out) {
      if (rank < 0) throw std::string("a rank is negative");
      most_ = std::max(most_, rank);
      modules_.emplace_back(rank, in, out);
    };
    modules_.reserve(static_cast<size_t>(shape_.layers) * kModulesOfLayer + 1);
    for (int layer = 0; layer < shape_.layers; layer++)
      for (int m = 0; m < kModulesOfLayer; m++) add(*ranks++, inputs[m], columns[m]);
    add(*ranks, hidden, shape_.vocabulary);
  }

  const LowRank& at(int layer, Module module) const { return modules_[static_cast<size_t>(layer) * kModulesOfLayer + module]; }
  const LowRank& head() const { return modules_.back(); }
  int mostRank() const { return most_; }
  /// True if a pass of a model of this shape can have the adapter.
  bool fits(const Shape& shape) const {
    return shape.vocabulary == shape_.vocabulary && shape.hidden == shape_.hidden && shape.inner == shape_.inner && shape.layers == shape_.layers &&
           shape.heads == shape_.heads && shape.kvHeads == shape_.kvHeads && shape.headDim == shape_.headDim;
  }

  /// Packs A `[rank, inputs]` or B `[outputs, rank]` of the module with this number; B is multiplied by `scaling`.
  void fill(int number, Side side, float scaling, const float* values, size_t count) {
    if (number < 0 || static_cast<size_t>(number) >= modules_.size()) throw std::string("there is no such module");
    const int head = shape_.layers * kModulesOfLayer, m = number == head ? -1 : number % kModulesOfLayer;
    LowRank& module = modules_[number];
    const size_t inputs = m == kOutputs ? shape_.heads * shape_.headDim : m == kDowns ? shape_.inner : shape_.hidden;
    if (module.rank == 0 || count % module.rank != 0) throw std::string("the values do not fit the module");
    if (side == kSideA) return fillA(module, values, count, inputs, m == kOutputs);
    const size_t outputs = m < 0                                       ? shape_.vocabulary
                           : m == kQueries                             ? shape_.heads * shape_.headDim
                           : m == kKeys || m == kValues                ? shape_.kvHeads * shape_.headDim
                           : m == kGates || m == kUps                  ? shape_.inner
                                                                       : shape_.hidden;
    fillB(module, values, count, outputs, m == kQueries || m == kKeys || m == kValues, scaling);
  }

 private:
  /// Where the base's packed matrix has a number of a head: heads are padded.
  int inHeads(int i) const { return i / shape_.headDim * shape_.headWidth() + i % shape_.headDim; }

  void fillA(LowRank& module, const float* values, size_t count, size_t inputs, bool ofHeads) const {
    if (count != inputs * module.rank) throw std::string("the values do not fit the module");
    for (int r = 0; r < module.rank; r++)
      module.a.setColumn(r, values + r * inputs, static_cast<int>(inputs), [&](int i) { return ofHeads ? inHeads(i) : i; });
  }

  void fillB(LowRank& module, const float* values, size_t count, size_t outputs, bool toHeads, float scaling) const {
    if (count != outputs * module.rank) throw std::string("the values do not fit the module");
    std::vector<float> scaled(module.rank);
    for (size_t o = 0; o < outputs; o++) {
      for (int r = 0; r < module.rank; r++) scaled[r] = values[o * module.rank + r] * scaling;
      const int column = static_cast<int>(o);
      module.b.setColumn(toHeads ? inHeads(column) : column, scaled.data(), module.rank, [](int i) { return i; });
    }
  }

  const Shape shape_;
  int most_;
  std::vector<LowRank> modules_;
};

}  // namespace longhaul
