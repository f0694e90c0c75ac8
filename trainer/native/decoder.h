/// A dense decoder (Llama, Qwen2, Qwen3) over new tokens of several sequences, and the blocks of their earlier tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <sys/mman.h>
#include <vector>

#include "attention.h"
#include "choose.h"
#include "model.h"
#include "team.h"

namespace longhaul {

/// One thread computes a pass of fewer multiplications: to wait for others, which may be asleep, would take longer.
constexpr double kWorthSharing = 1e7;

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

/// Computes passes over one cache. One pass at a time.
class Decoder {
 public:
  Decoder(const Shape& shape, int blocks, int threads) : cache(blocks, shape.blockSize()), team_(threads) {}

  Cache cache;

  void forward(const Model& model, const Plan& plan) {
    const double work = plan.tokens * model.shape.layerWork() + plan.ends * model.shape.headWork();
    Team& team = work < kWorthSharing ? single_ : team_;
    Pass pass(model, plan, *this, team.size());
    team.run(pass);
  }

 private:
  struct Buffers {
    std::vector<float> x, projected, attended, gate, up, logits;
    /// One buffer per thread.
    std::vector<std::vector<float>> normalised, scores;
    /// Per thread: the phase for which it last normalised its rows.
    std::vector<int> normalisedIn;
    std::vector<std::vector<double>> weights;
    std::vector<int> position, sequence;
  };

  /// Queries of a sequence and a key-value head that share a tile.
  struct AttentionItem {
    int token, first;
  };

  /// Phases: embedding; five for each layer; logits; draws.
  class Pass final : public Job {
   public:
    Pass(const Model& model, const Plan& plan, Decoder& decoder, int threads)
        : model(model), plan(plan), decoder(decoder), shape(model.shape), room(&decoder.buffers_), threads(threads) {
      prepare();
    }

    int phases() const override { return 1 + kLayerPhases * shape.layers + 2; }

    int chunks(int phase) const override {
      const int layerPhase = (phase - 1) % kLayerPhases;
      if (phase == 0) return 1;
      if (phase == phases() - 2) return chunksOf(panels(shape.vocabulary), plan.ends * shape.headWork());
      if (phase == phases() - 1) return std::min(std::max(plan.ends, 1), kMostChunks);
      const double tokens = plan.tokens, wide = shape.headWidth();
      switch (layerPhase) {
        case 0: return chunksOf(projectedHeads(), tokens * hidden * shape.projected());
        case 1: return std::min(attentionItems(), kMostChunks);
        case 2: return chunksOf(panels(shape.hidden), tokens * shape.heads * wide * hidden);
        case 3: return chunksOf(panels(shape.inner), 2 * tokens * hidden * inner);
        default: return chunksOf(panels(shape.hidden), tokens * hidden * inner);
      }
    }

    void compute(int phase, int chunk, int thread) override {
      const Part part{chunk, chunks(phase)};
      if (phase == 0) return embed();
      if (phase == phases() - 2) return computeLogits(part, thread, phase);
      if (phase == phases() - 1) return draw(part, thread);
      const int index = (phase - 1) / kLayerPhases;
      const Layer& layer = model.layers[index];
      switch ((phase - 1) % kLayerPhases) {
        case 0: return project(part, thread, phase, layer, index);
        case 1: return attendAll(part, thread, index);
        case 2: return multiply(part, layer.output, room->attended.data(), heads, plan.tokens, room->x.data(), hidden, true);
        case 3: return feedForward(part, thread, phase, layer);
        default: return multiply(part, layer.down, room->gate.data(), inner, plan.tokens, room->x.data(), hidden, true);
      }
    }

   private:
    static constexpr int kLayerPhases = 5;
    /// Multiplications that are worth a chunk of their own.
    static constexpr double kChunkWork = 1e6;
    static constexpr int kChunksPerThread = 4;

    /// One of `chunks` chunks, and its range of `count` things.
    struct Part {
      int chunk, chunks;
      std::pair<int, int> of(int count) const {
        return {static_cast<int>(static_cast<long>(count) * chunk / chunks), static_cast<int>(static_cast<long>(count) * (chunk + 1) / chunks)};
      }
    };

    const Model& model;
    const Plan& plan;
    Decoder& decoder;
    const Shape& shape;
    Buffers* room;
    int threads;
    int hidden = 0, inner = 0, heads = 0;
    std::vector<int> rawRows{};
    std::vector<AttentionItem> items{};

    int chunksOf(int things, double work) const {
      if (threads == 1) return 1;
      const int worth = static_cast<int>(std::min(work / kChunkWork, static_cast<double>(kChunksPerThread * threads)));
      return std::max(1, std::min({worth, things, kMostChunks}));
    }
    int projectedHeads() const { return shape.heads + 2 * shape.kvHeads; }
    int attentionItems() const { return static_cast<int>(items.size()) * shape.kvHeads; }

    static void grow(std::vector<float>& buffer, size_t size) {
      if (buffer.size() < size) buffer.resize(size);
    }

    void prepare() {
      hidden = padded(shape.hidden);
      inner = padded(shape.inner);
      heads = shape.heads * shape.headWidth();
      const size_t tokens = plan.tokens;
      grow(room->x, tokens * hidden);
      grow(room->projected, tokens * shape.projected());
      grow(room->attended, tokens * heads);
      grow(room->gate, tokens * inner);
      grow(room->up, tokens * inner);
      grow(room->logits, static_cast<size_t>(plan.ends) * padded(shape.vocabulary));
      room->normalised.resize(threads);
      room->normalisedIn.assign(threads, -1);
      room->scores.resize(threads);
      room->weights.resize(threads);
      room->position.resize(tokens);
      room->sequence.resize(tokens);
      int longest = 0;
      for (int s = 0; s < plan.sequences; s++) {
        for (int t = plan.starts[s]; t < plan.starts[s + 1]; t++) {
          room->sequence[t] = s;
          room->position[t] = plan.begins[s] + t - plan.starts[s];
          longest = std::max(longest, room->position[t] + 1);
        }
        const int queries = (plan.starts[s + 1] - plan.starts[s]) * shape.group();
        for (int first = 0; first < queries; first += kTileRows) items.push_back({plan.starts[s], first});
      }
      for (auto& normalised : room->normalised) grow(normalised, std::max<size_t>(tokens, plan.ends) * hidden);
      for (auto& scores : room->scores) grow(scores, kTileRows * (padded(longest) + 2 * shape.headWidth()));
      for (auto& weights : room->weights) weights.resize(shape.vocabulary + 4);
      int raw = 0;
      for (int e = 0; e < plan.ends; e++) rawRows.push_back(std::isnan(plan.temperatures[e]) ? raw++ : -1);
    }

    void normalise(const float* from, float* to, const std::vector<float>& weight) const {
      Floats squares = all(0);
      for (int i = 0; i < hidden; i += kLanes) squares += load(from + i) * load(from + i);
      const Floats scale = all(1.0f / std::sqrt(sumOf(squares) / shape.hidden + shape.epsilon));
      for (int i = 0; i < hidden; i += kLanes) store(to + i, load(from + i) * scale * load(weight.data() + i));
    }

    /// Normalised rows of `x`: all, or those of the ends. Each thread computes them itself: faster than to wait.
    const float* normalised(int thread, int phase, const std::vector<float>& weight, const int* rows, int count) const {
      float* to = room->normalised[thread].data();
      if (room->normalisedIn[thread] == phase) return to;
      for (int i = 0; i < count; i++) normalise(room->x.data() + static_cast<size_t>(rows == nullptr ? i : rows[i]) * hidden, to + static_cast<size_t>(i) * hidden, weight);
      room->normalisedIn[thread] = phase;
      return to;
    }

    void multiply(const Part& part, const Packed& matrix, const float* a, int lda, int rows, float* c, int ldc, bool add) const {
      const auto [first, last] = part.of(panels(matrix.columns()));
      matrix.multiply(a, lda, rows, c, ldc, first, last, add);
    }

    /// Qwen3's norm of a head, and rotary embedding (RoFormer, Su et al. 2021, eq. 34; halves instead of pairs).
    void turn(float* head, const std::vector<float>& weight, int position, float scale) const {
      const int half = shape.headDim / 2;
      if (shape.headNorms) {
        float squares = 0;
        for (int i = 0; i < shape.headDim; i++) squares += head[i] * head[i];
        const float inverse = 1.0f / std::sqrt(squares / shape.headDim + shape.epsilon);
        for (int i = 0; i < shape.headDim; i++) head[i] = head[i] * inverse * weight[i];
      }
      const float* cosine = model.cosines.data() + static_cast<size_t>(position) * half;
      const float* sine = model.sines.data() + static_cast<size_t>(position) * half;
      for (int i = 0; i < half; i++) {
        const float low = head[i] * scale, high = head[half + i] * scale;
        head[i] = low * cosine[i] - high * sine[i];
        head[half + i] = high * cosine[i] + low * sine[i];
      }
    }

    size_t headOffset(int layer, int kvHead, bool values) const {
      return (2 * static_cast<size_t>(layer) + values) * shape.blockHalf() + static_cast<size_t>(kvHead) * kBlock * shape.headWidth();
    }

    /// Queries, keys and values of some heads; keys and values go to the cache.
    void project(const Part& part, int thread, int phase, const Layer& layer, int index) const {
      const int wide = shape.headWidth(), width = shape.projected(), perHead = wide / kPanel;
      const auto [first, last] = part.of(projectedHeads());
      const float* rows = normalised(thread, phase, layer.inputNorm, nullptr, plan.tokens);
      layer.projection.multiply(rows, hidden, plan.tokens, room->projected.data(), width, first * perHead, last * perHead, false);
      for (int t = 0; t < plan.tokens; t++) {
        float* row = room->projected.data() + static_cast<size_t>(t) * width;
        if (shape.biases) for (int i = first * wide; i < last * wide; i++) row[i] += layer.bias[i];
        for (int h = first; h < last; h++) finishHead(layer, index, t, h, row + h * wide);
      }
    }

    void finishHead(const Layer& layer, int index, int token, int h, float* head) const {
      const int wide = shape.headWidth(), position = room->position[token];
      if (h < shape.heads) return turn(head, layer.queryNorm, position, 1.0f / std::sqrt(static_cast<float>(shape.headDim)));
      const int block = plan.tables[plan.tableStarts[room->sequence[token]] + position / kBlock];
      float* to = decoder.cache.data() + block * decoder.cache.blockSize;
      if (h < shape.heads + shape.kvHeads) {
        turn(head, layer.keyNorm, position, 1);
        float* keys = to + headOffset(index, h - shape.heads, false) + position % kBlock;
        for (int i = 0; i < shape.headDim; i++) keys[i * kBlock] = head[i];
      } else {
        std::copy(head, head + wide, to + headOffset(index, h - shape.heads - shape.kvHeads, true) + position % kBlock * wide);
      }
    }

    void attendItem(const AttentionItem& item, int kvHead, int layer, std::vector<float>& scratch) const {
      const int wide = shape.headWidth(), group = shape.group(), sequence = room->sequence[item.token];
      const int queries = (plan.starts[sequence + 1] - item.token) * group;
      const int rows = std::min(kTileRows, queries - item.first);
      float* gathered = scratch.data();
      float* out = gathered + kTileRows * wide;
      int seen[kTileRows];
      const auto headOf = [&](int r) { return kvHead * group + (item.first + r) % group; };
      const auto tokenOf = [&](int r) { return static_cast<size_t>(item.token + (item.first + r) / group); };
      for (int r = 0; r < rows; r++) {
        const float* from = room->projected.data() + tokenOf(r) * shape.projected() + headOf(r) * wide;
        std::copy(from, from + wide, gathered + r * wide);
        seen[r] = room->position[tokenOf(r)] + 1;
      }
      const HeadBlocks head{decoder.cache.data(), plan.tables + plan.tableStarts[sequence], decoder.cache.blockSize,
                            headOffset(layer, kvHead, false), headOffset(layer, kvHead, true), shape.headDim};
      attend(head, gathered, rows, seen, out + kTileRows * wide, out);
      for (int r = 0; r < rows; r++) std::copy(out + r * wide, out + (r + 1) * wide, room->attended.data() + tokenOf(r) * heads + headOf(r) * wide);
    }

    void attendAll(const Part& part, int thread, int layer) const {
      const auto [first, last] = part.of(attentionItems());
      for (int i = first; i < last; i++) attendItem(items[i / shape.kvHeads], i % shape.kvHeads, layer, room->scores[thread]);
    }

    /// SwiGLU (Shazeer 2020), without the last product.
    void feedForward(const Part& part, int thread, int phase, const Layer& layer) const {
      const float* rows = normalised(thread, phase, layer.innerNorm, nullptr, plan.tokens);
      multiply(part, layer.gate, rows, hidden, plan.tokens, room->gate.data(), inner, false);
      multiply(part, layer.up, rows, hidden, plan.tokens, room->up.data(), inner, false);
      const auto [first, last] = part.of(panels(shape.inner));
      for (int t = 0; t < plan.tokens; t++) {
        float* gate = room->gate.data() + static_cast<size_t>(t) * inner;
        const float* up = room->up.data() + static_cast<size_t>(t) * inner;
        for (int i = first * kPanel; i < last * kPanel; i += kLanes) {
          const Floats value = load(gate + i);
          store(gate + i, value / (all(1) + exponential(-value)) * load(up + i));
        }
      }
    }

    void embed() const {
      for (size_t t = 0; t < static_cast<size_t>(plan.tokens); t++) {
        float* row = room->x.data() + t * hidden;
        model.embed(plan.ids[t], row);
        std::fill(row + shape.hidden, row + hidden, 0.0f);
      }
    }

    void computeLogits(const Part& part, int thread, int phase) const {
      const float* ends = normalised(thread, phase, model.norm, plan.endTokens, plan.ends);
      multiply(part, model.head(), ends, hidden, plan.ends, room->logits.data(), padded(shape.vocabulary), false);
    }

    void draw(const Part& part, int thread) const {
      const auto [first, last] = part.of(plan.ends);
      for (int e = first; e < last; e++) {
        const float* logits = room->logits.data() + static_cast<size_t>(e) * padded(shape.vocabulary);
        if (rawRows[e] >= 0) {
          std::copy(logits, logits + shape.vocabulary, plan.logits + static_cast<size_t>(rawRows[e]) * shape.vocabulary);
          continue;
        }
        const Chosen drawn = choose(logits, shape.vocabulary, plan.limit, plan.temperatures[e], plan.uniforms[e], room->weights[thread].data());
        plan.chosen[e] = drawn.token;
        plan.logprobs[e] = drawn.logprob;
      }
    }
  };

  Team team_;
  Team single_{1};
  Buffers buffers_;
};

}  // namespace longhaul
