// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include "models/diffusion_model.hpp"
#include "models/reference_run.hpp"
#include "request_file.hpp"
#include "run_options.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace ferry {

/// Everything a run needs, checked, before anything moves.
struct run_setup {
  offload_config config;
  std::unique_ptr<diffusion_model> model;
  std::vector<asked_request> asked; ///< At least one.
  std::optional<reference_run> reference;
  std::shared_ptr<device> target;
  std::optional<std::uint64_t> device_memory;
};

/// Reads the configuration, opens checkpoint, reference and device, and checks every request.
/// @return the first thing that has to be refused
[[nodiscard]] result<run_setup> set_up(const run_options& options);

} // namespace ferry
