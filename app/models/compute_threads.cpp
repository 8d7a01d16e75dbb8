// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/compute_threads.hpp"

#include <ferry/platform/log.hpp>
#include <ferry/platform/usable_cores.hpp>

#include <ATen/Parallel.h>

#include <cstdlib>
#include <string>

namespace ferry {

void limit_compute_threads() {
  if (std::getenv("OMP_NUM_THREADS") == nullptr)
    if (const auto cores = static_cast<int>(usable_cores()); cores < at::get_num_threads())
      at::set_num_threads(cores);
  log(log_level::info, "ferry.app", "compute threads=" + std::to_string(at::get_num_threads()));
}

} // namespace ferry
