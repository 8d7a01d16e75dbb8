// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/bounded_allocator_cache.hpp>
#include <ferry/offload/staging_memory.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/stream.hpp>

#include <memory>
#include <vector>

namespace ferry {

/// Staging memory straight from the device, which keeps what was given back for the next who asks,
/// within bounds. For groups whose number and size nobody knows beforehand.
///
/// Hands out the smallest kept piece that is long enough. Its stagers all use the one stream and do
/// not outlive it; before it is destroyed that stream has run dry.
class cached_device_memory final : public staging_memory, private allocator_cache {
public:
  /// `copies` is the stream that stages; it outlives the memory. `learned` as for
  /// `bounded_allocator_cache`, whose ledger this keeps.
  /// @throws ferry_error `invalid_argument` for bounds that are no fractions
  cached_device_memory(device& owner, stream& copies, cache_bounds bounds,
                       std::shared_ptr<learned_budget> learned);

  [[nodiscard]] mutable_bytes take(std::size_t bytes) override;
  void give_back(mutable_bytes memory) noexcept override;

  /// Blocks until the staging stream has run dry if anything is released.
  bool release_cache(bool force) noexcept override;

  void attach() noexcept override;
  void detach() noexcept override;

  [[nodiscard]] result<cache_telemetry> telemetry() const override;

private:
  struct piece {
    memory_block block;
    bool taken = false;
  };

  void release() override;

  device* owner_;
  stream* copies_;
  std::shared_ptr<learned_budget> learned_;
  bounded_allocator_cache retention_;
  std::vector<piece> pieces_;
};

} // namespace ferry
