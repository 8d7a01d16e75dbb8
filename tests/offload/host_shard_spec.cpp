// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/host_shard.hpp>
#include <ferry/platform/host_device.hpp>

#include "support/catch.hpp"

#include <algorithm>

namespace ferry {
namespace {

using contents = std::vector<std::byte>;

/// A block of storages of the given sizes, every byte different from its neighbours.
struct sample {
  explicit sample(const std::vector<std::size_t>& sizes) {
    for (const auto size : sizes) {
      layout.storages.push_back({object_id{originals.size() + 1}, 0, size, layout.bytes});
      layout.bytes += align_up(size);
      auto& next = originals.emplace_back(size);
      for (std::size_t i = 0; i != size; ++i)
        next[i] = static_cast<std::byte>(1 + (i + 31 * originals.size()) % 250);
    }
    packed.resize(layout.bytes);
    for (std::size_t i = 0; i != originals.size(); ++i)
      std::ranges::copy(originals[i],
                        packed.begin() + static_cast<std::ptrdiff_t>(layout.storages[i].offset));
  }

  [[nodiscard]] host_master master() const {
    const std::vector<const_bytes> bytes(originals.begin(), originals.end());
    const std::vector kinds(bytes.size(), memory_kind::mapped);
    return host_master::kept(layout, bytes, kinds);
  }

  packed_layout layout;
  std::vector<contents> originals;
  contents packed; ///< With zero padding.
};

/// What the gathers of all ranks' shards give.
contents gathered(const gather_manifest& manifest, const std::vector<host_shard>& shards) {
  contents all(manifest.gathered_bytes());
  for (const auto& chunk : manifest.chunks)
    for (std::size_t rank = 0; rank != shards.size(); ++rank)
      for (const auto& each : shards[rank].segments(chunk)) {
        const auto at = chunk.full_offset + rank * chunk.local + (each.offset - chunk.shard_offset);
        std::ranges::copy(each.source, all.begin() + static_cast<std::ptrdiff_t>(at));
      }
  return all;
}

TEST_CASE("the shards of all ranks, gathered, are the block", "[offload][shard]") {
  const auto ranks = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{5});
  const auto limit = GENERATE(std::optional<std::size_t>{}, std::optional<std::size_t>{1280 * 2});
  const auto pin = GENERATE(false, true);
  CAPTURE(ranks, limit.value_or(0), pin);
  host_device device{{}};
  const sample block{{300, 10, 4096, 1, 777}};
  const auto master = block.master();
  const auto manifest = plan_gather("b", block.layout.bytes, ranks, limit).value();

  std::vector<host_shard> shards;
  for (std::size_t rank = 0; rank != ranks; ++rank)
    shards.push_back(pin ? host_shard::pinned(device, master, manifest, rank)
                         : host_shard::kept(master, manifest, rank));

  auto all = gathered(manifest, shards);
  CHECK(std::ranges::all_of(all.begin() + static_cast<std::ptrdiff_t>(block.packed.size()),
                            all.end(), [](std::byte b) { return b == std::byte{0}; }));
  all.resize(block.packed.size());
  CHECK(all == block.packed);
}

TEST_CASE("a kept shard reads the block's own bytes and pins nothing", "[offload][shard]") {
  const sample block{{1000, 1000}};
  const auto manifest = plan_gather("b", block.layout.bytes, 2, std::nullopt).value();

  const auto shard = host_shard::kept(block.master(), manifest, 1);

  REQUIRE(shard.segments().size() == 1);
  CHECK(shard.segments()[0].source.data() == block.originals[1].data());
  CHECK(shard.segments()[0].kind == memory_kind::mapped);
  CHECK(shard.whole().empty());
}

TEST_CASE("a pinned shard is as long as every rank's, padding zero", "[offload][shard]") {
  host_device device{{}};
  const sample block{{700}};
  const auto manifest = plan_gather("b", block.layout.bytes, 2, std::nullopt).value();

  const auto shard = host_shard::pinned(device, block.master(), manifest, 1);

  REQUIRE(shard.segments().size() == 1);
  const auto bytes = shard.segments()[0].source;
  CHECK(bytes.size() == 512);
  CHECK(shard.whole().size() == 512);
  CHECK(
      std::ranges::all_of(bytes.subspan(700 - 512), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_CASE("the padding of many ranks is zero however long it is", "[offload][shard]") {
  const sample block{{10}};
  const auto manifest = plan_gather("b", block.layout.bytes, 64, std::nullopt).value();

  const auto shard = host_shard::kept(block.master(), manifest, 63);

  std::size_t bytes = 0;
  for (const auto& each : shard.segments()) {
    bytes += each.source.size();
    CHECK(std::ranges::all_of(each.source, [](std::byte b) { return b == std::byte{0}; }));
  }
  CHECK(bytes == manifest.shard_bytes());
}

} // namespace
} // namespace ferry
