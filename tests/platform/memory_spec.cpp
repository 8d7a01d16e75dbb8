// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/host_device.hpp>
#include <ferry/platform/memory.hpp>

#include "support/catch.hpp"

#include <type_traits>
#include <utility>

using namespace ferry;

static_assert(!std::is_copy_constructible_v<memory_block>);
static_assert(std::is_nothrow_move_constructible_v<memory_block>);
static_assert(std::is_nothrow_move_assignable_v<memory_block>);
static_assert(align_up(0) == 0 && align_up(1) == 256 && align_up(256) == 256);

TEST_CASE("a memory block gives its memory back when it goes") {
  host_device machine({.memory = 4096});
  {
    const auto block = memory_block(machine, memory_kind::device, 4096);
  }

  CHECK(machine.memory().free == 4096);
}

TEST_CASE("a moved memory block is given back once, by its new owner") {
  host_device machine({.memory = 4096});
  auto block = memory_block(machine, memory_kind::device, 1024);
  {
    const auto owner = std::move(block);
    CHECK(owner.size() == 1024);
    CHECK(machine.memory().free == 3072);
  }

  CHECK(block.size() == 0);
  CHECK(machine.memory().free == 4096);
}

TEST_CASE("assigning to a memory block gives back what it held") {
  host_device machine({.memory = 4096});
  auto block = memory_block(machine, memory_kind::device, 1024);

  block = memory_block(machine, memory_kind::pinned, 512);

  CHECK(machine.counters().device_bytes == 0);
  CHECK(machine.counters().pinned_bytes == 512);
}

TEST_CASE("a memory block of no bytes allocates nothing") {
  host_device machine({.memory = 4096});

  const auto block = memory_block(machine, memory_kind::device, 0);

  CHECK(block.bytes().empty());
  CHECK(machine.counters().allocations == 0);
}
