// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/block_gate.hpp>
#include <ferry/offload/module_tree.hpp>
#include <ferry/offload/packing.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/platform/conversion.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ferry::test {

/// Memory for packed bytes, aligned as an arena is. Every byte is `fill` to begin with.
class packed_bytes {
public:
  static constexpr std::byte poison{0xff};

  explicit packed_bytes(std::size_t bytes, std::byte fill = poison)
      : memory_(bytes + memory_alignment, fill), bytes_(bytes) {}

  [[nodiscard]] std::byte* data() noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (align_up(address) - address);
  }
  [[nodiscard]] mutable_bytes bytes() noexcept { return {data(), bytes_}; }

private:
  std::vector<std::byte> memory_;
  std::size_t bytes_;
};

/// Copies a unit's originals into packed form.
inline packed_bytes pack_originals(const weight_unit& unit) {
  packed_bytes packed(unit.layout().bytes, std::byte{0});
  const auto originals = unit.originals();
  for (std::size_t i = 0; i != originals.size(); ++i)
    convert(unit.originals_conversion(i), originals[i],
            {packed.data() + unit.layout().storages[i].offset, unit.layout().storages[i].bytes});
  return packed;
}

/// Returns the tensors at and under `node`.
inline std::vector<tensor_info> all_tensors(const module_node& node) {
  auto all = node.tensors();
  for (const auto& [name, child] : node.children())
    std::ranges::move(all_tensors(*child), std::back_inserter(all));
  return all;
}

inline packed_layout pack_node(const module_node& node) {
  return pack(all_tensors(node));
}

inline std::shared_ptr<const module_node> node_at(const torch_pipeline& pipeline,
                                                  std::string_view path) {
  return find_node(pipeline.root(), path);
}

inline std::unique_ptr<weight_unit> unit_at(torch_pipeline& pipeline, const std::string& path) {
  return pipeline.make_unit(path, pack_node(*node_at(pipeline, path)));
}

/// A gate with one slot that is full of poison whenever no block is in it.
class one_slot_gate final : public block_gate {
public:
  /// Adds the next block. Its originals are the master.
  void add(const weight_unit& unit) {
    masters_.push_back(pack_originals(unit));
    slot_ = packed_bytes(std::max(slot_.bytes().size(), unit.layout().bytes));
  }

  mutable_bytes acquire(block_id block) override {
    trace += "+" + std::to_string(static_cast<std::uint32_t>(block));
    auto master = masters_.at(static_cast<std::size_t>(block)).bytes();
    std::ranges::copy(master, slot_.data());
    return {slot_.data(), master.size()};
  }

  void again(block_id block) override {
    trace += "=" + std::to_string(static_cast<std::uint32_t>(block));
  }

  void release(block_id block) noexcept override {
    trace += "-" + std::to_string(static_cast<std::uint32_t>(block));
    std::ranges::fill(slot_.bytes(), packed_bytes::poison);
  }

  std::string trace;

private:
  std::vector<packed_bytes> masters_;
  packed_bytes slot_{0};
};

} // namespace ferry::test
