// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/host_registration.hpp>
#include <ferry/offload/unit_master.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/read_only_pages.hpp"

namespace ferry {
namespace {

/// A unit of one block, and a device to pin on.
struct one_block {
  [[nodiscard]] host_master make(bool pin) { return make_master(gpu, *unit, {.pin = pin}); }

  sim_device gpu{sim_options{}};
  test::fake_node block = test::block();
  test::fake_pipeline model{test::node("test.root")->child("block", block)};
  std::unique_ptr<weight_unit> unit = model.make_unit("block", pack(block->tensors()));
};

TEST_CASE("a master is pinned, at the size of its layout, or the originals themselves",
          "[offload][unit_master]") {
  const auto pin = GENERATE(true, false);
  one_block of;

  const auto master = of.make(pin);

  CHECK(master.segments().front().kind == (pin ? memory_kind::pinned : memory_kind::pageable));
  CHECK(of.gpu.counters().pinned_bytes == (pin ? of.unit->layout().bytes : 0));
  CHECK((master.segments().front().source.data() == of.unit->originals().front().data()) == !pin);
}

TEST_CASE("where pinned memory is not to be had the originals are the master",
          "[offload][unit_master][B70]") {
  one_block of;
  of.gpu.inject({.call = device_call::allocate, .error = errc::out_of_host_memory});

  const auto master = of.make(true);

  CHECK(master.whole().empty());
  CHECK(master.segments().front().kind == memory_kind::pageable);
}

TEST_CASE("any other failure to pin is a failure", "[offload][unit_master]") {
  one_block of;
  of.gpu.inject({.call = device_call::allocate, .error = errc::device_failure});

  CHECK_THROWS_AS(of.make(true), device_error);
}

/// A unit of three matrices of mapped files, and the files.
struct mapped_block {
  [[nodiscard]] std::shared_ptr<host_lease> lease(std::vector<mapped_region> regions) const {
    return host_lease::open({.resolution_id = {}, .tensors = {}, .regions = std::move(regions)}, {},
                            {})
        .value();
  }

  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
  test::read_only_pages file{2};
  test::read_only_pages other{1};
  test::fake_node block = test::node("test.block")
                              ->parameter("a", test::mapped_tensor(file.at(0), {64}))
                              ->parameter("b", test::mapped_tensor(file.bytes().subspan(256), {64}))
                              ->parameter("c", test::mapped_tensor(other.bytes(), {64}));
  test::fake_pipeline model{test::node("test.root")->child("block", block)};
  std::unique_ptr<weight_unit> unit = model.make_unit("block", pack(block->tensors()));
};

TEST_CASE("originals that are registered are copied from as such, each by itself",
          "[offload][unit_master]") {
  mapped_block of;
  const auto registered = host_registration::open(
      of.gpu, of.lease({{"file", of.file.bytes(), true}}), {}, std::nullopt);
  REQUIRE(registered);

  const auto master =
      make_master(*of.gpu, *of.unit, {.pin = false, .registered = registered->get()});

  REQUIRE(master.segments().size() == 3);
  CHECK(master.segments()[0].kind == memory_kind::registered);
  CHECK(master.segments()[0].source.data() == of.file.bytes().data());
  CHECK(master.segments()[1].kind == memory_kind::registered);
  CHECK(master.segments()[2].kind == memory_kind::mapped);
  CHECK((*registered)->close().empty());
}

} // namespace
} // namespace ferry
