/// A policy's weights, packed for the decoder; memory holds no other copy.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "attention.h"
#include "product.h"

namespace longhaul {

struct Shape {
  int vocabulary, hidden, inner, layers, heads, kvHeads, headDim, positions;
  bool headNorms, biases;
  /// The head is the embedding.
  bool tied;
  float epsilon;

  int group() const { return heads / kvHeads; }
  /// Floats from one head to the next; the padding is zero.
  int headWidth() const { return padded(headDim); }
  /// Floats of a token's queries, keys and values.
  int projected() const { return (heads + 2 * kvHeads) * headWidth(); }
  /// Floats of a block's keys, or of its values, in one layer.
  size_t blockHalf() const { return static_cast<size_t>(kvHeads) * kBlock * headWidth(); }
  size_t blockSize() const { return 2 * blockHalf() * layers; }
  /// Multiplications for one token, and for one row of logits, without attention.
  double layerWork() const { return static_cast<double>(layers) * hidden * (projected() + heads * headWidth() + 3.0 * inner); }
  double headWork() const { return static_cast<double>(hidden) * vocabulary; }
};

struct Layer {
  std::vector<float> inputNorm, queryNorm, keyNorm, bias, innerNorm;
  Packed projection, output, gate, up, down;
};

/// Numbers of the policy's tensors in Hugging Face's layout: a few, then `kTensorsOfLayer` for each layer.
enum Tensor { kEmbedding, kNorm, kHead, kFirstOfLayers };
enum LayerTensor {
  kInputNorm, kQuery, kKey, kValue, kOutput, kInnerNorm, kGate, kUp, kDown, kQueryNorm, kKeyNorm, kQueryBias, kKeyBias, kValueBias,
  kTensorsOfLayer
};

/// Packed weights. They are filled piece by piece, so that memory never holds whole tensors beside them.
class Model {
 public:
  const Shape shape;

  Model(const Shape& given, const float* angleCosines, const float* angleSines)
      : shape(given),
        cosines(angleCosines, angleCosines + angles()),
        sines(angleSines, angleSines + angles()),
        norm(padded(given.hidden)),
        embedding_(given.tied ? 0 : static_cast<size_t>(given.vocabulary) * given.hidden),
        head_(given.hidden, given.vocabulary) {
    layers.reserve(shape.layers);
    for (int i = 0; i < shape.layers; i++) layers.push_back(emptyLayer());
  }

  /// Packs `count` values of a tensor, from index `from` on: whole rows of a matrix.
  void fill(int tensor, size_t from, const float* values, size_t count) {
    const auto part = [&](size_t rows, size_t columns) {
      if (from % columns != 0 || count % columns != 0 || from / columns + count / columns > rows) throw std::string("the values do not fit the tensor");
      return Part{values, static_cast<int>(from / columns), static_cast<int>(count / columns), static_cast<int>(columns)};
    };
    if (tensor == kEmbedding && !shape.tied) return part(shape.vocabulary, shape.hidden).copyTo(embedding_.data());
    if (tensor == kEmbedding || (tensor == kHead && !shape.tied)) return part(shape.vocabulary, shape.hidden).pack(head_);
    if (tensor == kNorm) return part(shape.hidden, 1).copyTo(norm.data());
    const int layer = (tensor - kFirstOfLayers) / kTensorsOfLayer;
    if (tensor < kFirstOfLayers || layer >= shape.layers) throw std::string("there is no such tensor");
    fillLayer(layers[layer], static_cast<LayerTensor>((tensor - kFirstOfLayers) % kTensorsOfLayer), part);
  }

  const Packed& head() const { return head_; }
  /// The embedding of a token; a tied one is the head's column.
  void embed(int id, float* row) const {
    if (shape.tied) return head_.column(id, row, shape.hidden);
    const float* from = embedding_.data() + static_cast<size_t>(id) * shape.hidden;
    std::copy(from, from + shape.hidden, row);
  }

  std::vector<float> cosines, sines, norm;
  std::vector<Layer> layers;

 private:
  /// Some rows `[outputs, inputs]` of a matrix, or numbers of a vector.
  struct Part {
    const float* values;
    int first, rows, columns;

    void copyTo(float* vector) const { std::copy(values, values + static_cast<size_t>(rows) * columns, vector + static_cast<size_t>(first) * columns); }
    /// Rows become columns, row r the column `columnOf(r)`, its input i at `inputOf(i)`.
    template <typename ColumnOf, typename InputOf>
    void pack(Packed& packed, ColumnOf columnOf, InputOf inputOf) const {
      for (int r = 0; r < rows; r++) packed.setColumn(columnOf(first + r), values + static_cast<size_t>(r) * columns, columns, inputOf);
    }
    void pack(Packed& packed) const {
      pack(packed, [](int r) { return r; }, [](int i) { return i; });
    }
    /// Rows of heads; each head has `headWidth` columns.
    void packHeads(Packed& packed, int firstHead, const Shape& shape) const {
      pack(packed, [&](int r) { return (firstHead + r / shape.headDim) * shape.headWidth() + r % shape.headDim; }, [](int i) { return i; });
    }
    void copyHeads(float* bias, int firstHead, const Shape& shape) const {
      for (int r = 0; r < rows; r++) bias[(firstHead + (first + r) / shape.headDim) * shape.headWidth() + (first + r) % shape.headDim] = values[r];
    }
  };

  size_t angles() const { return static_cast<size_t>(shape.positions) * (shape.headDim / 2); }

  Layer emptyLayer() const {
    const int hidden = shape.hidden, wide = shape.headWidth();
    const size_t norms = shape.headNorms ? shape.headDim : 0, biases = shape.biases ? shape.projected() : 0;
    const auto zeros = [](size_t size) { return std::vector<float>(size, 0.0f); };
    return {zeros(padded(hidden)), zeros(norms), zeros(norms), zeros(biases), zeros(padded(hidden)),
            Packed(hidden, shape.projected()), Packed(shape.heads * wide, hidden),
            Packed(hidden, shape.inner), Packed(hidden, shape.inner), Packed(shape.inner, hidden)};
  }

  template <typename PartOf>
  void fillLayer(Layer& layer, LayerTensor tensor, PartOf part) const {
    const int hidden = shape.hidden, headDim = shape.headDim, wide = shape.headWidth();
    const int queries = shape.heads * headDim, keys = shape.kvHeads * headDim;
    const int firstKey = shape.heads, firstValue = shape.heads + shape.kvHeads;
    switch (tensor) {
      case kInputNorm: return part(hidden, 1).copyTo(layer.inputNorm.data());
      case kQuery: return part(queries, hidden).packHeads(layer.projection, 0, shape);
      case kKey: return part(keys, hidden).packHeads(layer.projection, firstKey, shape);
      case kValue: return part(keys, hidden).packHeads(layer.projection, firstValue, shape);
      case kOutput: return part(hidden, queries).pack(layer.output, [](int r) { return r; }, [&](int i) { return i / headDim * wide + i % headDim; });
      case kInnerNorm: return part(hidden, 1).copyTo(layer.innerNorm.data());
      case kGate: return part(shape.inner, hidden).pack(layer.gate);
      case kUp: return part(shape.inner, hidden).pack(layer.up);
      case kDown: return part(hidden, shape.inner).pack(layer.down);
      case kQueryNorm: return part(layer.queryNorm.size(), 1).copyTo(layer.queryNorm.data());
      case kKeyNorm: return part(layer.keyNorm.size(), 1).copyTo(layer.keyNorm.data());
      case kQueryBias: return part(shape.biases ? queries : 0, 1).copyHeads(layer.bias.data(), 0, shape);
      case kKeyBias: return part(shape.biases ? keys : 0, 1).copyHeads(layer.bias.data(), firstKey, shape);
      case kValueBias: return part(shape.biases ? keys : 0, 1).copyHeads(layer.bias.data(), firstValue, shape);
      default: throw std::string("there is no such tensor");
    }
  }

  std::vector<float> embedding_;
  Packed head_;
};

}  // namespace longhaul
