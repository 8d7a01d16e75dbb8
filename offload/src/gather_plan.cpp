// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/gather_plan.hpp"

#include <ferry/offload/sha256.hpp>

#include "subtree.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ferry {
namespace {

/// The tensors of a block, under all of their names.
struct block_tensors {
  std::vector<weight_place> all;
  std::vector<weight_place> stored; ///< Those of them that checkpoints have, and that have bytes.
};

/// By `block_id`; nothing of blocks that are not gathered.
std::vector<block_tensors> tensors_of_gathers(const node_ptr& root, const transfer_plan& plan) {
  struct seat {
    std::size_t block = 0;
    std::size_t storage = 0;
  };
  std::unordered_map<object_id, seat> seats;
  for (std::size_t i = 0; i != plan.gathers.size(); ++i)
    if (plan.gathers[i])
      for (const auto& each : plan.blocks[i].layout.tensors)
        seats.try_emplace(each.identity, seat{i, each.storage});

  std::vector<block_tensors> found(plan.blocks.size());
  const auto add = [&](const std::string& path, const tensor_info& tensor) {
    const auto at = seats.find(tensor.identity);
    if (at == seats.end())
      return;
    const auto [block, storage] = at->second;
    weight_place place{.name = path.empty() ? tensor.name : path + "." + tensor.name,
                       .type = tensor.type,
                       .shape = tensor.shape,
                       .strides = tensor.strides,
                       .unit = block,
                       .storage = storage};
    if (storage != packed_tensor::no_storage) {
      place.first = static_cast<std::size_t>(tensor.storage_offset) * element_size(tensor.type) -
                    plan.blocks[block].layout.storages[storage].begin;
      if (tensor.persistent)
        found[block].stored.push_back(place);
    }
    found[block].all.push_back(std::move(place));
  };
  node_ids visited;
  visit_subtree("", root, visited, [&](const std::string& path, const module_node& each) {
    for (const auto& tensor : each.tensors())
      add(path, tensor);
  });
  return found;
}

/// Appends `count` elements from `begin` on, counted in the order of the shape.
void append_elements(const weight_place& from, const_bytes storage, std::size_t begin,
                     std::size_t count, std::vector<std::byte>& to) {
  const auto size = element_size(from.type);
  for (auto index = begin; index != begin + count; ++index) {
    std::int64_t steps = 0;
    auto rest = static_cast<std::int64_t>(index);
    for (auto d = from.shape.size(); d-- != 0; rest /= from.shape[d])
      steps += rest % from.shape[d] * from.strides[d];
    const auto offset =
        static_cast<std::int64_t>(from.first) + steps * static_cast<std::int64_t>(size);
    const auto element = storage.subspan(static_cast<std::size_t>(offset), size);
    to.insert(to.end(), element.begin(), element.end());
  }
}

/// Returns the first KiB, the last, and two between; all of a tensor that is not longer than these.
std::vector<std::byte> sample_of(const weight_place& place, const_bytes storage) {
  constexpr std::size_t spots = 4;
  const auto count = place.bytes() / element_size(place.type);
  const auto run = std::size_t{1024} / element_size(place.type);
  std::vector<std::byte> sample;
  if (count <= spots * run)
    append_elements(place, storage, 0, count, sample);
  else
    for (std::size_t i = 0; i != spots; ++i)
      append_elements(place, storage, (count - run) * i / (spots - 1), run, sample);
  return sample;
}

/// By `block_id`.
std::vector<std::vector<pending_transform>>
pending_of_blocks(const node_ptr& root, const transfer_plan& plan, const loader_transforms* left) {
  if (left == nullptr || left->empty())
    return std::vector<std::vector<pending_transform>>(plan.blocks.size());
  std::vector<const packed_layout*> layouts;
  for (const auto& each : plan.blocks)
    layouts.push_back(&each.layout);
  for (const auto& each : plan.residents)
    layouts.push_back(&each.layout);
  for (const auto& each : plan.groups)
    layouts.push_back(&each.layout);
  auto found = left->find(root, layouts);
  if (!found)
    throw ferry_error{std::move(found.error())};
  return std::move(*found);
}

} // namespace

result<void> plan_gathers(transfer_plan& plan, const offload_config& config, std::size_t ranks) {
  if (ranks == 1)
    return {};
  std::vector<std::optional<gather_manifest>> gathers(plan.blocks.size());
  auto slot_bytes = plan.slot_bytes;
  std::size_t input_bytes = 0;
  for (const auto& ring : plan.rings) {
    if (!config.offloads(ring.component) || !config.uses_allgather(ring.component))
      continue;
    for (const auto id : ring.blocks) {
      const auto& block = plan.blocks[static_cast<std::size_t>(id)];
      auto manifest = plan_gather(block.path, block.layout.bytes, ranks, config.chunk_bytes);
      if (!manifest)
        return tl::unexpected(std::move(manifest.error()));
      slot_bytes = std::max(slot_bytes, manifest->gathered_bytes());
      for (const auto& chunk : manifest->chunks)
        input_bytes = std::max(input_bytes, chunk.local);
      gathers[static_cast<std::size_t>(id)] = std::move(*manifest);
    }
  }
  if (input_bytes == 0)
    return {};
  plan.gathers = std::move(gathers);
  plan.slot_bytes = slot_bytes;
  plan.input_bytes = input_bytes;
  return {};
}

std::vector<block_identity> identify_gathers(pipeline& subject, const transfer_plan& plan,
                                             const loader_transforms* left) {
  if (plan.gathers.empty())
    return {};
  const auto root = subject.root();
  const auto tensors = tensors_of_gathers(root, plan);
  const auto pending = pending_of_blocks(root, plan, left);
  std::vector<block_identity> made;
  for (std::size_t i = 0; i != plan.gathers.size(); ++i) {
    if (!plan.gathers[i])
      continue;
    const auto& block = plan.blocks[i];
    sha256_sum sum;
    const auto form = digest(*plan.gathers[i], block.layout, tensors[i].all);
    sum.add(std::as_bytes(std::span(form)));
    const auto unit = subject.make_unit(block.path, block.layout);
    const auto originals = unit->originals();
    const auto rearranged = rearranged_storages(pending[i], originals);
    for (const auto& each : tensors[i].stored) {
      const auto& computed = rearranged[each.storage];
      sum.add(sample_of(each, computed.empty() ? originals[each.storage] : computed));
    }
    made.push_back({block.path, sum.text().substr(0, 16)});
  }
  return made;
}

} // namespace ferry
