// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/platform/device.hpp>

#include <optional>
#include <set>

namespace ferry {

/// What a pipeline that offloads its components itself is asked for.
struct model_offload_request {
  bool pin_memory = true;
  bool use_hsdp = false;
  std::optional<std::set<component_name>> components; ///< Nothing: no explicit selection.
};

/// A model-level offload that a pipeline brings along. The runtime then plans and moves nothing of
/// that pipeline for this strategy.
///
/// Used by one thread at a time, never while the pipeline runs.
class model_offload {
public:
  model_offload() = default;
  model_offload(const model_offload&) = delete;
  model_offload& operator=(const model_offload&) = delete;
  virtual ~model_offload() = default;

  /// @throws ferry_error why it could not be done; `disable` is called next and cleans up
  virtual void enable(device& target, const model_offload_request& request) = 0;

  /// Undoes `enable`, or as much of it as was done. Nothing was: nothing happens.
  /// @throws ferry_error what is left; may be repeated
  virtual void disable() = 0;
};

} // namespace ferry
