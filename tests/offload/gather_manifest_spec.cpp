// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/gather_manifest.hpp>
#include <ferry/platform/memory.hpp>

#include "support/catch.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace ferry {
namespace {

using chunks = std::vector<gather_chunk>;

constexpr std::size_t unit = memory_alignment;

TEST_CASE("without a limit a block is gathered in one piece, padded to equal shards",
          "[offload][gather]") {
  const auto manifest = plan_gather("blocks.0", 4 * unit, 3, std::nullopt).value();

  CHECK(manifest.chunks == chunks{{0, 0, 4 * unit, 2 * unit}});
  CHECK(manifest.shard_bytes() == 2 * unit);
  CHECK(manifest.gathered_bytes() == 6 * unit);
}

TEST_CASE("every byte of a block is sent by one rank, in order", "[offload][gather]") {
  const auto bytes = GENERATE(std::size_t{1}, unit - 1, unit, 5 * unit + 3, 64 * unit);
  const auto ranks = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{8});
  const auto limit =
      GENERATE(std::optional<std::size_t>{}, std::optional{8 * unit}, std::optional{17 * unit});
  CAPTURE(bytes, ranks, limit.value_or(0));
  const auto manifest = plan_gather("blocks.0", bytes, ranks, limit).value();

  std::size_t sent = 0;
  std::size_t shard = 0;
  for (const auto& chunk : manifest.chunks) {
    CHECK(chunk.full_offset % unit == 0);
    CHECK(chunk.shard_offset == shard);
    CHECK(chunk.local % unit == 0);
    CHECK((!limit || chunk.local * ranks <= *limit));
    shard += chunk.local;
    for (std::size_t rank = 0; rank != ranks; ++rank) {
      const auto part = manifest.part_of(chunk, rank);
      CHECK((part.bytes == 0 || part.offset == sent));
      sent += part.bytes;
    }
  }
  CHECK(sent == bytes);
  CHECK(manifest.shard_bytes() == shard);
  CHECK(manifest.gathered_bytes() < bytes + ranks * unit);
}

TEST_CASE("a block is cut into as few chunks as can be, and these are even", "[offload][gather]") {
  const auto manifest = plan_gather("blocks.0", 18 * unit, 2, 8 * unit).value();

  CHECK(manifest.chunks == chunks{{0, 0, 6 * unit, 3 * unit},
                                  {6 * unit, 3 * unit, 6 * unit, 3 * unit},
                                  {12 * unit, 6 * unit, 6 * unit, 3 * unit}});
}

TEST_CASE("a full chunk is a multiple of what ranks can share, and the tail is what is left",
          "[offload][gather]") {
  const auto manifest = plan_gather("blocks.0", 11 * unit, 2, 5 * unit).value();

  CHECK(manifest.chunk_bytes == 4 * unit);
  CHECK(manifest.chunks == chunks{{0, 0, 4 * unit, 2 * unit},
                                  {4 * unit, 2 * unit, 4 * unit, 2 * unit},
                                  {8 * unit, 4 * unit, 3 * unit, 2 * unit}});
}

TEST_CASE("ranks beyond the end of a block send padding alone", "[offload][gather]") {
  const auto manifest = plan_gather("blocks.0", 100, 4, std::nullopt).value();

  CHECK(manifest.part_of(manifest.chunks[0], 0) == byte_range{0, 100});
  for (std::size_t rank = 1; rank != 4; ++rank)
    CHECK(manifest.part_of(manifest.chunks[0], rank).bytes == 0);
}

TEST_CASE("a block without bytes needs no gather", "[offload][gather]") {
  const auto manifest = plan_gather("blocks.0", 0, 2, std::nullopt).value();

  CHECK(manifest.chunks.empty());
  CHECK(manifest.shard_bytes() == 0);
  CHECK(manifest.gathered_bytes() == 0);
}

TEST_CASE("chunks too small for the ranks are refused with the least that works",
          "[offload][gather]") {
  const auto refused = plan_gather("blocks.0", 4096, 4, 4 * unit - 1);

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_config);
  CHECK_THAT(refused.error().detail, Catch::Contains("1023 bytes") && Catch::Contains("4 ranks") &&
                                         Catch::Contains("at least 1024"));
}

packed_layout two_storages() {
  return {.storages = {{object_id{7}, 0, 100, 0}, {object_id{9}, 16, 50, 256}},
          .tensors = {{object_id{1}, object_id{2}, 0}, {object_id{3}, object_id{2}, 1}},
          .bytes = 512};
}

std::vector<weight_place> two_tensors() {
  return {
      {.name = "blocks.0.weight",
       .type = dtype::f16,
       .shape = {5, 10},
       .strides = {10, 1},
       .storage = 0},
      {.name = "blocks.0.bias", .type = dtype::f16, .shape = {25}, .strides = {1}, .storage = 1}};
}

TEST_CASE("a digest names what ranks must agree on, and nothing else", "[offload][gather]") {
  const auto manifest = plan_gather("blocks.0", 512, 2, std::nullopt).value();
  const auto layout = two_storages();
  const auto tensors = two_tensors();
  const auto mine = digest(manifest, layout, tensors);
  CHECK(mine.size() == 64);

  auto elsewhere = layout;
  for (auto& each : elsewhere.storages)
    each.storage = object_id{static_cast<std::uintptr_t>(each.storage) + 1000};
  for (auto& each : elsewhere.tensors)
    each.identity = each.owner = object_id{77};
  CHECK(digest(manifest, elsewhere, tensors) == mine);

  auto moved = layout;
  moved.storages[1].offset = 128;
  CHECK(digest(manifest, moved, tensors) != mine);
  auto longer = layout;
  longer.storages[1].bytes = 51;
  CHECK(digest(manifest, longer, tensors) != mine);
  const auto of = [&](const char* path, std::size_t bytes, std::size_t ranks,
                      std::optional<std::size_t> chunk) {
    return digest(plan_gather(path, bytes, ranks, chunk).value(), layout, tensors);
  };
  CHECK(of("blocks.1", 512, 2, std::nullopt) != mine);
  CHECK(of("blocks.0", 512, 3, std::nullopt) != mine);
  CHECK(of("blocks.0", 512, 2, 512) == mine);
  CHECK(of("blocks.0", 2048, 2, 1024) != of("blocks.0", 2048, 2, std::nullopt));
}

TEST_CASE("a digest names each tensor, its type, its shape and where it lies",
          "[offload][gather]") {
  const auto manifest = plan_gather("blocks.0", 512, 2, std::nullopt).value();
  const auto with = [&](const std::function<void(weight_place&)>& change) {
    auto tensors = two_tensors();
    change(tensors[0]);
    return digest(manifest, two_storages(), tensors);
  };
  const auto mine = with([](weight_place&) {});

  CHECK(with([](weight_place& each) { each.unit = 3; }) == mine);
  CHECK(with([](weight_place& each) { each.name = "blocks.0.scale"; }) != mine);
  CHECK(with([](weight_place& each) { each.type = dtype::bf16; }) != mine);
  CHECK(with([](weight_place& each) { each.shape = {10, 5}; }) != mine);
  CHECK(with([](weight_place& each) { each.strides = {1, 5}; }) != mine);
  CHECK(with([](weight_place& each) { each.storage = 1; }) != mine);
  CHECK(with([](weight_place& each) { each.first = 2; }) != mine);
}

} // namespace
} // namespace ferry
