// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/cuda_device.hpp>

#include "support/skip.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace ferry::test {

/// Returns why this machine cannot run tests that need a GPU. Empty: it can. A suite that links
/// support/gpu_suite.cpp asks before any test and skips them all.
[[nodiscard]] std::string why_no_gpu();

/// Opens a GPU for a test.
[[nodiscard]] std::unique_ptr<cuda_device> open_gpu(int index = 0,
                                                    std::optional<std::size_t> memory = {});

/// Returns whether the running test has been skipped because this machine has fewer GPUs.
[[nodiscard]] bool skipped_without(std::size_t gpus);

} // namespace ferry::test
