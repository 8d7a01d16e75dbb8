// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include "report.hpp"
#include "run_setup.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace ferry {

class interrupt_watch;
class trace_file;

/// What one rank's run came to.
struct rank_outcome {
  run_report report;
  std::size_t failed_requests = 0;
  bool comparison_failed = false; ///< The run to compare with did not end well.
  std::string worst_stage;        ///< Farthest from the reference.
  std::optional<failure> reason;  ///< Why the rank gave up, if it did.
  bool thrown = false;            ///< It gave up in the middle.
};

/// Runs what was asked for as one rank: enables, serves the requests, disables, and compares.
/// Ranks of one group run at the same time, each on a thread of its own. Says on standard error
/// only what rank 0 has to say of single requests. `trace` gets what it does, if it is not null.
[[nodiscard]] rank_outcome run_rank(const run_options& options, const run_setup& setup,
                                    rank_setup& self, interrupt_watch& interrupt,
                                    const std::shared_ptr<trace_file>& trace);

} // namespace ferry
