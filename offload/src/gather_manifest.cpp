// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/gather_manifest.hpp"

#include <ferry/offload/sha256.hpp>
#include <ferry/platform/memory.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>

namespace ferry {
namespace {

std::size_t round_up(std::size_t value, std::size_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

} // namespace

std::size_t gather_manifest::shard_bytes() const noexcept {
  return chunks.empty() ? 0 : chunks.back().shard_offset + chunks.back().local;
}

std::size_t gather_manifest::gathered_bytes() const noexcept {
  return chunks.empty() ? 0 : chunks.back().full_offset + chunks.back().local * ranks;
}

byte_range gather_manifest::part_of(const gather_chunk& chunk, std::size_t rank) const noexcept {
  const auto begin = std::min(rank * chunk.local, chunk.valid);
  const auto end = std::min(begin + chunk.local, chunk.valid);
  return {chunk.full_offset + begin, end - begin};
}

result<gather_manifest> plan_gather(const std::string& path, std::size_t bytes, std::size_t ranks,
                                    std::optional<std::size_t> chunk_bytes) {
  FERRY_ASSERT(ranks >= 1);
  const auto unit = ranks * memory_alignment;
  auto chunk = round_up(bytes, unit);
  if (chunk_bytes) {
    const auto most = *chunk_bytes / unit * unit;
    if (most == 0)
      return tl::unexpected(failure{errc::invalid_config,
                                    "chunks of " + std::to_string(*chunk_bytes) + " bytes for " +
                                        std::to_string(ranks) + " ranks; expected at least " +
                                        std::to_string(unit) + " bytes"});
    // As even as can be: a short last one leaves the link idle while the one before is gathered.
    if (const auto count = (bytes + most - 1) / most; count > 1)
      chunk = round_up((bytes + count - 1) / count, unit);
  }
  gather_manifest made{path, bytes, ranks, chunk, {}};
  std::size_t shard_offset = 0;
  for (std::size_t at = 0; at < bytes; at += chunk) {
    const auto valid = std::min(chunk, bytes - at);
    const auto local = round_up(valid, unit) / ranks;
    made.chunks.push_back({at, shard_offset, valid, local});
    shard_offset += local;
  }
  return made;
}

std::string digest(const gather_manifest& manifest, const packed_layout& layout,
                   std::span<const weight_place> tensors) {
  nlohmann::json said{{"path", manifest.path},
                      {"bytes", manifest.bytes},
                      {"ranks", manifest.ranks},
                      {"chunk_bytes", manifest.chunk_bytes}};
  for (const auto& each : manifest.chunks)
    said["chunks"].push_back({each.full_offset, each.shard_offset, each.valid, each.local});
  for (const auto& each : layout.storages)
    said["storages"].push_back({each.offset, each.bytes});
  for (const auto& each : tensors)
    said["tensors"].push_back(
        {each.name, to_string(each.type), each.shape, each.strides, each.storage, each.first});
  const auto text = said.dump();
  return sha256(std::as_bytes(std::span(text)));
}

} // namespace ferry
