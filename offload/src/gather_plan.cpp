// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/gather_plan.hpp"

#include <ferry/offload/sha256.hpp>
#include <ferry/platform/conversion.hpp>

#include "subtree.hpp"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ferry {
namespace {

/// A block that is gathered, or what stays on the device of a component that has some.
struct counted_unit {
  const std::string* path;
  const packed_layout* layout;
  std::size_t place;               ///< Among all units, as `loader_transforms` counts them.
  const gather_manifest* manifest; ///< Of a block.
};

bool has_gathers_of(const transfer_plan& plan, const std::string& component) {
  return std::ranges::any_of(plan.rings, [&](const planned_ring& ring) {
    return (ring.path == component || ring.path.starts_with(component + ".")) &&
           plan.gathers[static_cast<std::size_t>(ring.blocks.front())];
  });
}

std::vector<counted_unit> counted_units(const transfer_plan& plan) {
  std::vector<counted_unit> counted;
  for (std::size_t i = 0; i != plan.blocks.size(); ++i)
    if (plan.gathers[i])
      counted.push_back({&plan.blocks[i].path, &plan.blocks[i].layout, i, &*plan.gathers[i]});
  for (std::size_t i = 0; i != plan.residents.size(); ++i)
    if (const auto& each = plan.residents[i]; has_gathers_of(plan, each.path))
      counted.push_back({&each.path, &each.layout, plan.blocks.size() + i, nullptr});
  return counted;
}

/// The tensors of a unit, under all of their names.
struct unit_tensors {
  std::vector<weight_place> all;
  std::vector<weight_place> stored; ///< Those of them that checkpoints have, and that have bytes.
};

/// By position in `units`.
std::vector<unit_tensors> tensors_of(const node_ptr& root, std::span<const counted_unit> units) {
  struct seat {
    std::size_t unit = 0;
    std::size_t storage = 0;
  };
  std::unordered_map<object_id, seat> seats;
  for (std::size_t i = 0; i != units.size(); ++i)
    for (const auto& each : units[i].layout->tensors)
      seats.try_emplace(each.identity, seat{i, each.storage});

  std::vector<unit_tensors> found(units.size());
  const auto add = [&](const std::string& path, const tensor_info& tensor) {
    const auto at = seats.find(tensor.identity);
    if (at == seats.end())
      return;
    const auto [unit, storage] = at->second;
    weight_place place{.name = path.empty() ? tensor.name : path + "." + tensor.name,
                       .type = tensor.type,
                       .shape = tensor.shape,
                       .strides = tensor.strides,
                       .unit = units[unit].place,
                       .storage = storage};
    if (storage != packed_tensor::no_storage) {
      place.first = static_cast<std::size_t>(tensor.storage_offset) * element_size(tensor.type) -
                    units[unit].layout->storages[storage].begin;
      if (tensor.persistent)
        found[unit].stored.push_back(place);
    }
    found[unit].all.push_back(std::move(place));
  };
  node_ids visited;
  visit_subtree("", root, visited, [&](const std::string& path, const module_node& each) {
    for (const auto& tensor : each.tensors())
      add(path, tensor);
  });
  return found;
}

/// The bytes of a storage as they are kept, and what makes those of its tensors of them.
struct kept_storage {
  const_bytes bytes;
  conversion convert = conversion::none;
};

/// Appends `count` elements from `begin` on, counted in the order of the shape.
void append_elements(const weight_place& from, const kept_storage& storage, std::size_t begin,
                     std::size_t count, std::vector<std::byte>& to) {
  const auto size = element_size(from.type);
  for (auto index = begin; index != begin + count; ++index) {
    std::int64_t steps = 0;
    auto rest = static_cast<std::int64_t>(index);
    for (auto d = from.shape.size(); d-- != 0; rest /= from.shape[d])
      steps += rest % from.shape[d] * from.strides[d];
    const auto offset =
        static_cast<std::int64_t>(from.first) + steps * static_cast<std::int64_t>(size);
    const auto element =
        storage.bytes.subspan(unconverted_bytes(storage.convert, static_cast<std::size_t>(offset)),
                              unconverted_bytes(storage.convert, size));
    to.insert(to.end(), element.begin(), element.end());
  }
}

/// Returns the first KiB, the last, and two between; all of a tensor that is not longer than these.
std::vector<std::byte> sample_of(const weight_place& place, const kept_storage& storage) {
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

/// By place: of blocks, residents and groups.
std::vector<std::vector<pending_transform>>
pending_of_units(const node_ptr& root, const transfer_plan& plan, const loader_transforms* left) {
  if (left == nullptr || left->empty())
    return std::vector<std::vector<pending_transform>>(plan.blocks.size() + plan.residents.size());
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

void add_text(sha256_sum& sum, const std::string& text) {
  sum.add(std::as_bytes(std::span(text)));
}

/// Says what of a tensor the ranks have to have in common beside its bytes.
std::string form_of(const weight_place& tensor) {
  std::string form{to_string(tensor.type)};
  for (const auto each : tensor.shape)
    form += "," + std::to_string(each);
  return form + ";";
}

std::string text_of(const sha256_sum& sum) {
  return sum.text().substr(0, 16);
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
      if (block.layout.converts)
        return tl::unexpected(failure{
            .code = errc::unsupported,
            .detail = "ranks gather weights as they are stored, and those of '" + block.path +
                      "' are of another type than they compute in; load the model in the type "
                      "that its checkpoint has",
            .block = block.path});
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

std::vector<weight_identity> identify_gathers(pipeline& subject, const transfer_plan& plan,
                                              const loader_transforms* left) {
  if (plan.gathers.empty())
    return {};
  const auto root = subject.root();
  const auto units = counted_units(plan);
  const auto tensors = tensors_of(root, units);
  const auto pending = pending_of_units(root, plan, left);
  std::vector<weight_identity> made;
  for (std::size_t i = 0; i != units.size(); ++i) {
    const auto& [path, layout, place, manifest] = units[i];
    const auto unit = subject.make_unit(*path, *layout);
    const auto originals = unit->originals();
    const auto rearranged = rearranged_storages(pending[place], originals);
    const auto sampled = [&](const weight_place& each) {
      const auto& computed = rearranged[each.storage];
      if (!computed.empty())
        return sample_of(each, {.bytes = computed});
      return sample_of(each, {.bytes = originals[each.storage],
                              .convert = unit->originals_conversion(each.storage)});
    };
    if (manifest == nullptr) {
      for (const auto& each : tensors[i].stored) {
        sha256_sum sum;
        add_text(sum, form_of(each));
        sum.add(sampled(each));
        made.push_back({each.name, text_of(sum)});
      }
      continue;
    }
    sha256_sum sum;
    add_text(sum, digest(*manifest, *layout, tensors[i].all));
    for (const auto& each : tensors[i].stored)
      sum.add(sampled(each));
    made.push_back({*path, text_of(sum)});
  }
  return made;
}

} // namespace ferry
