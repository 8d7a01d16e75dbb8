// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/offload/plan.hpp>
#include <ferry/platform/error.hpp>

#include <string>
#include <vector>

namespace ferry {

/// One thing wrong with a pipeline under a configuration.
struct diagnostic {
  errc code = errc::invalid_pipeline;
  std::string subject; ///< The component or path concerned.
  std::string message; ///< One sentence: the thing, the value, what was expected, what to change.
};

using resolution = tl::expected<resolved_offload_plan, std::vector<diagnostic>>;

/// Decides which components, stacks and blocks `config` means. Pure: reads the tree, changes
/// nothing, and gives equal answers when repeated. Reports everything that is wrong, not the first.
[[nodiscard]] resolution resolve(const pipeline& subject, const offload_config& config);

} // namespace ferry
