// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/staging_buffers.hpp>
#include <ferry/platform/host_thread.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace ferry {
namespace {

using contents = std::vector<std::byte>;

static_assert(!std::is_copy_constructible_v<staging_buffers>);

/// A unit of two storages with padding between them, and what it looks like packed.
struct two_storages {
  contents first = contents(300, std::byte{1});
  contents second = contents(70, std::byte{2});
  std::array<host_master::segment, 2> from{
      host_master::segment{first, 0, memory_kind::mapped},
      host_master::segment{second, 512, memory_kind::pageable}};
  static constexpr std::size_t bytes = 768;

  [[nodiscard]] contents packed() const {
    contents all(bytes);
    std::ranges::copy(first, all.begin());
    std::ranges::copy(second, all.begin() + 512);
    return all;
  }
};

/// Brings a unit to `target` piece by piece, from the turn `turn` on. Returns the next turn.
std::uint64_t bring(staging_buffers& through, std::span<const host_master::segment> from,
                    mutable_bytes target, stream& copies, std::uint64_t turn) {
  for (std::size_t i = 0; i != through.pieces_of(target.size()); ++i, ++turn) {
    const auto piece = through.piece(target.size(), i);
    through.pack(turn, from, piece);
    through.copy(turn, piece, target, copies, {.what = "fetch"});
  }
  return turn;
}

TEST_CASE("files and ordinary memory are staged, pinned and registered memory is not",
          "[offload][staging_buffers]") {
  CHECK(needs_staging(memory_kind::mapped));
  CHECK(needs_staging(memory_kind::pageable));
  CHECK_FALSE(needs_staging(memory_kind::pinned));
  CHECK_FALSE(needs_staging(memory_kind::registered));
}

TEST_CASE("a buffer is as long as the largest unit, at most as long as a piece may be",
          "[offload][staging_buffers]") {
  CHECK(staging_buffers::size_for(1000, 4096) == 1024);
  CHECK(staging_buffers::size_for(8192, 4096) == 4096);
  CHECK(staging_buffers::size_for(8192, 1) == 256);
  CHECK(staging_buffers::size_for(0, 4096) == 0);
}

TEST_CASE("two buffers are pinned, whatever goes through them", "[offload][staging_buffers]") {
  sim_device gpu{sim_options{}};
  {
    const staging_buffers through{gpu, 512};
    CHECK(through.size() == 1024);
    CHECK(gpu.counters().pinned_bytes == 1024);
  }
  CHECK(gpu.counters().pinned_bytes == 0);
  CHECK(gpu.counters().events == 0);
}

TEST_CASE("a unit is cut into as few even pieces as there can be, and none is left out",
          "[offload][staging_buffers]") {
  sim_device gpu{sim_options{}};
  const staging_buffers through{gpu, 1024};
  const auto bytes =
      GENERATE(std::size_t{1}, std::size_t{256}, std::size_t{1024}, std::size_t{1025},
               std::size_t{2049}, std::size_t{4096}, std::size_t{4097}, std::size_t{9000});
  CAPTURE(bytes);

  const auto pieces = through.pieces_of(bytes);

  CHECK(pieces == (bytes + 1023) / 1024);
  std::size_t next = 0;
  for (std::size_t i = 0; i != pieces; ++i) {
    const auto piece = through.piece(bytes, i);
    CHECK(piece.offset == next);
    CHECK((piece.bytes > 0 && piece.bytes <= 1024));
    next += piece.bytes;
  }
  CHECK(next == bytes);
}

TEST_CASE("a unit arrives as it is packed, its padding zero", "[offload][staging_buffers]") {
  const auto buffer = GENERATE(std::size_t{256}, std::size_t{512}, std::size_t{1024});
  sim_device gpu{sim_options{}};
  const two_storages unit;
  staging_buffers through{gpu, buffer};
  memory_block slot{gpu, memory_kind::device, two_storages::bytes};
  stream copies{gpu, "copy"};

  bring(through, unit.from, slot.bytes(), copies, 0);
  copies.synchronize({"end"});

  CHECK(std::ranges::equal(slot.bytes(), unit.packed()));
  CHECK(gpu.race_count() == 0);
}

TEST_CASE("a buffer is not packed again under the copy out of it", "[offload][staging_buffers]") {
  const auto forgotten = GENERATE(false, true);
  sim_device gpu{sim_options{}};
  if (forgotten)
    gpu.forget("pack_waits_copy");
  const two_storages one;
  two_storages other;
  std::ranges::fill(other.first, std::byte{3});
  std::ranges::fill(other.second, std::byte{4});
  staging_buffers through{gpu, 256};
  memory_block slots{gpu, memory_kind::device, 2 * two_storages::bytes};
  stream copies{gpu, "copy"};

  const auto turn = bring(through, one.from, slots.bytes().first(two_storages::bytes), copies, 0);
  bring(through, other.from, slots.bytes().last(two_storages::bytes), copies, turn);
  copies.synchronize({"end"});

  const auto right = std::ranges::equal(slots.bytes().first(two_storages::bytes), one.packed()) &&
                     std::ranges::equal(slots.bytes().last(two_storages::bytes), other.packed());
  CHECK(right != forgotten);
  CHECK((gpu.race_count() != 0) == forgotten);
}

TEST_CASE("after a copy whose event could not be recorded the next piece waits for the stream",
          "[offload][staging_buffers]") {
  sim_device gpu{sim_options{}};
  const two_storages unit;
  staging_buffers through{gpu, 1024};
  memory_block slot{gpu, memory_kind::device, two_storages::bytes};
  stream copies{gpu, "copy"};
  const auto piece = through.piece(two_storages::bytes, 0);
  through.pack(0, unit.from, piece);
  gpu.inject({.call = device_call::record});
  REQUIRE_THROWS_AS(through.copy(0, piece, slot.bytes(), copies, {.what = "fetch"}), device_error);

  through.pack(0, unit.from, piece);

  copies.synchronize({"end"});
  CHECK(gpu.race_count() == 0);
}

TEST_CASE("what is packed is announced, so that a source which changes meanwhile is a race",
          "[offload][staging_buffers]") {
  sim_device gpu{sim_options{}};
  two_storages unit;
  staging_buffers through{gpu, 1024};
  {
    const host_thread other{gpu, "writer"};
    const host_thread::scope scope{other};
    gpu.host_write(unit.first, {.what = "replace weights"});
  }

  through.pack(0, unit.from, through.piece(two_storages::bytes, 0));

  CHECK(gpu.race_count() == 1);
}

TEST_CASE("what is converted arrives converted, wherever it is cut into pieces",
          "[offload][staging_buffers][conversion]") {
  sim_device gpu{sim_options{}};
  const auto size = GENERATE(std::size_t{256}, std::size_t{512}, std::size_t{2048});
  CAPTURE(size);
  staging_buffers through{gpu, size};
  const contents halves(300, std::byte{0x40}); // 150 elements, which become 600 bytes.
  const contents plain(70, std::byte{2});
  const std::array from{
      host_master::segment{halves, 0, memory_kind::mapped, conversion::bf16_to_f32},
      host_master::segment{plain, 768, memory_kind::pageable}};
  memory_block slot(gpu, memory_kind::device, 1024);
  memory_block seen(gpu, memory_kind::pinned, 1024);
  stream copies(gpu, "copies");

  bring(through, from, slot.bytes(), copies, 0);

  copies.copy({.target = seen.bytes(),
               .source = slot.bytes(),
               .to = memory_kind::pinned,
               .from = memory_kind::device});
  copies.synchronize({"test"});
  gpu.host_read(seen.bytes(), {.what = "check"});
  auto wrong = 0;
  for (std::size_t i = 0; i != 600; ++i)
    wrong += seen.bytes()[i] == (i % 4 < 2 ? std::byte{0} : std::byte{0x40}) ? 0 : 1;
  for (std::size_t i = 600; i != 768; ++i)
    wrong += seen.bytes()[i] == std::byte{0} ? 0 : 1;
  CHECK(wrong == 0);
  CHECK(std::ranges::equal(seen.bytes().subspan(768, 70), plain));
  CHECK(gpu.race_count() == 0);
}

} // namespace
} // namespace ferry
