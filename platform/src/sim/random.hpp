// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string_view>

namespace ferry::sim {

/// Returns a number that looks random and depends on both arguments alone.
[[nodiscard]] std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept;
[[nodiscard]] std::uint64_t mix(std::uint64_t a, std::string_view text) noexcept;

/// Draws from a lognormal distribution of mean 1 and coefficient of variation `cv`. The draw
/// depends on `key` alone and uses no function of the C or C++ library that may round differently
/// elsewhere.
[[nodiscard]] double lognormal(std::uint64_t key, double cv) noexcept;

/// A sequence of numbers that depends on its seed alone.
class random_sequence {
public:
  explicit random_sequence(std::uint64_t seed) noexcept : state_(seed) {}

  [[nodiscard]] std::uint64_t next() noexcept;
  /// @pre `bound > 0`
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept { return next() % bound; }

private:
  std::uint64_t state_;
};

} // namespace ferry::sim
