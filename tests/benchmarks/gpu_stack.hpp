// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/cuda_device.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/stream.hpp>

#include "bare_stack.hpp"
#include "gpu/rig.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace ferry::bench {

/// Equal blocks on a real GPU whose bodies read their weights over and over, as the linear layers
/// of a small batch do: streamed through the actors, and beside that all of them at once.
class gpu_stack {
public:
  struct shape {
    std::size_t blocks = 12;
    std::size_t bytes = std::size_t{256} << 20;
    std::size_t slots = 2;
    bool resident = false; ///< Whether the device also holds all blocks at once.
  };

  gpu_stack(std::shared_ptr<cuda_device> gpu, const shape& how);

  [[nodiscard]] std::size_t blocks() const noexcept { return how_.blocks; }
  [[nodiscard]] std::size_t bytes() const noexcept { return how_.blocks * how_.bytes; }
  [[nodiscard]] runtime& through() noexcept { return streamed_.through(); }

  /// Returns the seconds that a copy of one block takes, back to back with others.
  [[nodiscard]] double copy_seconds();

  /// Returns how many rounds a body has to make to take about `seconds`.
  [[nodiscard]] int rounds_for(double seconds);

  /// Return the seconds of `passes` passes over all blocks, whose bodies make `rounds` rounds.
  [[nodiscard]] double streamed(std::size_t passes, int rounds);
  [[nodiscard]] double resident(std::size_t passes, int rounds);
  /// The same in the middle of a run, where the ring has fetched nothing that is not paid for.
  [[nodiscard]] double steady(std::size_t passes, int rounds);
  /// The same as `resident` while another stream copies without a pause.
  [[nodiscard]] double resident_beside_copies(std::size_t passes, int rounds);

  /// Returns the seconds that the model thread spends on the gate of each block of a pass, in
  /// order.
  [[nodiscard]] std::vector<double> submit_seconds(std::size_t passes, int rounds);

private:
  [[nodiscard]] double timed(const std::function<void()>& enqueue);
  void churn(const_bytes bytes, int rounds);
  void copy_all(stream& on, std::size_t passes);

  std::shared_ptr<cuda_device> gpu_;
  shape how_;
  std::shared_ptr<test::model_streams> callers_;
  bare_stack streamed_;
  stream beside_;
  memory_block sink_;
  memory_block landing_; ///< Two blocks, for copies that are only measured.
  memory_block resident_;
};

/// Returns the first GPU. @throws ferry_error with the reason if there is none
[[nodiscard]] std::shared_ptr<cuda_device> gpu_to_measure();

} // namespace ferry::bench
