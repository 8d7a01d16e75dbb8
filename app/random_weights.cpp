// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "random_weights.hpp"

#include <ferry/platform/error.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

namespace ferry {

namespace {

/// The finalizer of the splitmix64 generator.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t stream_of(std::uint64_t seed, std::string_view name) {
  auto state = mix(seed + 1);
  for (const char c : name)
    state = mix(state ^ static_cast<unsigned char>(c));
  return state;
}

/// Returns element `index` of a stream: the sum of four uniform numbers, which is close to a normal
/// distribution with mean 0 and standard deviation 1, and never beyond 3.5.
float noise(std::uint64_t stream, std::uint64_t index) {
  const auto bits = mix(stream + index * 0x9e3779b97f4a7c15u);
  const auto sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  constexpr float deviation = 37837.23f; // 2^16 x sqrt(4 / 12)
  return static_cast<float>(static_cast<std::int32_t>(sum) - 2 * 0xffff) / deviation;
}

struct distribution {
  float mean;
  float deviation;
};

distribution distribution_of(const tensor_declaration& tensor) {
  constexpr distribution near_one{.mean = 1, .deviation = 0.1f};
  if (tensor.name.ends_with(".gamma"))
    return near_one;
  if (tensor.shape.size() >= 2) {
    const auto elements = static_cast<double>(tensor.bytes() / element_size(tensor.type));
    const auto fan_in = elements / static_cast<double>(tensor.shape[0]);
    return {.mean = 0, .deviation = static_cast<float>(1 / std::sqrt(fan_in))};
  }
  return tensor.name.ends_with("weight") ? near_one : distribution{.mean = 0, .deviation = 0.1f};
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// @pre |value| < 65504
std::uint16_t to_f16(float value) {
  const auto sign = std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000;
  const auto magnitude = std::fabs(value);
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  // Below the normal range, the sum with 0.5 has the spacing of half precision there.
  const auto half = magnitude < 0x1p-14f ? std::bit_cast<std::uint32_t>(magnitude + 0.5f) -
                                               std::bit_cast<std::uint32_t>(0.5f)
                                         : (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
  return static_cast<std::uint16_t>(sign | half);
}

template <class Element, class Convert>
void fill_with(std::uint64_t stream, distribution numbers, std::uint64_t first, mutable_bytes chunk,
               Convert convert) {
  auto* place = chunk.data();
  const auto last = first + chunk.size() / sizeof(Element);
  for (auto index = first; index < last; ++index, place += sizeof(Element)) {
    const Element element = convert(numbers.mean + numbers.deviation * noise(stream, index));
    std::memcpy(place, &element, sizeof(Element));
  }
}

} // namespace

void random_weights::fill(const tensor_declaration& tensor, std::uint64_t offset,
                          mutable_bytes chunk) const {
  const auto stream = stream_of(seed_, tensor.name);
  const auto numbers = distribution_of(tensor);
  const auto first = offset / element_size(tensor.type);
  switch (tensor.type) {
    case dtype::f32:
      return fill_with<float>(stream, numbers, first, chunk, [](float value) { return value; });
    case dtype::bf16:
      return fill_with<std::uint16_t>(stream, numbers, first, chunk, to_bf16);
    case dtype::f16:
      return fill_with<std::uint16_t>(stream, numbers, first, chunk, to_f16);
    default:
      FERRY_ASSERT(!"a floating-point type of 16 or 32 bits");
  }
}

} // namespace ferry
