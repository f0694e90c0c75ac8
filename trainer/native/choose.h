/// Draws a token from one row of logits, in doubles: a function of row, temperature and uniform number alone.
#pragma once

#include <cmath>
#include <vector>

#include "lanes.h"

namespace longhaul {

struct Chosen {
  /// -1 where the logits are not finite.
  int token;
  /// Of the whole distribution at the temperature; nats. A float, so that TypeScript computes the same bits.
  float logprob;
};

/// Values whose weights are summed before they are added to the running sum.
constexpr int kStretch = 64;

inline float largestLogit(const float* logits, int count) {
  Floats most = all(-INFINITY);
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) most = larger(load(logits + i), most);
  float largest = largestOf(most);
  for (; i < count; i++) largest = logits[i] > largest ? logits[i] : largest;
  return largest;
}

inline bool holdsNaN(const float* logits, int count) {
  Ints found = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) found |= load(logits + i) != load(logits + i);
  bool any = false;
  for (int lane = 0; lane < kLanes; lane++) any = any || found[lane] != 0;
  for (; i < count; i++) any = any || std::isnan(logits[i]);
  return any;
}

/// Writes exp((logit - largest) / temperature) of `count` logits to `weights`, which has room for three more. Returns
/// the sum.
inline double weigh(const float* logits, int count, float largest, double temperature, double* weights) {
  Doubles sum = allDoubles(0);
  const Doubles scale = allDoubles(1 / temperature), most = allDoubles(largest);
  int i = 0;
  for (; i + 4 <= count; i += 4) {
    const Doubles row = {logits[i], logits[i + 1], logits[i + 2], logits[i + 3]};
    const Doubles weight = exponential((row - most) * scale);
    *reinterpret_cast<Doubles*>(weights + i) = weight;
    sum += weight;
  }
  double rest = 0;
  for (; i < count; i++) {
    weights[i] = exponential(allDoubles((static_cast<double>(logits[i]) - largest) * scale[0]))[0];
    rest += weights[i];
  }
  return ((sum[0] + sum[2]) + (sum[1] + sum[3])) + rest;
}

inline double stretchSum(const double* weights, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += weights[i];
  return sum;
}

/// The first of `limit` tokens at which the running sum exceeds `uniform` times the total.
inline int inverse(const double* weights, int limit, double uniform) {
  auto lengthAt = [&](int from) { return limit - from < kStretch ? limit - from : kStretch; };
  double total = 0;
  for (int from = 0; from < limit; from += kStretch) total += stretchSum(weights + from, lengthAt(from));
  const double wanted = uniform * total;
  double sum = 0;
  for (int from = 0; from < limit; from += kStretch) {
    const double after = sum + stretchSum(weights + from, lengthAt(from));
    if (after <= wanted) {
      sum = after;
      continue;
    }
    for (int i = from; i < from + lengthAt(from); i++) {
      sum += weights[i];
      if (sum > wanted) return i;
    }
  }
  return limit - 1;
}

/// Temperature 0 is greedy, ties to the lowest id. Only ids below `limit` are drawn. `scratch`: `count + 3` doubles.
inline Chosen choose(const float* logits, int count, int limit, double temperature, double uniform, double* scratch) {
  const bool greedy = temperature == 0;
  const double heat = greedy ? 1 : temperature;
  const float largest = largestLogit(logits, count);
  if (!std::isfinite(largest) || holdsNaN(logits, count)) return {-1, 0};
  const double sum = weigh(logits, count, largest, heat, scratch);
  int token = 0;
  if (greedy) {
    for (int i = 1; i < limit; i++) if (logits[i] > logits[token]) token = i;
  } else {
    token = inverse(scratch, limit, uniform);
  }
  return {token, static_cast<float>((static_cast<double>(logits[token]) - largest) / heat - std::log(sum))};
}

}  // namespace longhaul
