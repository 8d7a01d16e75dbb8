// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/bare_weights.hpp>
#include <ferry/platform/memory.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace ferry::bench {

/// Where the bytes of a bare stack come from.
enum class host_weights {
  addresses, ///< Pinned memory that nobody ever touches: for devices without contents.
  masters,   ///< Host masters, packed tensor by tensor as those of a pipeline are.
};

/// Blocks without a model, streamed through the real actors.
class bare_stack {
public:
  /// `rings` gives the blocks' sizes in bytes.
  bare_stack(std::shared_ptr<device> target, std::span<const std::vector<std::size_t>> rings,
             host_weights kind, runtime_options options);

  [[nodiscard]] runtime& through() noexcept { return runtime_; }
  [[nodiscard]] block_gate& gate() noexcept { return *gate_; }
  [[nodiscard]] std::size_t blocks() const noexcept { return blocks_; }

  /// Returns what a block is copied from. @pre made of `addresses`
  [[nodiscard]] const_bytes source(std::size_t block) const { return sources_.at(block).bytes(); }

  /// Runs one block with an empty body.
  void run(block_id block) {
    static_cast<void>(gate_->acquire(block));
    gate_->release(block);
  }
  void run_all();

private:
  [[nodiscard]] host_master make_master(device& target, planned_block& block, std::size_t bytes,
                                        host_weights kind);

  std::shared_ptr<device> target_; ///< Outlives what was allocated from it.
  std::vector<memory_block> sources_;
  std::size_t blocks_ = 0;
  runtime runtime_;
  std::shared_ptr<block_gate> gate_;
};

/// Returns the value, or throws what went wrong.
template <class T>
T checked(result<T> outcome) {
  if (!outcome)
    throw ferry_error(outcome.error());
  if constexpr (!std::is_void_v<T>)
    return std::move(*outcome);
}

} // namespace ferry::bench
