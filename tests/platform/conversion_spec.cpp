// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/conversion.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace ferry {
namespace {

using half = std::uint16_t;

/// How the bits of a half are divided.
struct half_form {
  int fraction_bits;
  int bias;
};

constexpr half_form bf16{7, 127};
constexpr half_form f16{10, 15};

/// Returns the value of a half by its definition.
double value_of(half bits, half_form form) {
  const auto exponents = (1 << (15 - form.fraction_bits)) - 1;
  const auto fraction = bits & ((1 << form.fraction_bits) - 1);
  const auto exponent = (bits & 0x7FFF) >> form.fraction_bits;
  const auto sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == exponents)
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  const auto whole = exponent == 0 ? 0 : 1 << form.fraction_bits;
  return sign *
         std::ldexp(whole + fraction, std::max(exponent, 1) - form.bias - form.fraction_bits);
}

template <class From, class To>
To converted(conversion how, From from) {
  To to{};
  convert(how, std::as_bytes(std::span(&from, 1)), std::as_writable_bytes(std::span(&to, 1)));
  return to;
}

TEST_CASE("what widens is exact for every half there is", "[conversion]") {
  const auto [how, form] = GENERATE(table<conversion, half_form>(
      {{conversion::bf16_to_f32, bf16}, {conversion::f16_to_f32, f16}}));

  auto wrong = 0;
  for (std::uint32_t bits = 0; bits != 0x10000U; ++bits) {
    const auto expected = value_of(static_cast<half>(bits), form);
    const auto seen = converted<half, float>(how, static_cast<half>(bits));
    const auto same = std::isnan(expected)
                          ? std::isnan(seen)
                          : seen == expected && std::signbit(seen) == std::signbit(expected);
    wrong += same ? 0 : 1;
  }

  CHECK(wrong == 0);
}

TEST_CASE("what narrows is rounded to the nearest half, and to the even one between two",
          "[conversion]") {
  const auto [how, form] = GENERATE(table<conversion, half_form>(
      {{conversion::f32_to_bf16, bf16}, {conversion::f32_to_f16, f16}}));

  auto wrong = 0;
  for (std::uint32_t bits = 0; bits != 0x7FFFU; ++bits) {
    const auto low = value_of(static_cast<half>(bits), form);
    const auto high = value_of(static_cast<half>(bits + 1), form);
    if (!std::isfinite(high))
      break;
    const auto middle = static_cast<float>((low + high) / 2);
    const auto even = static_cast<half>(bits + (bits & 1U));
    const auto above = std::nextafter(middle, std::numeric_limits<float>::infinity());
    const auto below = std::nextafter(middle, 0.0F);
    for (const auto negative : {false, true}) {
      const auto sign = negative ? half{0x8000} : half{0};
      const auto of = [&](float value) {
        return converted<float, half>(how, negative ? -value : value);
      };
      wrong += of(static_cast<float>(low)) == (bits | sign) ? 0 : 1;
      wrong += of(middle) == (even | sign) ? 0 : 1;
      wrong += of(above) == ((bits + 1) | sign) ? 0 : 1;
      wrong += of(below) == (bits | sign) ? 0 : 1;
    }
  }

  CHECK(wrong == 0);
}

TEST_CASE("what is beyond the range of a half becomes infinite, and no number stays none",
          "[conversion]") {
  const auto [how, form, beyond] = GENERATE(table<conversion, half_form, float>(
      {{conversion::f32_to_bf16, bf16, 0x1.FFp127F}, {conversion::f32_to_f16, f16, 65520.0F}}));
  const auto of = [&, how = how, form = form](float value) {
    return value_of(converted<float, half>(how, value), form);
  };
  const auto infinity = std::numeric_limits<float>::infinity();
  const auto within = std::nextafter(beyond, 0.0F);

  CHECK(std::isfinite(of(within)));
  CHECK(of(beyond) == infinity);
  CHECK(of(-beyond) == -infinity);
  CHECK(of(infinity) == infinity);
  CHECK(std::isnan(of(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(of(std::bit_cast<float>(0x7F80'0001U))));
  for (const auto each : {within, -within, infinity, std::nanf("")})
    CHECK_FALSE(overflows(how, std::as_bytes(std::span(&each, 1))));
  for (const auto each : {beyond, -beyond, std::numeric_limits<float>::max()})
    CHECK(overflows(how, std::as_bytes(std::span(&each, 1))));
}

TEST_CASE("an f16 becomes the bf16 that its value in f32 is rounded to", "[conversion]") {
  auto wrong = 0;
  for (std::uint32_t bits = 0; bits != 0x10000U; ++bits) {
    const auto wide = converted<half, float>(conversion::f16_to_f32, static_cast<half>(bits));
    const auto seen = converted<half, half>(conversion::f16_to_bf16, static_cast<half>(bits));
    wrong += seen == converted<float, half>(conversion::f32_to_bf16, wide) ? 0 : 1;
  }
  CHECK(wrong == 0);
  const auto largest = half{0x7BFF};
  CHECK_FALSE(overflows(conversion::f16_to_bf16, std::as_bytes(std::span(&largest, 1))));
}

TEST_CASE("many elements become what each of them becomes, wherever they lie", "[conversion]") {
  const auto how =
      GENERATE(conversion::bf16_to_f32, conversion::f16_to_f32, conversion::f32_to_bf16,
               conversion::f32_to_f16, conversion::f16_to_bf16);
  const auto misplaced = GENERATE(0, 2, 4);
  CAPTURE(to_string(how), misplaced);
  const std::size_t elements = 1'200'007; // More than the caches' share, and no whole batch.
  const auto from = source_element(how);
  const auto to = target_element(how);
  std::vector<std::byte> source(elements * from);
  for (std::size_t i = 0; i != source.size(); ++i)
    source[i] = static_cast<std::byte>(i * 167 >> 3 ^ i >> 11);
  std::vector<std::byte> room(elements * to + 64, std::byte{0xAB});
  const auto unaligned = reinterpret_cast<std::uintptr_t>(room.data()) % 16;
  const auto begin = (16 - unaligned) % 16 + static_cast<std::size_t>(misplaced);
  const auto target = mutable_bytes(room).subspan(begin, elements * to);

  convert(how, source, target);

  auto wrong = 0;
  std::vector<std::byte> few(to * 1000);
  for (std::size_t i = 0; i < elements; i += 1000) {
    const auto count = std::min<std::size_t>(1000, elements - i);
    const auto made = mutable_bytes(few).first(count * to);
    convert(how, const_bytes(source).subspan(i * from, count * from), made);
    wrong += std::ranges::equal(made, target.subspan(i * to, count * to)) ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(std::ranges::all_of(mutable_bytes(room).first(begin),
                            [](std::byte each) { return each == std::byte{0xAB}; }));
  CHECK(std::ranges::all_of(mutable_bytes(room).subspan(begin + target.size()),
                            [](std::byte each) { return each == std::byte{0xAB}; }));
}

TEST_CASE("elements are converted wherever they lie, and nothing beside them is written",
          "[conversion]") {
  constexpr std::size_t count = 37;
  std::vector<half> values(count);
  for (std::size_t i = 0; i != count; ++i)
    values[i] = static_cast<half>(0x3F80 + i);
  std::array<std::byte, 1 + 2 * count> from{};
  std::memcpy(from.data() + 1, values.data(), 2 * count);
  std::array<std::byte, 3 + 4 * count + 1> into{};
  into.fill(std::byte{0xAB});

  convert(conversion::bf16_to_f32, std::span(from).subspan(1),
          std::span(into).subspan(3, 4 * count));

  std::vector<float> seen(count);
  std::memcpy(seen.data(), into.data() + 3, 4 * count);
  for (std::size_t i = 0; i != count; ++i)
    CHECK(seen[i] == value_of(values[i], bf16));
  for (const auto beside : {into[0], into[1], into[2], into.back()})
    CHECK(beside == std::byte{0xAB});
}

TEST_CASE("sizes before and after a conversion follow from its elements", "[conversion]") {
  CHECK(converted_bytes(conversion::none, 5) == 5);
  CHECK(converted_bytes(conversion::bf16_to_f32, 6) == 12);
  CHECK(converted_bytes(conversion::f16_to_f32, 6) == 12);
  CHECK(converted_bytes(conversion::f32_to_bf16, 12) == 6);
  CHECK(converted_bytes(conversion::f32_to_f16, 12) == 6);
  CHECK(converted_bytes(conversion::f16_to_bf16, 6) == 6);
  for (const auto how : {conversion::none, conversion::bf16_to_f32, conversion::f16_to_f32,
                         conversion::f32_to_bf16, conversion::f32_to_f16, conversion::f16_to_bf16})
    CHECK(unconverted_bytes(how, converted_bytes(how, 24)) == 24);
}

} // namespace
} // namespace ferry
