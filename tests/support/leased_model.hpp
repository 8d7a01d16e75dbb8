// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/host_lease.hpp>
#include <ferry/offload/host_weight_plan.hpp>
#include <ferry/platform/device.hpp>

#include "support/fake_pipeline.hpp"
#include "support/read_only_pages.hpp"
#include "support/resolution.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// A pipeline whose denoiser's blocks lie in files that a lease holds.
namespace ferry::test {

/// Each block has two pages of two files in turn; every byte of block i is `i + 1`. The pages are
/// unmapped when the lease is closed.
class leased_model {
public:
  static constexpr std::size_t blocks = 4;
  static constexpr std::size_t pages = 2 * blocks;
  static constexpr std::size_t encoder_bytes = 3 * memory_alignment; ///< Packed; not leased.

  /// @param target is asked at the end of the lease what it has registered
  explicit leased_model(std::shared_ptr<device> target = nullptr, bool read_only = true)
      : target_(std::move(target)) {
    std::vector<fake_node> made;
    leased_weights weights;
    for (std::size_t i = 0; i != blocks; ++i) {
      const auto& file = mapped_->emplace_back(
          std::make_unique<read_only_pages>(2, static_cast<unsigned char>(i + 1)));
      made.push_back(node("test.block")
                         ->parameter("weight", mapped_tensor(file->bytes().subspan(256), {900}))
                         ->parameter("bias", mapped_tensor(file->bytes().subspan(5000), {8})));
      weights.regions.push_back({i % 2 == 0 ? "dit-1.bin" : "dit-2.bin", file->bytes(), read_only});
    }
    root_ =
        node("test.root")
            ->child("transformer",
                    node("test.dit")->parameter("pos", {4})->child("blocks", list(std::move(made))))
            ->child("text_encoder", encoder(3))
            ->child("vae", node("test.vae")->parameter("weight", {4}));
    pipeline_ = std::make_shared<fake_pipeline>(root_);
    auto declared = planned();
    declared.resident_dit_paths = {"transformer"};
    pipeline_->declare(roles).plan(declared);
    lease_ = host_lease::open(std::move(weights), {}, {{closer()}, {}}).value();
  }

  [[nodiscard]] const std::shared_ptr<fake_pipeline>& pipeline() const noexcept {
    return pipeline_;
  }

  /// Gives the lease away.
  [[nodiscard]] std::shared_ptr<host_lease> take_lease() noexcept { return std::move(lease_); }
  /// Keeps a share, so that only closing it ends it.
  [[nodiscard]] const std::shared_ptr<host_lease>& lease() const noexcept { return lease_; }

  [[nodiscard]] bool closed() const noexcept { return *closed_; }
  /// Returns what was registered when the lease was closed.
  [[nodiscard]] std::uint64_t registered_at_close() const noexcept { return *registered_; }
  /// Makes closing the lease fail.
  void fail_close() noexcept { *failing_ = true; }

  /// Calls every block. Returns whether each has its own bytes.
  [[nodiscard]] bool run_step() {
    auto right = true;
    for (std::size_t i = 0; i != blocks; ++i)
      pipeline_->call("transformer.blocks." + std::to_string(i),
                      [&](fake_module& seen) { right = has_bytes(seen, i) && right; });
    return right;
  }

  /// Returns whether every block has its own bytes, without calling it. Throws if it is parked.
  [[nodiscard]] bool is_whole() const {
    auto right = true;
    for (std::size_t i = 0; i != blocks; ++i)
      right = has_bytes(*root_->at("transformer.blocks." + std::to_string(i)), i) && right;
    return right;
  }

private:
  [[nodiscard]] static bool has_bytes(const fake_module& block, std::size_t index) {
    for (const auto& [name, tensor] : block.own_tensors())
      for (const auto each : tensor->bytes())
        if (each != std::byte(index + 1))
          return false;
    return true;
  }

  [[nodiscard]] host_lease::closer closer() {
    return [target = target_, pages = mapped_, closed = closed_, registered = registered_,
            failing = failing_] {
      *closed = true;
      *registered = target == nullptr ? 0 : target->counters().registered_bytes;
      pages->clear();
      if (*failing)
        throw std::runtime_error{"unmap was told to fail"};
    };
  }

  std::shared_ptr<device> target_;
  std::shared_ptr<std::vector<std::unique_ptr<read_only_pages>>> mapped_ =
      std::make_shared<std::vector<std::unique_ptr<read_only_pages>>>();
  std::shared_ptr<bool> closed_ = std::make_shared<bool>(false);
  std::shared_ptr<std::uint64_t> registered_ = std::make_shared<std::uint64_t>(0);
  std::shared_ptr<bool> failing_ = std::make_shared<bool>(false);
  fake_node root_;
  std::shared_ptr<fake_pipeline> pipeline_;
  std::shared_ptr<host_lease> lease_;
};

} // namespace ferry::test
