// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ferry::test {

/// What one run of a program showed.
struct edge_run {
  bool right = false; ///< The result was right and nothing was thrown.
  std::vector<race> races;
  std::vector<std::string> edges;

  [[nodiscard]] bool caught() const { return !right || !races.empty(); }
};

/// Runs `program` on a device that ignores `forgotten`; empty: that ignores nothing.
/// `program(sim_device&)` returns whether the result was right.
template <class Program>
edge_run run_without_edge(const sim_options& options, std::string_view forgotten, Program program) {
  sim_device gpu{options};
  if (!forgotten.empty())
    gpu.forget(forgotten);
  edge_run shown;
  try {
    shown.right = program(gpu);
  } catch (const ferry_error&) {
    shown.right = false;
  }
  shown.races = gpu.races();
  shown.edges = gpu.edges_seen();
  return shown;
}

/// Runs `program` once as it is, which must be clean, and once for each wait edge it uses with that
/// edge removed, which must show a race or a wrong result.
/// @return how many edges were removed
template <class Program>
std::size_t with_each_edge_removed(const sim_options& options, Program program) {
  auto whole = run_without_edge(options, "", program);
  INFO("seed " << options.seed);
  for (const auto& found : whole.races)
    UNSCOPED_INFO(describe(found));
  REQUIRE(whole.right);
  REQUIRE(whole.races.empty());
  for (const auto& edge : whole.edges) {
    INFO("without the edge '" << edge << "' nothing goes wrong");
    CHECK(run_without_edge(options, edge, program).caught());
  }
  return whole.edges.size();
}

} // namespace ferry::test
