// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cuda/runtime_api.hpp"
#include "ferry/platform/cuda_device.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace ferry::cuda {

/// What opening depends on besides CUDA.
struct surroundings {
  std::optional<std::string>
      visible_devices;              ///< The value of `CUDA_VISIBLE_DEVICES`, if it is set.
  std::filesystem::path root = "/"; ///< Of the file system, for the nodes of devices.
};

/// Opens a GPU through a table, which is copied.
[[nodiscard]] result<std::unique_ptr<cuda_device>>
open_gpu(const runtime_api& api, const cuda_device_options& options, const surroundings& here);

[[nodiscard]] std::vector<device_listing> list_gpus(const runtime_api& api,
                                                    const surroundings& here);

} // namespace ferry::cuda
