/// A dense decoder (Llama, Qwen2, Qwen3) over new tokens of several sequences, and the blocks of their earlier tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "adapter.h"
#include "choose.h"
#include "plan.h"
#include "team.h"

namespace longhaul {

/// One thread computes a pass of fewer multiplications: to wait for others, which may be asleep, would take longer.
constexpr double kWorthSharing = 1e7;

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
    std::vector<float> x, projected, attended, gate, up, logits, low;
    /// One buffer per thread.
    std::vector<std::vector<float>> normalised, scores;
    /// Per thread: the norm by which it last normalised its rows, counted from the first layer's.
    std::vector<int> normalisedIn;
    std::vector<std::vector<double>> weights;
    std::vector<int> position, sequence;
  };

  /// Queries of a sequence and a key-value head that share a tile.
  struct AttentionItem {
    int token, first;
  };

  /// Consecutive tokens, and consecutive ends, of sequences that have one adapter.
  struct Adapted {
    const Adapter* adapter;
    int first, last, firstEnd, lastEnd;
  };

  enum Step { kEmbed, kLowProject, kProject, kAttend, kLowOutput, kOutput, kLowFeed, kFeed, kLowDown, kDown, kLowLogits, kLogits, kDraw };

  /// Phases: embedding; the steps of each layer; logits; draws. A step `kLow…` computes A x of the rows with an adapter,
  /// and the step after it adds B (A x): only passes with such rows have these phases.
  class Pass final : public Job {
   public:
    Pass(const Model& model, const Plan& plan, Decoder& decoder, int threads)
        : model(model), plan(plan), decoder(decoder), shape(model.shape), room(&decoder.buffers_), threads(threads) {
      prepare();
    }

    int phases() const override { return 1 + static_cast<int>(steps.size()) * shape.layers + (adapted.empty() ? 2 : 3); }

    int chunks(int phase) const override {
      const double tokens = plan.tokens, wide = shape.headWidth(), rank = lowPart;
      switch (at(phase).step) {
        case kEmbed: return 1;
        case kLowProject: return chunksOf(plan.tokens, tokens * hidden * 3 * rank);
        case kProject: return chunksOf(projectedHeads(), tokens * hidden * shape.projected());
        case kAttend: return std::min(attentionItems(), kMostChunks);
        case kLowOutput: return chunksOf(plan.tokens, tokens * heads * rank);
        case kOutput: return chunksOf(panels(shape.hidden), tokens * shape.heads * wide * hidden);
        case kLowFeed: return chunksOf(plan.tokens, tokens * hidden * 2 * rank);
        case kFeed: return chunksOf(panels(shape.inner), 2 * tokens * hidden * inner);
        case kLowDown: return chunksOf(plan.tokens, tokens * inner * rank);
        case kDown: return chunksOf(panels(shape.hidden), tokens * hidden * inner);
        case kLowLogits: return chunksOf(plan.ends, plan.ends * hidden * rank);
        case kLogits: return chunksOf(panels(shape.vocabulary), plan.ends * shape.headWork());
        default: return std::min(std::max(plan.ends, 1), kMostChunks);
      }
    }

    void compute(int phase, int chunk, int thread) override {
      const Part part{chunk, chunks(phase)};
      const auto [step, index] = at(phase);
      if (step == kEmbed) return embed();
      if (step == kLowLogits) return lower(part.of(plan.ends), ends(thread), hidden, index, {kModulesOfLayer});
      if (step == kLogits) return computeLogits(part, thread);
      if (step == kDraw) return draw(part, thread);
      const Layer& layer = model.layers[index];
      const auto tokens = part.of(plan.tokens);
      switch (step) {
        case kLowProject: return lower(tokens, normalised(thread, 2 * index, layer.inputNorm, nullptr, plan.tokens), hidden, index, {kQueries, kKeys, kValues});
        case kProject: return project(part, thread, layer, index);
        case kAttend: return attendAll(part, thread, index);
        case kLowOutput: return lower(tokens, room->attended.data(), heads, index, {kOutputs});
        case kOutput: return multiply(part, layer.output, room->attended.data(), heads, plan.tokens, room->x.data(), hidden, true, index, kOutputs);
        case kLowFeed: return lower(tokens, normalised(thread, 2 * index + 1, layer.innerNorm, nullptr, plan.tokens), hidden, index, {kGates, kUps});
        case kFeed: return feedForward(part, thread, layer, index);
        case kLowDown: return lower(tokens, room->gate.data(), inner, index, {kDowns});
        default: return multiply(part, layer.down, room->gate.data(), inner, plan.tokens, room->x.data(), hidden, true, index, kDowns);
      }
    }

   private:
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
    std::vector<Adapted> adapted{};
    std::vector<Step> steps{};
    /// Floats of A x of one module, and of a row of `room->low`.
    int lowPart = 0, lowWidth = 0;

    struct At {
      Step step;
      /// The layer's number, or the number of layers.
      int layer;
    };
    At at(int phase) const {
      const int perLayer = static_cast<int>(steps.size());
      if (phase == 0) return {kEmbed, 0};
      if (phase <= perLayer * shape.layers) return {steps[(phase - 1) % perLayer], (phase - 1) / perLayer};
      return {static_cast<Step>(kDraw + 1 - (phases() - phase)), shape.layers};
    }

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
      prepareAdapters();
      for (auto& normalised : room->normalised) grow(normalised, std::max<size_t>(tokens, plan.ends) * hidden);
      for (auto& scores : room->scores) grow(scores, kTileRows * (padded(longest) + 2 * shape.headWidth()));
      for (auto& weights : room->weights) weights.resize(shape.vocabulary + 4);
      int raw = 0;
      for (int e = 0; e < plan.ends; e++) rawRows.push_back(std::isnan(plan.temperatures[e]) ? raw++ : -1);
    }

    void prepareAdapters() {
      int mostRank = 0, end = 0;
      for (int s = 0; s < plan.sequences; s++) {
        const int first = plan.starts[s], last = plan.starts[s + 1], firstEnd = end;
        while (end < plan.ends && plan.endTokens[end] < last) end++;
        const Adapter* adapter = plan.adapters[s];
        if (adapter == nullptr) continue;
        mostRank = std::max(mostRank, adapter->mostRank());
        if (!adapted.empty() && adapted.back().adapter == adapter && adapted.back().last == first) {
          adapted.back().last = last;
          adapted.back().lastEnd = end;
        } else {
          adapted.push_back({adapter, first, last, firstEnd, end});
        }
      }
      if (adapted.empty()) {
        steps = {kProject, kAttend, kOutput, kFeed, kDown};
        return;
      }
      steps = {kLowProject, kProject, kAttend, kLowOutput, kOutput, kLowFeed, kFeed, kLowDown, kDown};
      lowPart = padded(mostRank);
      lowWidth = 3 * lowPart;
      grow(room->low, static_cast<size_t>(std::max(plan.tokens, plan.ends)) * lowWidth);
    }

    void normalise(const float* from, float* to, const std::vector<float>& weight) const {
      Floats squares = all(0);
      for (int i = 0; i < hidden; i += kLanes) squares += load(from + i) * load(from + i);
      const Floats scale = all(1.0f / std::sqrt(sumOf(squares) / shape.hidden + shape.epsilon));
      for (int i = 0; i < hidden; i += kLanes) store(to + i, load(from + i) * scale * load(weight.data() + i));
    }

    /// Normalised rows of `x`: all, or those of the ends. Each thread computes them itself: faster than to wait.
    const float* normalised(int thread, int norm, const std::vector<float>& weight, const int* rows, int count) const {
      float* to = room->normalised[thread].data();
      if (room->normalisedIn[thread] == norm) return to;
      for (int i = 0; i < count; i++) normalise(room->x.data() + static_cast<size_t>(rows == nullptr ? i : rows[i]) * hidden, to + static_cast<size_t>(i) * hidden, weight);
      room->normalisedIn[thread] = norm;
      return to;
    }
    const float* ends(int thread) const { return normalised(thread, 2 * shape.layers, model.norm, plan.endTokens, plan.ends); }

    /// `a @ matrix`, and what adapters of a layer's module add: the sum goes on where the base's ended.
    void multiply(const Part& part, const Packed& matrix, const float* a, int lda, int rows, float* c, int ldc, bool add, int layer, Module module, int slot = 0) const {
      const auto [first, last] = part.of(panels(matrix.columns()));
      matrix.multiply(a, lda, rows, c, ldc, first, last, add);
      raise(layer, module, slot, c, ldc, first, last);
    }

    /// `kModulesOfLayer` is the head, whose rows are the ends.
    static const LowRank& lowRankOf(const Adapted& rows, int layer, Module module) {
      return module == kModulesOfLayer ? rows.adapter->head() : rows.adapter->at(layer, module);
    }

    /// A x of some rows for modules with the same inputs, each in a slot of its own.
    void lower(std::pair<int, int> range, const float* rows, int lda, int layer, std::initializer_list<Module> modules) const {
      for (const Adapted& one : adapted) {
        int slot = 0;
        for (Module module : modules) {
          const bool head = module == kModulesOfLayer;
          const int first = std::max(range.first, head ? one.firstEnd : one.first), last = std::min(range.second, head ? one.lastEnd : one.last);
          const LowRank& low = lowRankOf(one, layer, module);
          float* to = room->low.data() + static_cast<size_t>(first) * lowWidth + slot++ * lowPart;
          if (first < last && low.rank > 0) low.a.multiply(rows + static_cast<size_t>(first) * lda, lda, last - first, to, lowWidth, 0, panels(low.rank), false);
        }
      }
    }

    /// Adds B (A x) to some panels of the rows `c`.
    void raise(int layer, Module module, int slot, float* c, int ldc, int first, int last) const {
      for (const Adapted& one : adapted) {
        const bool head = module == kModulesOfLayer;
        const int from = head ? one.firstEnd : one.first, to = head ? one.lastEnd : one.last;
        const LowRank& low = lowRankOf(one, layer, module);
        if (low.rank == 0 || first >= last) continue;
        low.b.multiply(room->low.data() + static_cast<size_t>(from) * lowWidth + slot * lowPart, lowWidth, to - from, c + static_cast<size_t>(from) * ldc, ldc, first, last, true);
      }
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
    void project(const Part& part, int thread, const Layer& layer, int index) const {
      const int wide = shape.headWidth(), width = shape.projected(), perHead = wide / kPanel;
      const auto [first, last] = part.of(projectedHeads());
      const float* rows = normalised(thread, 2 * index, layer.inputNorm, nullptr, plan.tokens);
      layer.projection.multiply(rows, hidden, plan.tokens, room->projected.data(), width, first * perHead, last * perHead, false);
      const int starts[] = {0, shape.heads, shape.heads + shape.kvHeads, projectedHeads()};
      for (int m = kQueries; m <= kValues && !adapted.empty(); m++) {
        const int from = std::max(first, starts[m]) - starts[m], to = std::min(last, starts[m + 1]) - starts[m];
        raise(index, static_cast<Module>(m), m, room->projected.data() + starts[m] * wide, width, from * perHead, to * perHead);
      }
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
    void feedForward(const Part& part, int thread, const Layer& layer, int index) const {
      const float* rows = normalised(thread, 2 * index + 1, layer.innerNorm, nullptr, plan.tokens);
      multiply(part, layer.gate, rows, hidden, plan.tokens, room->gate.data(), inner, false, index, kGates);
      multiply(part, layer.up, rows, hidden, plan.tokens, room->up.data(), inner, false, index, kUps, 1);
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

    void computeLogits(const Part& part, int thread) const {
      multiply(part, model.head(), ends(thread), hidden, plan.ends, room->logits.data(), padded(shape.vocabulary), false, shape.layers, kModulesOfLayer);
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
