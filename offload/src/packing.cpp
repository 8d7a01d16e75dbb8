// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/packing.hpp"

#include <ferry/platform/conversion.hpp>
#include <ferry/platform/memory.hpp>

#include "storage_use.hpp"

#include <algorithm>
#include <unordered_set>

namespace ferry {

namespace {

bool has_elements(const tensor_info& tensor) noexcept {
  return std::ranges::find(tensor.shape, 0) == tensor.shape.end();
}

bool has_bytes(const tensor_info& tensor) noexcept {
  return !tensor.meta && tensor.storage != object_id{} && has_elements(tensor);
}

} // namespace

std::pair<std::size_t, std::size_t> used_range(const tensor_info& tensor) {
  if (!has_bytes(tensor))
    return {0, 0};
  auto first = tensor.storage_offset;
  auto last = tensor.storage_offset;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const auto reach = (tensor.shape[d] - 1) * tensor.strides[d];
    (reach < 0 ? first : last) += reach;
  }
  const auto size = element_size(tensor.type);
  return {static_cast<std::size_t>(first) * size, (static_cast<std::size_t>(last) + 1) * size};
}

tensor_use use_of(const tensor_info& tensor) {
  const auto [begin, end] = used_range(tensor);
  return {.identity = tensor.identity,
          .owner = tensor.owner,
          .storage = tensor.storage,
          .begin = begin,
          .end = end,
          .element_size = element_size(tensor.type),
          .meta = tensor.meta && has_elements(tensor),
          .convert = tensor.convert};
}

packed_layout pack(std::span<const tensor_info> tensors) {
  std::vector<tensor_use> uses;
  uses.reserve(tensors.size());
  for (const auto& each : tensors)
    uses.push_back(use_of(each));
  return pack(uses);
}

packed_layout pack(std::span<const tensor_use> tensors) {
  packed_layout layout;
  layout.tensors.reserve(tensors.size());
  std::vector<storage_use> uses;
  std::vector<std::size_t> element_sizes;
  std::vector<conversion> conversions;
  std::vector<std::size_t> user; // Of each use, into `layout.tensors`.
  std::unordered_set<object_id> seen;
  for (const auto& tensor : tensors) {
    if (!seen.insert(tensor.identity).second)
      continue;
    if (tensor.begin != tensor.end) {
      uses.push_back({tensor.storage, tensor.begin, tensor.end});
      element_sizes.push_back(tensor.element_size);
      conversions.push_back(tensor.convert);
      user.push_back(layout.tensors.size());
    }
    layout.meta_tensors += tensor.meta ? 1U : 0U;
    layout.tensors.push_back({tensor.identity, tensor.owner, packed_tensor::no_storage});
  }

  struct extent {
    storage_use bytes;
    std::size_t alignment;
    conversion convert;
  };
  std::vector<extent> extents;
  const auto groups = overlap_groups(uses);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    layout.tensors[user[i]].storage = groups[i];
    if (groups[i] == extents.size()) {
      extents.push_back({uses[i], element_sizes[i], conversions[i]});
    } else {
      auto& [bytes, alignment, convert] = extents[groups[i]];
      bytes.begin = std::min(bytes.begin, uses[i].begin);
      bytes.end = std::max(bytes.end, uses[i].end);
      alignment = std::max(alignment, element_sizes[i]);
    }
  }

  for (auto [bytes, alignment, convert] : extents) {
    // Views of several element types stay aligned to each only relative to the storage's start.
    bytes.begin -= bytes.begin % alignment;
    const auto size = bytes.end - bytes.begin;
    layout.storages.push_back({bytes.storage, bytes.begin, size, layout.bytes});
    layout.bytes += align_up(size);
    layout.source_bytes += align_up(unconverted_bytes(convert, size));
    layout.converts = layout.converts || convert != conversion::none;
  }
  return layout;
}

} // namespace ferry
