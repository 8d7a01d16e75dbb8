// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/bounded_allocator_cache.hpp>
#include <ferry/torch/torch_allocator_cache.hpp>

#include "torch/catch.hpp"

#include <c10/core/CachingDeviceAllocator.h>

#include <optional>
#include <utility>

namespace ferry {
namespace {

/// Says what it is told to about device 1, and nothing about memory unless it is told.
struct fake_allocator final : c10::DeviceAllocator {
  using stats_type = c10::CachingDeviceAllocator::DeviceStats;

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {
    TORCH_CHECK(!fails, "the cache is stuck");
    ++releases;
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  stats_type getDeviceStats(c10::DeviceIndex device) override {
    return device == 1 ? stats : stats_type{};
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return memory ? *memory : c10::DeviceAllocator::getMemoryInfo(device);
  }
  c10::DataPtr allocate(std::size_t) override { return {}; }
  void copy_data(void*, const void*, std::size_t) const override {}

  stats_type stats;
  std::optional<std::pair<std::size_t, std::size_t>> memory;
  int releases = 0;
  bool fails = false;
};

TEST_CASE("what libtorch's allocator holds on a device is told", "[torch][allocator_cache]") {
  fake_allocator allocator;
  allocator.stats.reserved_bytes[0].current = 700;
  allocator.stats.allocated_bytes[0].current = 300;
  allocator.memory = {4000, 9000};

  const auto now = torch_allocator_cache{&allocator, 1}.telemetry().value();

  CHECK(now.reserved == 700);
  CHECK(now.allocated == 300);
  CHECK(now.free == 4000);
  CHECK(now.total == 9000);
}

TEST_CASE("what libtorch's allocator holds is released through it", "[torch][allocator_cache]") {
  fake_allocator allocator;
  torch_allocator_cache cache{&allocator, 1};

  cache.release();

  CHECK(allocator.releases == 1);
}

TEST_CASE("a release that libtorch fails is a failure of ours", "[torch][allocator_cache]") {
  fake_allocator allocator;
  allocator.fails = true;
  torch_allocator_cache cache{&allocator, 1};

  CHECK_THROWS_AS(cache.release(), ferry_error);
}

TEST_CASE("an allocator that does not say how much memory there is has no telemetry",
          "[torch][allocator_cache]") {
  fake_allocator allocator;
  torch_allocator_cache cache{&allocator, 1};
  bounded_allocator_cache policy{cache, {}, nullptr};

  CHECK_FALSE(cache.telemetry().has_value());
  CHECK(policy.release_if_needed(false));
  CHECK(allocator.releases == 1);
}

TEST_CASE("a device that libtorch does not compute on has no allocator and no telemetry",
          "[torch][allocator_cache]") {
  auto* none = find_device_allocator({c10::DeviceType::PrivateUse1, 0});
  torch_allocator_cache cache{none, 0};

  CHECK(none == nullptr);
  CHECK(cache.telemetry().error().code == errc::unsupported);
  CHECK_NOTHROW(cache.release());
}

} // namespace
} // namespace ferry
