// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/host_master.hpp>
#include <ferry/platform/host_thread.hpp>
#include <ferry/platform/sim_device.hpp>
#include <ferry/platform/stream.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

namespace ferry {
namespace {

static_assert(std::is_nothrow_move_constructible_v<host_master>);

std::vector<std::byte> filled(std::size_t size, unsigned char value) {
  return std::vector<std::byte>(size, std::byte{value});
}

packed_layout layout_of(const std::vector<std::size_t>& sizes) {
  packed_layout layout;
  for (const auto size : sizes) {
    layout.storages.push_back({object_id{layout.storages.size() + 1}, 0, size, layout.bytes});
    layout.bytes += align_up(size);
  }
  return layout;
}

TEST_CASE("a kept master is the originals themselves, copied storage by storage",
          "[offload][host_master]") {
  const auto layout = layout_of({300, 10});
  const auto first = filled(300, 1);
  const auto second = filled(10, 2);
  const std::vector<const_bytes> originals{first, second};

  const auto master =
      host_master::kept(layout, originals, std::vector{memory_kind::mapped, memory_kind::pageable});

  REQUIRE(master.segments().size() == 2);
  CHECK(master.segments()[0].source.data() == first.data());
  CHECK(master.segments()[0].kind == memory_kind::mapped);
  CHECK(master.segments()[1].source.data() == second.data());
  CHECK(master.segments()[1].source.size() == 10);
  CHECK(master.segments()[1].offset == 512);
  CHECK(master.segments()[1].kind == memory_kind::pageable);
  CHECK(master.whole().empty());
  CHECK(master.bytes() == 768);
}

TEST_CASE("neighbours in both memories are copied in one piece", "[offload][host_master]") {
  const auto layout = layout_of({512, 256, 256, 256, 100});
  const auto file = filled(512 + 256 + 256 + 1 + 256 + 100, 1);
  const const_bytes bytes(file);
  const std::vector originals{bytes.subspan(0, 512), bytes.subspan(512, 256),
                              bytes.subspan(768, 256), bytes.subspan(1025, 256),
                              bytes.subspan(1281, 100)};

  const auto master =
      host_master::kept(layout, originals,
                        std::vector{memory_kind::mapped, memory_kind::mapped, memory_kind::pageable,
                                    memory_kind::pageable, memory_kind::pageable});

  std::vector<std::size_t> sizes;
  for (const auto& segment : master.segments())
    sizes.push_back(segment.source.size());
  CHECK(sizes == std::vector<std::size_t>{768, 256, 356});
}

TEST_CASE("padding between storages is not copied over", "[offload][host_master]") {
  const auto layout = layout_of({100, 100});
  const auto file = filled(200, 1);
  const std::vector originals{const_bytes(file).first(100), const_bytes(file).subspan(100)};

  const auto master = host_master::kept(layout, originals,
                                        std::vector{memory_kind::pageable, memory_kind::pageable});

  CHECK(master.segments().size() == 2);
}

TEST_CASE("a pinned master is one packed copy with zeros for padding", "[offload][host_master]") {
  sim_device gpu(sim_options{});
  const auto layout = layout_of({300, 10});
  auto first = filled(300, 1);
  const auto second = filled(10, 2);

  const auto master = host_master::pinned(gpu, layout, std::vector<const_bytes>{first, second});
  std::ranges::fill(first, std::byte{9});

  auto expected = filled(768, 0);
  std::ranges::fill_n(expected.begin(), 300, std::byte{1});
  std::ranges::fill_n(expected.begin() + 512, 10, std::byte{2});
  CHECK(std::ranges::equal(master.whole(), expected));
  REQUIRE(master.segments().size() == 1);
  CHECK(master.segments()[0].source.data() == master.whole().data());
  CHECK(master.segments()[0].kind == memory_kind::pinned);
  CHECK(gpu.counters().pinned_bytes == 768);
}

TEST_CASE("part of what is copied in one piece can be taken from elsewhere",
          "[offload][host_master]") {
  const auto layout = layout_of({256, 256, 256});
  const auto file = filled(768, 1);
  const const_bytes bytes(file);
  auto master = host_master::kept(
      layout, std::vector{bytes.first(256), bytes.subspan(256, 256), bytes.subspan(512)},
      std::vector(3, memory_kind::mapped));
  REQUIRE(master.segments().size() == 1);
  const auto moved = GENERATE(0u, 1u, 2u);
  const auto other = filled(256, 2);

  master.expect_moves(1);
  master.point_at(256 * moved, other);

  std::size_t covered = 0;
  for (const auto& segment : master.segments()) {
    CHECK(segment.offset == covered);
    covered += segment.source.size();
  }
  CHECK(covered == 768);
  for (std::size_t i = 0; i != 3; ++i)
    CHECK(master.at(256 * i, 256).front() == std::byte(i == moved ? 2 : 1));
  CHECK(master.segments()[moved == 0 ? 0 : 1].kind == memory_kind::pageable);
}

TEST_CASE("a pinned master gives its memory back", "[offload][host_master]") {
  sim_device gpu(sim_options{});
  const auto bytes = filled(300, 1);

  {
    const auto master = host_master::pinned(gpu, layout_of({300}), std::vector<const_bytes>{bytes});
  }

  CHECK(gpu.counters().pinned_bytes == 0);
}

TEST_CASE("a copy that is not ordered behind the filling of its master is a race",
          "[offload][host_master]") {
  sim_device gpu(sim_options{});
  const auto bytes = filled(256, 1);
  const memory_block slot(gpu, memory_kind::device, 256);
  stream copies(gpu, "copies");
  const host_thread uninformed(gpu, "uninformed");

  const auto master = host_master::pinned(gpu, layout_of({256}), std::vector<const_bytes>{bytes});
  {
    const host_thread::scope acting(uninformed);
    copies.copy(
        {.target = slot.bytes(), .source = master.segments()[0].source, .tag = {.what = "fetch"}});
  }

  CHECK(gpu.race_count() > 0);
  copies.synchronize({"test end"});
}

TEST_CASE("a kept master says what becomes of each original, and joins none that differ in it",
          "[offload][host_master][conversion]") {
  const auto layout = layout_of({512, 512, 256});
  const auto file = filled(256 + 256 + 256, 1);
  const const_bytes bytes(file);
  const std::vector originals{bytes.subspan(0, 256), bytes.subspan(256, 256),
                              bytes.subspan(512, 256)};
  constexpr std::array changes{conversion::bf16_to_f32, conversion::bf16_to_f32, conversion::none};

  const auto master =
      host_master::kept(layout, originals, std::vector(3, memory_kind::mapped), changes);

  REQUIRE(master.segments().size() == 2);
  CHECK(master.segments()[0].source.size() == 512);
  CHECK(master.segments()[0].bytes() == 1024);
  CHECK(master.segments()[0].convert == conversion::bf16_to_f32);
  CHECK(master.segments()[1].offset == 1024);
  CHECK(master.segments()[1].convert == conversion::none);
  CHECK(master.converts());
  CHECK(master.bytes() == 1280);
  CHECK(master.at(512, 512).data() == bytes.data() + 256);
  CHECK(master.at(512, 512).size() == 256);
  CHECK(master.at(1024, 256).data() == bytes.data() + 512);
}

TEST_CASE("a pinned master keeps what is to be converted as it is, and does not replace it",
          "[offload][host_master][conversion]") {
  sim_device gpu{sim_options{}};
  const auto layout = layout_of({600, 10});
  const auto first = filled(300, 0x40);
  const auto second = filled(10, 2);
  const std::vector<const_bytes> originals{first, second};
  constexpr std::array changes{conversion::bf16_to_f32, conversion::none};

  const auto master = host_master::pinned(gpu, layout, originals, changes);

  CHECK(master.whole().size() == 512 + 256);
  CHECK(host_master::pinned_size(layout, changes) == 512 + 256);
  CHECK(host_master::pinned_size(layout, {}) == layout.bytes);
  CHECK_FALSE(master.replaces_originals());
  memory_block slot(gpu, memory_kind::device, layout.bytes);
  memory_block seen(gpu, memory_kind::pinned, layout.bytes);
  stream copies(gpu, "copies");
  for (const auto& each : master.segments())
    copies.copy(each.copy_to(slot.bytes(), {.what = "fetch"}));
  CHECK(gpu.counters().h2d_bytes == 310);
  copies.copy({.target = seen.bytes(),
               .source = slot.bytes(),
               .to = memory_kind::pinned,
               .from = memory_kind::device});
  copies.synchronize({"test"});
  gpu.host_read(seen.bytes(), {.what = "check"});
  for (std::size_t i = 0; i != 600; ++i)
    CHECK(seen.bytes()[i] == (i % 4 < 2 ? std::byte{0} : std::byte{0x40}));
  CHECK(std::ranges::equal(seen.bytes().subspan(layout.storages[1].offset, 10), second));
  CHECK(gpu.race_count() == 0);
}

TEST_CASE("a pinned master of which nothing is converted replaces the originals",
          "[offload][host_master][conversion]") {
  sim_device gpu{sim_options{}};
  const auto bytes = filled(300, 1);
  const auto master = host_master::pinned(gpu, layout_of({300}), std::vector<const_bytes>{bytes},
                                          std::array{conversion::none});
  CHECK(master.replaces_originals());
  CHECK(master.segments().size() == 1);
}

} // namespace
} // namespace ferry
