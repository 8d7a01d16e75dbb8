// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include "models/diffusion_model.hpp"
#include "models/request.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace ferry {

/// A request and who asked for it.
struct asked_request {
  request what;
  std::string origin = {}; ///< `FILE:LINE`; empty for that of the command line.
};

/// Reads a file of requests, one JSON object a line, and checks each against the model. What a line
/// leaves out is as in `model.defaults()`.
/// @returns `invalid_argument` with `FILE:LINE`, the member, its value and what was expected, for
/// the first line that is refused; `not_found` or `io_failure` for the file
[[nodiscard]] result<std::vector<asked_request>> read_requests(const std::filesystem::path& path,
                                                               const diffusion_model& model);

} // namespace ferry
