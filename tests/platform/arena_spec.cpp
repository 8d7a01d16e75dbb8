// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/arena.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/host_device.hpp>

#include "support/catch.hpp"

#include <cstdint>

using namespace ferry;

namespace {

constexpr std::size_t unit = memory_alignment;

std::size_t offset(mutable_bytes from, mutable_bytes region) {
  return static_cast<std::size_t>(region.data() - from.data());
}

} // namespace

TEST_CASE("an arena is one device allocation") {
  host_device machine({.memory = 16 * unit});

  arena whole(machine, 16 * unit);
  (void)whole.carve(unit);
  (void)whole.carve(unit);

  CHECK(machine.counters().allocations == 1);
  CHECK(machine.counters().device_bytes == 16 * unit);
}

TEST_CASE("regions of an arena are aligned and do not overlap") {
  host_device machine({.memory = 16 * unit});
  arena whole(machine, 16 * unit);

  const auto first = whole.carve(1);
  const auto second = whole.carve(unit + 1);
  const auto third = whole.carve(unit);

  CHECK(first.size() == 1);
  CHECK(offset(first, second) == unit);
  CHECK(offset(first, third) == 3 * unit);
  CHECK(reinterpret_cast<std::uintptr_t>(second.data()) % unit == 0);
  CHECK(whole.used() == 4 * unit);
}

TEST_CASE("an arena uses the first gap that is large enough") {
  host_device machine({.memory = 16 * unit});
  arena whole(machine, 8 * unit);
  const auto narrow = whole.carve(unit);
  (void)whole.carve(unit);
  const auto wide = whole.carve(2 * unit);
  (void)whole.carve(unit);
  whole.give_back(narrow);
  whole.give_back(wide);

  const auto region = whole.carve(2 * unit);

  CHECK(region.data() == wide.data());
}

TEST_CASE("neighbouring gaps of an arena become one") {
  host_device machine({.memory = 16 * unit});
  arena whole(machine, 3 * unit);
  const auto first = whole.carve(unit);
  const auto second = whole.carve(unit);
  (void)whole.carve(unit);

  whole.give_back(second);
  whole.give_back(first);

  CHECK(whole.carve(2 * unit).data() == first.data());
}

TEST_CASE("an arena whose end is not aligned can be filled to its end") {
  host_device machine({.memory = 16 * unit});
  arena whole(machine, unit + 10);
  (void)whole.carve(unit);

  const auto last = whole.carve(10);

  CHECK(last.size() == 10);
  CHECK(whole.used() == whole.size());
}

TEST_CASE("a fragmented arena says how much is free and how large the largest gap is") {
  host_device machine({.memory = 16 * unit});
  arena whole(machine, 4 * unit);
  const auto first = whole.carve(unit);
  (void)whole.carve(unit);
  const auto third = whole.carve(unit);
  (void)whole.carve(unit);
  whole.give_back(first);
  whole.give_back(third);

  CHECK_THROWS_WITH(whole.carve(2 * unit),
                    "out_of_device_memory: carve from arena: asked for 512 bytes; 512 of 1024 are "
                    "free, the largest gap is 256");
}

TEST_CASE("an arena remembers the most that was in use at once") {
  host_device machine({.memory = 16 * unit});
  arena whole(machine, 4 * unit);
  const auto region = whole.carve(3 * unit);
  whole.give_back(region);
  (void)whole.carve(unit);

  CHECK(whole.used() == unit);
  CHECK(whole.peak() == 3 * unit);
}

TEST_CASE("a region of no bytes takes no room in an arena") {
  host_device machine({.memory = 16 * unit});
  arena whole(machine, unit);

  const auto nothing = whole.carve(0);
  whole.give_back(nothing);

  CHECK(nothing.empty());
  CHECK(whole.used() == 0);
}

TEST_CASE("an arena larger than the device cannot be made") {
  host_device machine({.memory = unit});

  CHECK_THROWS_WITH(arena(machine, 2 * unit), Catch::Contains("asked for 512 bytes"));
}
