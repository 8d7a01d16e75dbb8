// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "sim/random.hpp"

#include <cmath>

namespace ferry::sim {
namespace {

constexpr double ln_2 = 0.693147180559945309417;

std::uint64_t scramble(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

double logarithm(double x) noexcept {
  int exponent = 0;
  auto mantissa = std::frexp(x, &exponent);
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --exponent;
  }
  auto t = (mantissa - 1) / (mantissa + 1);
  auto power = t;
  auto sum = 0.0;
  for (int n = 1; n < 27; n += 2) {
    sum += power / n;
    power *= t * t;
  }
  return 2 * sum + exponent * ln_2;
}

double exponential(double x) noexcept {
  auto whole = std::floor(x / ln_2 + 0.5);
  auto rest = x - whole * ln_2;
  auto term = 1.0;
  auto sum = 1.0;
  for (int n = 1; n < 16; ++n) {
    term *= rest / n;
    sum += term;
  }
  return std::ldexp(sum, static_cast<int>(whole));
}

double signed_unit(random_sequence& numbers) noexcept {
  return static_cast<double>(numbers.next() >> 11) * 0x1.0p-52 - 1.0;
}

// Marsaglia's polar method: of the library it needs the square root alone, which IEEE 754 fixes.
double normal(random_sequence& numbers) noexcept {
  for (;;) {
    auto u = signed_unit(numbers);
    auto v = signed_unit(numbers);
    auto s = u * u + v * v;
    if (s > 0 && s < 1)
      return u * std::sqrt(-2 * logarithm(s) / s);
  }
}

} // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  return scramble(a * 0x9e3779b97f4a7c15ULL + scramble(b + 0x9e3779b97f4a7c15ULL));
}

std::uint64_t mix(std::uint64_t a, std::string_view text) noexcept {
  auto hash = 0xcbf29ce484222325ULL;
  for (auto c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix(a, hash);
}

std::uint64_t random_sequence::next() noexcept {
  state_ += 0x9e3779b97f4a7c15ULL;
  return scramble(state_);
}

double lognormal(std::uint64_t key, double cv) noexcept {
  if (cv <= 0)
    return 1.0;
  auto numbers = random_sequence{key};
  auto variance = logarithm(1 + cv * cv);
  return exponential(std::sqrt(variance) * normal(numbers) - variance / 2);
}

} // namespace ferry::sim
