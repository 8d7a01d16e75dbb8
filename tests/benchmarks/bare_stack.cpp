// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "bare_stack.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace ferry::bench {

namespace {

constexpr std::size_t tensors_per_block = 27; // Of a Wan block.

} // namespace

bare_stack::bare_stack(std::shared_ptr<device> target,
                       std::span<const std::vector<std::size_t>> rings, host_weights kind,
                       runtime_options options)
    : target_(std::move(target)), runtime_(target_, options) {
  auto weights = std::make_shared<bare_weights>();
  for (const auto& sizes : rings) {
    auto& ring = weights->plan.rings.emplace_back();
    ring.path = "ring" + std::to_string(weights->plan.rings.size());
    for (const auto bytes : sizes) {
      auto& block = weights->plan.blocks.emplace_back();
      block.id = static_cast<block_id>(blocks_++);
      block.path = ring.path + "." + std::to_string(ring.blocks.size());
      weights->blocks.push_back(
          std::make_shared<host_master>(make_master(*target_, block, bytes, kind)));
      weights->plan.slot_bytes = std::max(weights->plan.slot_bytes, align_up(block.layout.bytes));
      ring.blocks.push_back(block.id);
    }
  }
  checked(runtime_.start());
  gate_ = checked(runtime_.enable(std::move(weights)));
}

host_master bare_stack::make_master(device& target, planned_block& block, std::size_t bytes,
                                    host_weights kind) {
  const std::size_t tensors = kind == host_weights::masters ? tensors_per_block : 1;
  const std::vector<std::byte> original(kind == host_weights::masters ? bytes : 0);
  std::vector<const_bytes> originals;
  for (std::size_t i = 0; i < tensors; ++i) {
    const auto begin = bytes * i / tensors;
    const auto size = bytes * (i + 1) / tensors - begin;
    block.layout.storages.push_back(
        {.storage = {}, .begin = 0, .bytes = size, .offset = block.layout.bytes});
    block.layout.bytes += align_up(size);
    if (kind == host_weights::masters)
      originals.push_back(const_bytes(original).subspan(begin, size));
  }
  if (kind == host_weights::masters)
    return host_master::pinned(target, block.layout, originals);
  originals.emplace_back(sources_.emplace_back(target, memory_kind::pinned, bytes).bytes());
  return host_master::kept(block.layout, originals, std::array{memory_kind::pinned});
}

void bare_stack::run_all() {
  for (std::size_t i = 0; i < blocks(); ++i)
    run(static_cast<block_id>(i));
}

} // namespace ferry::bench
