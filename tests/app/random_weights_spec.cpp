// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "random_weights.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

namespace ferry {
namespace {

constexpr std::size_t sample = 65536;

template <class Element>
std::vector<Element> elements(std::uint64_t seed, const tensor_declaration& tensor,
                              std::uint64_t first, std::size_t count) {
  std::vector<Element> values(count);
  random_weights(seed).fill(tensor, first * sizeof(Element),
                            std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<float> floats(const tensor_declaration& tensor) {
  return elements<float>(1, tensor, 0, sample);
}

float mean(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0f) / static_cast<float>(values.size());
}

float deviation(const std::vector<float>& values) {
  const auto center = mean(values);
  const auto sum = std::accumulate(values.begin(), values.end(), 0.0f, [&](float total, float v) {
    return total + (v - center) * (v - center);
  });
  return std::sqrt(sum / static_cast<float>(values.size()));
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

float from_f16(std::uint16_t bits) {
  const auto exponent = bits >> 10 & 31;
  const auto fraction = static_cast<float>(bits & 1023) / 1024;
  const auto magnitude =
      exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST_CASE("a matrix is scaled by its fan-in", "[app][random_weights]") {
  const auto values = floats({"w.weight", dtype::f32, {128, 16, 4, 8}});

  CHECK(std::abs(mean(values)) < 0.001f);
  CHECK(deviation(values) == Approx(1 / std::sqrt(512.0)).epsilon(0.02));
}

TEST_CASE("a norm's weight lies near one and any other vector near zero", "[app][random_weights]") {
  const auto [name, center] =
      GENERATE(table<std::string, float>({{"norm.weight", 1.0f}, {"norm.bias", 0.0f}}));
  const auto values = floats({name, dtype::f32, {sample}});

  CHECK(std::abs(mean(values) - center) < 0.005f);
  CHECK(deviation(values) == Approx(0.1).epsilon(0.02));
  CHECK(std::ranges::all_of(values, [&](float v) { return std::abs(v - center) < 0.36f; }));
}

TEST_CASE("the weight of a norm over channels lies near one", "[app][random_weights]") {
  const auto values = floats({"norm.gamma", dtype::f32, {sample, 1, 1, 1}});

  CHECK(mean(values) == Approx(1).epsilon(0.01));
  CHECK(deviation(values) == Approx(0.1).epsilon(0.02));
}

TEST_CASE("a part of a tensor is what the whole holds there", "[app][random_weights]") {
  const tensor_declaration tensor{"w", dtype::f32, {256, 256}};
  const auto whole = elements<float>(3, tensor, 0, sample);
  const auto part = elements<float>(3, tensor, 1000, 77);

  CHECK(std::ranges::equal(part, std::span(whole).subspan(1000, 77)));
}

TEST_CASE("seed and name tell tensors apart", "[app][random_weights]") {
  const tensor_declaration a{"a", dtype::f32, {256, 256}};
  const tensor_declaration b{"b", dtype::f32, {256, 256}};

  CHECK(elements<float>(1, a, 0, 8) != elements<float>(2, a, 0, 8));
  CHECK(elements<float>(1, a, 0, 8) != elements<float>(1, b, 0, 8));
}

TEST_CASE("weights of 16 bits are the rounded weights of 32", "[app][random_weights]") {
  // The fan-in is so large that some halves are below the normal range.
  const auto fan_in = GENERATE(as<std::int64_t>(), 16, 1 << 24);
  tensor_declaration tensor{"w", dtype::f32, {4096, fan_in}};
  const auto exact = elements<float>(1, tensor, 0, sample);
  tensor.type = dtype::bf16;
  const auto brains = elements<std::uint16_t>(1, tensor, 0, sample);
  tensor.type = dtype::f16;
  const auto halves = elements<std::uint16_t>(1, tensor, 0, sample);

  CHECK(std::ranges::equal(exact, brains, [](float v, std::uint16_t bits) {
    return std::abs(from_bf16(bits) - v) <= std::abs(v) * 0x1p-8f;
  }));
  CHECK(std::ranges::equal(exact, halves, [](float v, std::uint16_t bits) {
    return std::abs(from_f16(bits) - v) <= std::max(std::abs(v) * 0x1p-11f, 0x1p-25f);
  }));
}

} // namespace
} // namespace ferry
