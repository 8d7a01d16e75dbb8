// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/error.hpp>
#include <ferry/platform/host_thread.hpp>

#include "platform/streamed_slot.hpp"
#include "support/catch.hpp"
#include "support/read_only_pages.hpp"

#include <memory>

namespace ferry {
namespace {

using Catch::Contains;
using test::read_only_pages;
using test::streamed_slot;

constexpr auto size = streamed_slot::size;

TEST_CASE("pages that are given back under a copy are a race", "[sim][pages]") {
  const read_only_pages pages{2};
  streamed_slot s{sim_options{}};
  s.gpu.register_pages(pages.bytes());
  s.fetch(3, pages.bytes().subspan(100, size), memory_kind::registered);

  s.gpu.unregister_pages(pages.bytes());

  REQUIRE(s.gpu.races().size() == 1);
  const auto found = s.gpu.races().front();
  CHECK(found.first.kind == "copy");
  CHECK(found.first.tag.block == 3);
  CHECK(found.second.kind == "unregister_pages");
  CHECK_THAT(found.missing_edge, Contains("must synchronize with 'copy' after operation 1"));
  s.finish();
}

TEST_CASE("pages that are given back behind a copy are no race", "[sim][pages]") {
  const read_only_pages pages{1, 9};
  streamed_slot s{sim_options{}};
  s.gpu.register_pages(pages.bytes());
  s.fetch(3, pages.bytes().first(size), memory_kind::registered);
  s.finish();

  s.gpu.unregister_pages(pages.bytes());

  CHECK(s.seen() == 9);
  CHECK(s.gpu.races().empty());
  CHECK(s.gpu.counters().registered_bytes == 0);
}

TEST_CASE("pages that several devices read are given back by each for itself", "[sim][pages]") {
  const read_only_pages pages{1, 9};
  const auto machine = make_sim_machine(1);
  sim_device first{machine, "first", sim_options{}};
  sim_device second{machine, "second", sim_options{}};
  const host_thread one{first, "one"};
  const host_thread other{second, "other"};
  {
    const host_thread::scope scope{other};
    second.register_pages(pages.bytes());
  }
  const host_thread::scope scope{one};
  first.register_pages(pages.bytes());
  memory_block slot{first, memory_kind::device, size};
  stream copies{first, "copy"};

  copies.copy({slot.bytes(),
               pages.bytes().first(size),
               memory_kind::device,
               memory_kind::registered,
               {"fetch"}});
  {
    const host_thread::scope elsewhere{other};
    second.unregister_pages(pages.bytes());
  }
  copies.synchronize({"end"});

  CHECK(first.races().empty());
  CHECK(slot.bytes().front() == std::byte{9});
  CHECK(first.pages_registered(pages.bytes()));
}

TEST_CASE("a copy that claims pages which are not registered is refused", "[sim][pages]") {
  const read_only_pages pages{4};
  streamed_slot s{sim_options{}};
  s.gpu.register_pages(pages.at(0));
  s.gpu.register_pages(pages.at(1));
  const auto across = pages.bytes().subspan(page_bytes() - 10, size);

  CHECK_THROWS_WITH(s.fetch(0, pages.at(2).first(size), memory_kind::registered),
                    Contains("is not inside one registration"));
  CHECK_THROWS_WITH(s.fetch(0, across, memory_kind::registered),
                    Contains("is not inside one registration"));
  CHECK_NOTHROW(s.fetch(0, across, memory_kind::mapped));
}

TEST_CASE("registered pages are not written", "[sim][pages]") {
  const read_only_pages pages{1};
  streamed_slot s{sim_options{}};
  s.gpu.register_pages(pages.bytes());
  const auto into = mutable_bytes{const_cast<std::byte*>(pages.bytes().data()), size};

  CHECK_THROWS_WITH(
      s.copies.copy({into, s.slot.bytes(), memory_kind::registered, memory_kind::device, {}}),
      Contains("only read"));
}

TEST_CASE("memory of a device is not registered with it", "[sim][pages]") {
  sim_device gpu{sim_options{}};
  const memory_block own{gpu, memory_kind::pinned, 4 * page_bytes()};
  const auto begin = reinterpret_cast<std::uintptr_t>(own.bytes().data());
  const auto skipped = (page_bytes() - begin % page_bytes()) % page_bytes();

  CHECK_THROWS_WITH(gpu.register_pages(own.bytes().subspan(skipped, page_bytes())),
                    Contains("overlap memory that a device allocated"));
}

TEST_CASE("registered pages count as pinned memory against the limit", "[sim][pages]") {
  const read_only_pages pages{3};
  auto options = sim_options{};
  options.pinned = 2 * page_bytes();
  sim_device gpu{options};

  CHECK_THROWS_WITH(gpu.register_pages(pages.bytes()), Contains("out_of_host_memory"));
  gpu.register_pages(pages.at(0));
  CHECK_THROWS_WITH(memory_block(gpu, memory_kind::pinned, page_bytes() + 1),
                    Contains("out_of_host_memory"));
  CHECK_NOTHROW(memory_block(gpu, memory_kind::pinned, page_bytes()));
}

} // namespace
} // namespace ferry
