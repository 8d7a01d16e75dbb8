// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/byte_blocks.hpp"

#include <ferry/platform/memory.hpp>

#include <algorithm>
#include <array>
#include <string>

namespace ferry::test {
namespace {

packed_layout one_storage(std::size_t bytes) {
  packed_layout layout;
  layout.storages.push_back({.storage = {}, .begin = 0, .bytes = bytes, .offset = 0});
  layout.bytes = bytes;
  return layout;
}

host_master kept(const packed_layout& layout, const std::vector<std::byte>& from) {
  const std::array<const_bytes, 1> originals{from};
  const std::array kinds{memory_kind::pageable};
  return host_master::kept(layout, originals, kinds);
}

} // namespace

byte_blocks::byte_blocks(std::vector<std::size_t> ring_sizes, std::size_t residents) {
  auto made = std::make_shared<bare_weights>();
  for (const auto count : ring_sizes) {
    auto& ring = made->plan.rings.emplace_back();
    ring.path = "ring" + std::to_string(made->plan.rings.size() - 1);
    for (std::size_t i = 0; i != count; ++i) {
      const auto number = bytes_.size();
      const auto id = block_id{static_cast<std::uint32_t>(number)};
      const auto& bytes = *bytes_.emplace_back(
          std::make_unique<contents>(1000 + 96 * (number % 3), std::byte(1 + number % 250)));
      ring.blocks.push_back(id);
      made->plan.blocks.push_back({.id = id,
                                   .path = "blocks." + std::to_string(number),
                                   .layout = one_storage(bytes.size())});
      made->blocks.push_back(
          std::make_shared<host_master>(kept(made->plan.blocks.back().layout, bytes)));
      made->plan.slot_bytes = std::max(made->plan.slot_bytes, align_up(bytes.size()));
    }
  }
  for (std::size_t i = 0; i != residents; ++i) {
    const auto& bytes =
        *resident_bytes_.emplace_back(std::make_unique<contents>(500 + i, std::byte(251 + i % 4)));
    made->plan.residents.push_back(
        {.path = "resident" + std::to_string(i), .layout = one_storage(bytes.size())});
    made->residents.push_back(
        std::make_shared<host_master>(kept(made->plan.residents.back().layout, bytes)));
    made->plan.resident_bytes += align_up(bytes.size());
  }
  weights_ = std::move(made);
}

std::shared_ptr<const bare_weights> byte_blocks::pinned(device& owner) const {
  auto made = std::make_shared<bare_weights>(*weights_);
  for (std::size_t i = 0; i != bytes_.size(); ++i) {
    const std::array<const_bytes, 1> originals{*bytes_[i]};
    made->blocks[i] = std::make_shared<host_master>(
        host_master::pinned(owner, made->plan.blocks[i].layout, originals));
  }
  return made;
}

bool byte_blocks::run(block_gate& gate, std::size_t block) const {
  const auto id = block_id{static_cast<std::uint32_t>(block)};
  const const_bytes seen = gate.acquire(id);
  const auto right = std::ranges::equal(seen, *bytes_[block]);
  gate.release(id);
  return right;
}

bool byte_blocks::residents_are_right(const std::byte* home) const {
  auto right = true;
  for (const auto& each : resident_bytes_) {
    right = std::ranges::equal(const_bytes{home, each->size()}, *each) && right;
    home += align_up(each->size());
  }
  return right;
}

bool byte_blocks::run_all(block_gate& gate, std::size_t passes) const {
  auto right = true;
  for (std::size_t pass = 0; pass != passes; ++pass)
    for (std::size_t block = 0; block != size(); ++block)
      right = run(gate, block) && right;
  return right;
}

} // namespace ferry::test
