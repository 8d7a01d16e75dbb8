// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/pipeline.hpp>
#include <ferry/platform/memory.hpp>

#include <cstddef>
#include <memory>
#include <optional>

namespace ferry {

/// All weights of a pipeline in one piece of memory, packed as they are on a device: what a run
/// with everything resident computes on.
///
/// The kernels of a CPU may round otherwise on memory of another alignment, so a comparison down to
/// the byte needs it. Copies the weights and binds the tensors to the copy; the destructor makes
/// them ordinary again. Not while the pipeline is enabled.
class resident_weights {
public:
  /// Puts them in memory of the host.
  explicit resident_weights(pipeline& subject);

  /// Puts them where `target` computes: in its memory, or the host's where it computes there.
  /// `target` outlives it. Before it is destroyed, nothing computes with them any more.
  /// @throws ferry_error as `pipeline::check_device`; device_error
  resident_weights(pipeline& subject, device& target);
  resident_weights(const resident_weights&) = delete;
  resident_weights& operator=(const resident_weights&) = delete;
  ~resident_weights();

  /// Returns the size of the copy in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept { return unit_->layout().bytes; }

private:
  struct aligned_delete {
    void operator()(std::byte* memory) const noexcept;
  };

  void fill_host_memory();
  void fill_memory_of(device& target);

  std::unique_ptr<weight_unit> unit_;
  std::unique_ptr<std::byte, aligned_delete> memory_;
  std::optional<memory_block> on_device_;
};

/// Returns the bytes of all tensors at and below `node`, shared memory once.
[[nodiscard]] std::size_t weight_bytes(const std::shared_ptr<const module_node>& node);

} // namespace ferry
