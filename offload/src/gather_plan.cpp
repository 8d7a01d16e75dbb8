// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/gather_plan.hpp"

#include <ferry/offload/sha256.hpp>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace ferry {

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

std::string digest_of_gathers(const transfer_plan& plan) {
  sha256_sum all;
  for (std::size_t i = 0; i != plan.gathers.size(); ++i)
    if (const auto& manifest = plan.gathers[i]) {
      const auto one = digest(*manifest, plan.blocks[i].layout);
      all.add(std::as_bytes(std::span(one)));
    }
  return all.text();
}

} // namespace ferry
