// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/compute_dtype.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>

namespace ferry {
namespace {

/// Returns the seconds of a product as a small batch of tokens makes it, the best of a few.
double seconds_of_product(at::ScalarType type) {
  constexpr std::int64_t tokens = 128;
  constexpr std::int64_t width = 1024;
  constexpr int tries = 4;
  const auto input = at::ones({tokens, width}, type);
  const auto weight = at::ones({width, width}, type);
  auto best = std::numeric_limits<double>::infinity();
  for (int i = 0; i != tries; ++i) {
    const auto started = std::chrono::steady_clock::now();
    static_cast<void>(at::linear(input, weight));
    const auto took = std::chrono::steady_clock::now() - started;
    best = std::min(best, std::chrono::duration<double>(took).count());
  }
  return best;
}

compute_dtype faster_on_host(dtype stored) {
  constexpr double milli = 1e3;
  if (stored != dtype::bf16 && stored != dtype::f16)
    return {.type = {}, .stored = stored, .reason = "weights are in f32, and auto narrows nothing"};
  const auto f32 = seconds_of_product(at::kFloat);
  const auto as_stored = seconds_of_product(stored == dtype::f16 ? at::kHalf : at::kBFloat16);
  std::array<char, 96> said{};
  std::snprintf(said.data(), said.size(), "a product takes %.2f ms in f32, %.2f ms in %s",
                f32 * milli, as_stored * milli, stored == dtype::f16 ? "f16" : "bf16");
  if (f32 <= as_stored)
    return {.type = dtype::f32, .stored = stored, .reason = said.data()};
  return {.type = {}, .stored = stored, .reason = said.data()};
}

void add_bytes(const module_node& node, std::map<dtype, std::uint64_t>& of) {
  for (const auto& each : node.tensors())
    if (each.type == dtype::f32 || each.type == dtype::bf16 || each.type == dtype::f16)
      of[each.type] += each.storage_bytes;
  for (const auto& [name, child] : node.children())
    add_bytes(*child, of);
}

} // namespace

result<void> check_compute_dtype(const std::optional<std::string>& asked) {
  if (!asked || *asked == "f32" || *asked == "bf16" || *asked == "auto")
    return {};
  return tl::unexpected(
      failure{.code = errc::invalid_argument,
              .detail = "--compute-dtype is '" + *asked +
                        "'; expected bf16, f32, or auto, which takes f32 where that is faster; "
                        "weights stay as they are stored without it"});
}

dtype stored_dtype(const pipeline& subject) {
  std::map<dtype, std::uint64_t> bytes{{dtype::f32, 0}};
  add_bytes(*subject.root(), bytes);
  return std::ranges::max_element(bytes, {}, [](const auto& each) { return each.second; })->first;
}

result<compute_dtype> choose_compute_dtype(const std::optional<std::string>& asked,
                                           const device_traits& target, dtype stored) {
  compute_dtype chosen{.type = {}, .stored = stored, .reason = {}};
  if (!asked)
    return chosen;
  if (*asked == "auto") {
    if (target.converts && target.computes_on_host)
      return faster_on_host(stored);
    chosen.reason = target.name + " takes weights as they are stored";
    return chosen;
  }
  chosen.type = *asked == "f32" ? dtype::f32 : dtype::bf16;
  if (chosen.type != stored && !target.converts)
    return tl::unexpected(failure{.code = errc::unsupported,
                                  .detail = "--compute-dtype is " + *asked + ", and " +
                                            target.name +
                                            " takes weights as they are stored; leave it out"});
  return chosen;
}

std::string to_string(const compute_dtype& chosen) {
  std::string name(to_string(chosen.type.value_or(chosen.stored)));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

} // namespace ferry
