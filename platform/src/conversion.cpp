// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/conversion.hpp"

#include "ferry/platform/error.hpp"

#ifdef __SSE2__
#  include <emmintrin.h>
#endif

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace ferry {
namespace {

using half = std::uint16_t; ///< The bits of a bf16 or f16.

constexpr std::uint32_t sign_bit = 0x8000'0000U;
constexpr std::uint32_t f32_infinity = 0x7F80'0000U;
constexpr std::uint32_t bf16_quiet = 0x0040'0000U; ///< In an f32 whose upper half is kept.

float from_bf16(half bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// Shifted into the place of an f32's, exponent and fraction are 2^112 times too small, also those
// of subnormals. What was infinite or no number has the largest exponent, and gets that of an f32.
float from_f16(half bits) noexcept {
  constexpr float rebias = 0x1p112F;
  constexpr float least_infinite = 0x1p16F;
  const auto magnitude = std::bit_cast<float>((std::uint32_t{bits} & 0x7FFFU) << 13) * rebias;
  auto wide = std::bit_cast<std::uint32_t>(magnitude);
  wide |= magnitude >= least_infinite ? f32_infinity : 0U;
  return std::bit_cast<float>(wide | (std::uint32_t{bits} & 0x8000U) << 16);
}

half to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto rounded = bits + 0x7FFFU + (bits >> 16 & 1U);
  const auto is_number = (bits & ~sign_bit) <= f32_infinity;
  return static_cast<half>((is_number ? rounded : bits | bf16_quiet) >> 16);
}

// An f16's subnormals end where adding one half in f32 rounds to its last place. Others are rounded
// by adding half of the last place that stays.
half to_f16(float value) noexcept {
  constexpr float one_half = 0.5F;
  constexpr std::uint32_t least_normal = 0x3880'0000U;   // 2^-14
  constexpr std::uint32_t least_infinite = 0x477F'F000U; // 65520
  constexpr std::uint32_t rebias = 112U << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto magnitude = bits & ~sign_bit;
  std::uint32_t narrow = 0;
  if (magnitude > f32_infinity)
    narrow = 0x7E00U;
  else if (magnitude >= least_infinite)
    narrow = 0x7C00U;
  else if (magnitude >= least_normal)
    narrow = (magnitude - rebias + 0x0FFFU + (magnitude >> 13 & 1U)) >> 13;
  else
    narrow = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + one_half) -
             std::bit_cast<std::uint32_t>(one_half);
  return static_cast<half>(narrow | ((bits >> 16) & 0x8000U));
}

half f16_to_bf16(half bits) noexcept {
  return to_bf16(from_f16(bits));
}

template <class From, class To, To change(From) noexcept>
void convert_each(const_bytes source, mutable_bytes target) noexcept {
  const auto count = source.size() / sizeof(From);
  for (std::size_t i = 0; i != count; ++i) {
    From from;
    std::memcpy(&from, source.data() + i * sizeof from, sizeof from);
    const To to = change(from);
    std::memcpy(target.data() + i * sizeof to, &to, sizeof to);
  }
}

#ifdef __SSE2__
/// What is larger than this has left the caches before it is read, so that it need not go through
/// them: the memory is then written without being read first.
constexpr std::size_t cached_bytes = std::size_t{1} << 20;

/// Converted at a time on the way past the caches: in a core's first cache meanwhile.
constexpr std::size_t batch_elements = 1024;

constexpr std::size_t store_bytes = sizeof(__m128i);

/// Writes whole `store_bytes` past the caches. @pre `target` is aligned to them
void store_past_caches(const_bytes source, mutable_bytes target) noexcept {
  for (std::size_t at = 0; at != source.size(); at += store_bytes)
    _mm_stream_si128(reinterpret_cast<__m128i*>(target.data() + at),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(source.data() + at)));
}

template <class From, class To, To change(From) noexcept>
void convert_past_caches(const_bytes source, mutable_bytes target) noexcept {
  alignas(store_bytes) std::array<std::byte, batch_elements * sizeof(To)> made;
  while (target.size() >= made.size()) {
    convert_each<From, To, change>(source.first(batch_elements * sizeof(From)), made);
    store_past_caches(made, target.first(made.size()));
    source = source.subspan(batch_elements * sizeof(From));
    target = target.subspan(made.size());
  }
  _mm_sfence(); // Whoever is told that it is written, by whatever means, reads it.
  convert_each<From, To, change>(source, target);
}

/// Returns how many bytes of `target` are before the first that can be stored past the caches.
std::size_t unaligned_bytes(mutable_bytes target) noexcept {
  return (store_bytes - reinterpret_cast<std::uintptr_t>(target.data()) % store_bytes) %
         store_bytes;
}
#endif

template <class From, class To, To change(From) noexcept>
void convert_all(const_bytes source, mutable_bytes target) noexcept {
#ifdef __SSE2__
  const auto head = unaligned_bytes(target);
  if (target.size() > cached_bytes && head % sizeof(To) == 0) {
    const auto before = head / sizeof(To) * sizeof(From);
    convert_each<From, To, change>(source.first(before), target.first(head));
    return convert_past_caches<From, To, change>(source.subspan(before), target.subspan(head));
  }
#endif
  convert_each<From, To, change>(source, target);
}

/// The largest that is still rounded down to a finite number.
float largest_finite(conversion how) noexcept {
  switch (how) {
    case conversion::f32_to_bf16:
      return 0x1.FEFFFEp127F;
    case conversion::f32_to_f16:
      return 0x1.FFDFFEp15F;
    default:
      return std::numeric_limits<float>::max();
  }
}

} // namespace

std::size_t source_element(conversion how) noexcept {
  switch (how) {
    case conversion::none:
      return 1;
    case conversion::bf16_to_f32:
    case conversion::f16_to_f32:
    case conversion::f16_to_bf16:
      return sizeof(half);
    case conversion::f32_to_bf16:
    case conversion::f32_to_f16:
      return sizeof(float);
  }
  return 1;
}

std::size_t target_element(conversion how) noexcept {
  switch (how) {
    case conversion::none:
      return 1;
    case conversion::bf16_to_f32:
    case conversion::f16_to_f32:
      return sizeof(float);
    case conversion::f32_to_bf16:
    case conversion::f32_to_f16:
    case conversion::f16_to_bf16:
      return sizeof(half);
  }
  return 1;
}

std::size_t converted_bytes(conversion how, std::size_t source_bytes) noexcept {
  return source_bytes / source_element(how) * target_element(how);
}

std::size_t unconverted_bytes(conversion how, std::size_t target_bytes) noexcept {
  return target_bytes / target_element(how) * source_element(how);
}

std::string_view to_string(conversion how) noexcept {
  switch (how) {
    case conversion::none:
      return "nothing";
    case conversion::bf16_to_f32:
      return "bf16 to f32";
    case conversion::f16_to_f32:
      return "f16 to f32";
    case conversion::f32_to_bf16:
      return "f32 to bf16";
    case conversion::f32_to_f16:
      return "f32 to f16";
    case conversion::f16_to_bf16:
      return "f16 to bf16";
  }
  return "unknown";
}

void convert(conversion how, const_bytes source, mutable_bytes target) noexcept {
  FERRY_ASSERT(target.size() == converted_bytes(how, source.size()));
  switch (how) {
    case conversion::none:
      if (!source.empty())
        std::memcpy(target.data(), source.data(), source.size());
      return;
    case conversion::bf16_to_f32:
      return convert_all<half, float, from_bf16>(source, target);
    case conversion::f16_to_f32:
      return convert_all<half, float, from_f16>(source, target);
    case conversion::f32_to_bf16:
      return convert_all<float, half, to_bf16>(source, target);
    case conversion::f32_to_f16:
      return convert_all<float, half, to_f16>(source, target);
    case conversion::f16_to_bf16:
      return convert_all<half, half, f16_to_bf16>(source, target);
  }
}

bool overflows(conversion how, const_bytes source) noexcept {
  if (source_element(how) != sizeof(float))
    return false;
  const auto largest = largest_finite(how);
  for (std::size_t i = 0; i != source.size() / sizeof(float); ++i) {
    float each = 0;
    std::memcpy(&each, source.data() + i * sizeof each, sizeof each);
    if (std::abs(each) > largest && std::isfinite(each))
      return true;
  }
  return false;
}

} // namespace ferry
