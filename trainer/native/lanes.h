/// Eight floats or four doubles at a time, and their `exp`: the same operations in each lane, for any neighbours.
#pragma once

#include <cstdint>
#include <cstring>

namespace longhaul {

typedef float Floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(32), aligned(4), may_alias));
typedef double Doubles __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t Longs __attribute__((vector_size(32), aligned(8), may_alias));

constexpr int kLanes = 8;

inline Floats load(const float* from) { return *reinterpret_cast<const Floats*>(from); }
inline void store(float* to, Floats value) { *reinterpret_cast<Floats*>(to) = value; }
inline Floats all(float value) { return Floats{value, value, value, value, value, value, value, value}; }
inline Doubles allDoubles(double value) { return Doubles{value, value, value, value}; }

inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

/// The sum of the lanes, always in the same order.
inline float sumOf(Floats v) { return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7])); }

inline float largestOf(Floats v) {
  float most = v[0];
  for (int i = 1; i < kLanes; i++) most = v[i] > most ? v[i] : most;
  return most;
}

/// e^x, within 2 units in the last place between -87 and 88; outside, the value at the nearer end. NaN stays NaN.
inline Floats exponential(Floats x) {
  const Floats low = all(-87.0f), high = all(88.0f);
  x = x < low ? low : x;
  x = x > high ? high : x;
  // Adding 1.5 * 2^23 rounds to a whole number, which is then in the lowest bits.
  const Floats rounder = all(12582912.0f);
  const Floats shifted = x * all(1.44269504088896341f) + rounder;
  const Floats n = shifted - rounder;
  Floats r = x - n * all(0.693359375f);
  r = r - n * all(-2.12194440e-4f);
  // Cephes' minimax polynomial of `expf`.
  Floats p = all(1.9875691500e-4f);
  p = p * r + all(1.3981999507e-3f);
  p = p * r + all(8.3334519073e-3f);
  p = p * r + all(4.1665795894e-2f);
  p = p * r + all(1.6666665459e-1f);
  p = p * r + all(5.0000001201e-1f);
  p = p * r * r + r + all(1.0f);
  const Ints power = (reinterpret_cast<Ints>(shifted) << 23) + 0x3f800000;
  return p * reinterpret_cast<Floats>(power);
}

/// e^x for x <= 0, within 1 or 2 units in the last place; below -700, the value at -700.
inline Doubles exponential(Doubles x) {
  const Doubles low = allDoubles(-700.0);
  x = x < low ? low : x;
  const Doubles rounder = allDoubles(6755399441055744.0);
  const Doubles shifted = x * allDoubles(1.4426950408889634074) + rounder;
  const Doubles n = shifted - rounder;
  Doubles r = x - n * allDoubles(6.93147180369123816490e-01);
  r = r - n * allDoubles(1.90821492927058770002e-10);
  // Taylor series: |r| is below 0.347, and the omitted terms below 1e-17.
  Doubles p = allDoubles(1.0 / 6227020800.0);
  const double coefficients[] = {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0,
                                 1.0 / 720.0,       1.0 / 120.0,      1.0 / 24.0,      1.0 / 6.0,      0.5,           1.0, 1.0};
  for (double coefficient : coefficients) p = p * r + allDoubles(coefficient);
  const Longs power = (reinterpret_cast<Longs>(shifted) << 52) + 0x3ff0000000000000;
  return p * reinterpret_cast<Doubles>(power);
}

}  // namespace longhaul
