// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/caller_streams.hpp>
#include <ferry/platform/cuda_device.hpp>
#include <ferry/platform/error.hpp>

#include <c10/core/Device.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace ferry {

/// Loads the half of libtorch that computes with CUDA, from where the other half was loaded. A
/// program links only the other one: this one costs more than 200 MiB of memory before it does
/// anything. Stays loaded; loading it again succeeds at once. Thread-safe.
///
/// Before the program has asked libtorch for CUDA in any way: libtorch remembers the first answer.
/// @return `unsupported` with the reason
[[nodiscard]] result<void> load_torch_cuda();

/// Returns the device of libtorch that is `target`: the CPU for one that computes on the host.
[[nodiscard]] at::Device torch_device_of(const device& target);

/// The streams that libtorch has current on one GPU, thread by thread.
class torch_streams final : public caller_streams {
public:
  /// @throws ferry_error as `load_torch_cuda`, or `device_failure` if libtorch cannot use `target`
  explicit torch_streams(std::shared_ptr<cuda_device> target);
  ~torch_streams() override;

  /// @throws ferry_error `unsupported` while the stream is being captured into a graph
  [[nodiscard]] stream_id current() override;

private:
  [[nodiscard]] stream_id find(void* native);

  std::shared_ptr<cuda_device> target_;
  std::mutex mutex_;
  std::vector<std::pair<void*, stream_id>> adopted_; ///< A few: libtorch makes 32 of a priority.
};

/// Returns the streams of callers on `target`, null where they have none because `target` computes
/// on the host.
/// @return as `torch_streams`
[[nodiscard]] result<std::shared_ptr<caller_streams>>
streams_of_callers(const std::shared_ptr<device>& target);

} // namespace ferry
