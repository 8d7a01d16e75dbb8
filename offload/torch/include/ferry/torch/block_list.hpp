// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/call.hpp>

#include <torch/nn/module.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ferry {

/// A block that is called through its hooks: `x = block(x, text)`.
template <hookable_module Block>
class block_ref {
public:
  explicit block_ref(std::shared_ptr<Block> block) : block_(std::move(block)) {}

  template <class... Args>
  decltype(auto) operator()(Args&&... args) const {
    return call(*block_, std::forward<Args>(args)...);
  }

  /// Keeps the block's weights where its calls use them for as long as the result lives:
  ///
  ///     const auto held = block.hold();
  ///     for (auto& x : hidden)
  ///       x = block(x, text);
  [[nodiscard]] hook_hold hold() const { return {block_->hooks(), *block_}; }

  [[nodiscard]] Block& operator*() const noexcept { return *block_; }
  [[nodiscard]] Block* operator->() const noexcept { return block_.get(); }

private:
  std::shared_ptr<Block> block_;
};

/// What every `block_list` is, whatever its blocks.
class ordered_blocks : public torch::nn::Module {};

/// A list of blocks, registered as children "0", "1", ...; iterating it gives blocks that are
/// called through their hooks:
///
///     for (const auto& block : *blocks_)
///       x = block(x, text);
template <hookable_module Block>
class block_list final : public ordered_blocks {
public:
  [[nodiscard]] std::size_t size() const noexcept { return blocks_.size(); }
  [[nodiscard]] const block_ref<Block>& operator[](std::size_t i) const { return blocks_[i]; }
  [[nodiscard]] auto begin() const noexcept { return blocks_.begin(); }
  [[nodiscard]] auto end() const noexcept { return blocks_.end(); }

  void push_back(std::shared_ptr<Block> block) {
    register_module(std::to_string(size()), block);
    blocks_.emplace_back(std::move(block));
  }

private:
  std::vector<block_ref<Block>> blocks_;
};

} // namespace ferry
