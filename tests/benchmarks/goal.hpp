// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace ferry::bench {

/// What measuring one goal gave.
struct outcome {
  bool met = false;
  std::string text; ///< "schedule optimality: 1.004 (target <= 1.01, ...)", without the verdict.
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
};

/// A performance goal by its name in docs/performance.md.
struct goal {
  std::string_view name;
  outcome (*measure)();
  /// Measures so little that nothing follows, to see that it can be. Null: not worth having.
  outcome (*try_out)() = nullptr;
};

outcome measure_schedule();  // P1
outcome measure_residency(); // P2
outcome measure_jitter();    // P3
outcome measure_pipeline();  // P4
outcome measure_sharing();   // P5
outcome measure_control();   // P6
outcome measure_run_ahead(); // P7
outcome measure_dynamic();   // P8
outcome measure_memory();    // P9
outcome measure_exactness(); // P10
outcome measure_cpu();       // P16
outcome measure_growth();    // P17
outcome measure_trace();     // trace

outcome try_control();
outcome try_exactness();
outcome try_growth();

// On a GPU.
outcome measure_link();       // P11
outcome measure_free();       // P12
outcome measure_balanced();   // P13
outcome measure_gap();        // P14
outcome measure_cold_start(); // P15

/// Returns `value` with three decimals.
[[nodiscard]] std::string decimal(double value);

/// Returns the value that half of `values` do not exceed. @pre not empty
[[nodiscard]] double median(std::vector<double> values);

} // namespace ferry::bench
