// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/bare_weights.hpp>
#include <ferry/offload/block_gate.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace ferry::test {

/// Blocks of plain bytes to stream: block i is filled with a value of its own, and no two
/// neighbours are equally long.
class byte_blocks {
public:
  /// Makes one ring for each entry of `ring_sizes`, and `residents` resident units.
  byte_blocks(std::vector<std::size_t> ring_sizes, std::size_t residents);

  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  /// Returns what every byte of `block` is.
  [[nodiscard]] unsigned char value_of(std::size_t block) const {
    return std::to_integer<unsigned char>(bytes_.at(block)->front());
  }
  /// Returns the weights, their sources where they are.
  [[nodiscard]] const std::shared_ptr<const bare_weights>& weights() const noexcept {
    return weights_;
  }

  /// Returns the weights with sources in pinned memory of `owner`.
  [[nodiscard]] std::shared_ptr<const bare_weights> pinned(device& owner) const;

  /// Runs `block` through `gate` as a model would. Returns whether it saw its bytes.
  [[nodiscard]] bool run(block_gate& gate, std::size_t block) const;

  /// Runs all blocks in order, `passes` times. Returns whether every block saw its bytes each time.
  [[nodiscard]] bool run_all(block_gate& gate, std::size_t passes) const;

  /// Returns whether residents that lie one behind the other at `home` are what they shall be.
  [[nodiscard]] bool residents_are_right(const std::byte* home) const;

private:
  using contents = std::vector<std::byte>;

  std::vector<std::unique_ptr<contents>> bytes_;
  std::vector<std::unique_ptr<contents>> resident_bytes_;
  std::shared_ptr<const bare_weights> weights_;
};

} // namespace ferry::test
