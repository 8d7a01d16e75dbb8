// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/cached_device_memory.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/edges.hpp"
#include "support/staging.hpp"

#include <optional>
#include <set>

namespace ferry {
namespace {

using test::everything;
using test::fake_pipeline;
using test::node;
using test::staging_streams;
using test::tensor;
using test::unit_of;

sim_options small_device(std::size_t bytes) {
  sim_options options;
  options.memory = bytes;
  return options;
}

/// Keeps everything that fits.
constexpr cache_bounds keep_all{.max_cached_fraction = 1.0, .min_free_fraction = 0.0};

/// A device of 16 KiB with memory over it.
struct world {
  explicit world(cache_bounds bounds = keep_all, std::shared_ptr<learned_budget> learned = nullptr)
      : memory(gpu, streams.copies, bounds, std::move(learned)) {}
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  ~world() { streams.drain(); }

  module_stager group(const std::string& path) {
    return {gpu, unit_of(model, {path}), {path, true}, memory};
  }

  sim_device gpu{small_device(16 << 10)};
  fake_pipeline model{node("root")
                          ->child("small", node("m")->parameter("w", tensor({1024})))
                          ->child("large", node("m")->parameter("w", tensor({3072})))};
  staging_streams streams{gpu};
  cached_device_memory memory;
};

TEST_CASE("memory that was given back is handed out again without an allocation",
          "[offload][cached_device_memory]") {
  world w;
  auto small = w.group("small");

  small.load(w.streams.copies);
  const auto* first = small.region().data();
  small.offload(w.streams.copies);
  const auto allocations = w.gpu.counters().allocations;
  small.load(w.streams.copies);

  CHECK(small.region().data() == first);
  CHECK(w.gpu.counters().allocations == allocations);
}

TEST_CASE("the smallest kept piece that is long enough is handed out",
          "[offload][cached_device_memory]") {
  world w;
  const auto longest = w.memory.take(3000);
  const auto shorter = w.memory.take(2000);
  const auto shortest = w.memory.take(500);
  for (const auto& each : {longest, shorter, shortest})
    w.memory.give_back(each);

  const auto again = w.memory.take(1000);

  CHECK(again.data() == shorter.data());
  CHECK(again.size() == 1000);
}

TEST_CASE("telemetry tells what is held and what is handed out",
          "[offload][cached_device_memory]") {
  world w;
  const auto kept = w.memory.take(1000);
  w.memory.give_back(w.memory.take(2000));

  const auto now = w.memory.telemetry().value();

  CHECK(now.reserved == 1024 + 2048);
  CHECK(now.allocated == 1024);
  CHECK(now.cached() == 2048);
  CHECK(now.total == 16 << 10);
  CHECK(now.free == (16 << 10) - 1024 - 2048);
  w.memory.give_back(kept);
}

TEST_CASE("a group that leaves more cached than the bound goes from the device",
          "[offload][cached_device_memory]") {
  world w{{.max_cached_fraction = 0.5, .min_free_fraction = 0.0}};
  auto small = w.group("small");
  auto large = w.group("large");

  small.load(w.streams.copies);
  small.offload(w.streams.copies);
  CHECK(w.gpu.counters().device_bytes == 4 << 10);
  large.load(w.streams.copies);
  large.offload(w.streams.copies);

  CHECK(w.gpu.counters().device_bytes == 0);
}

TEST_CASE("a load without room releases what is kept and then fits",
          "[offload][cached_device_memory]") {
  world w;
  const auto before = everything(*w.model.tree()->at("large"));
  auto small = w.group("small");
  auto large = w.group("large");
  const auto other = w.memory.take(1024);
  small.load(w.streams.copies);
  small.offload(w.streams.copies);

  large.load(w.streams.copies);

  CHECK(w.streams.use(large, [&] { return everything(*w.model.tree()->at("large")) == before; }));
  CHECK(w.gpu.counters().device_bytes == (12 << 10) + 1024);
  large.offload(w.streams.copies);
  w.memory.give_back(other);
}

TEST_CASE("a release on a device that fails releases nothing and leaves the rest usable",
          "[offload][cached_device_memory]") {
  world w;
  w.memory.give_back(w.memory.take(1000));
  w.gpu.inject({.call = device_call::synchronize});

  CHECK_FALSE(w.memory.release_cache(true));
  CHECK(w.gpu.counters().device_bytes == 1024);

  CHECK(w.memory.release_cache(true));
  CHECK(w.gpu.counters().device_bytes == 0);
}

TEST_CASE("the first cycle of a group primes the budget and the next ones keep its memory",
          "[offload][cached_device_memory]") {
  const auto learned = std::make_shared<learned_budget>();
  world w{keep_all, learned};
  std::optional<module_stager> small;
  small.emplace(w.gpu, unit_of(w.model, {"small"}), stager_options{"small", true}, w.memory);

  small->load(w.streams.copies);
  small->offload(w.streams.copies);
  CHECK(w.gpu.counters().device_bytes == 0);
  small->load(w.streams.copies);
  small->offload(w.streams.copies);
  CHECK(w.gpu.counters().device_bytes == 4 << 10);
  CHECK(learned->budget(1 << 20) == 5 << 10);

  w.streams.drain();
  small->restore();
  small.reset();
  CHECK(learned->budget(1 << 20) == 0);
}

/// Stages two groups by turns, the memory of the first kept and released. Returns whether each saw
/// its bytes.
bool swap_and_release(sim_device& gpu) {
  fake_pipeline model{node("root")
                          ->child("a", node("m")->parameter("w", tensor({64}, dtype::f32, 3)))
                          ->child("b", node("m")->parameter("w", tensor({48}, dtype::f32, 5)))};
  staging_streams streams{gpu};
  cached_device_memory memory{gpu, streams.copies, keep_all, nullptr};
  module_stager a{gpu, unit_of(model, {"a"}), {"a", true}, memory};
  module_stager b{gpu, unit_of(model, {"b"}), {"b", true}, memory};

  auto right = true;
  for (auto* group : {&a, &b, &a}) {
    const auto& module = *model.tree()->at(group == &a ? "a" : "b");
    const auto fill = std::byte{group == &a ? std::uint8_t{3} : std::uint8_t{5}};
    group->load(streams.copies);
    right = streams.use(*group, [&] {
      const auto seen = everything(module);
      return std::set<std::byte>(seen.begin(), seen.end()) == std::set{fill};
    }) && right;
    group->offload(streams.copies);
  }
  right = memory.release_cache(true) && right;
  for (auto* group : {&a, &b})
    group->restore();
  return right;
}

TEST_CASE("without any one of the edges of groups, cached memory is read or released too early",
          "[offload][cached_device_memory][edges]") {
  sim_options options;
  options.seed = GENERATE(1U, 2U, 3U);

  CHECK(test::with_each_edge_removed(options, swap_and_release) == group_wait_edges.size());
}

TEST_CASE("the wait edges that staging uses are exactly those declared",
          "[offload][cached_device_memory][edges]") {
  std::set<std::string> declared;
  for (const auto& edge : group_wait_edges)
    declared.insert(edge.name);

  const auto run = test::run_without_edge(sim_options{}, "", swap_and_release);

  CHECK(std::set<std::string>(run.edges.begin(), run.edges.end()) == declared);
}

} // namespace
} // namespace ferry
