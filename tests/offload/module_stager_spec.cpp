// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/module_stager.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/edges.hpp"
#include "support/faults.hpp"
#include "support/staging.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <type_traits>

namespace ferry {
namespace {

using test::everything;
using test::fake_node;
using test::fake_pipeline;
using test::node;
using test::staging_streams;
using test::tensor;
using test::unit_of;

static_assert(!std::is_copy_constructible_v<module_stager>);

using make_device = std::function<std::unique_ptr<device>()>;

const std::vector<make_device> every_device{
    [] { return std::make_unique<sim_device>(sim_options{}); },
    [] { return std::make_unique<host_device>(host_device_options{.memory = 1 << 20}); },
};

fake_node encoder_and_dit() {
  return node("root")
      ->child("encoder", test::blocks(2, 100, 7))
      ->child("dit", test::blocks(3, 80, 40));
}

/// Memory that notes what it is asked for and runs out when it is told to.
class scripted_memory final : public staging_memory {
public:
  explicit scripted_memory(mutable_bytes range) : range_(range) {}

  mutable_bytes take(std::size_t bytes) override {
    trace += "t";
    if (failures != 0) {
      --failures;
      throw device_error(error, "take", "was told to fail");
    }
    return range_.first(bytes);
  }
  void give_back(mutable_bytes) noexcept override { trace += "g"; }
  bool release_cache(bool force) noexcept override {
    trace += force ? "R" : "r";
    return force;
  }
  void attach() noexcept override { trace += "+"; }
  void detach() noexcept override { trace += "-"; }

  std::string trace;
  int failures = 0;
  errc error = errc::out_of_device_memory;

private:
  mutable_bytes range_;
};

/// A model, a device and device memory.
struct world {
  explicit world(const fake_node& root = encoder_and_dit(),
                 std::unique_ptr<device> on = every_device.front()())
      : gpu(std::move(on)), model(root), before(everything(*root)), streams(*gpu),
        block(*gpu, memory_kind::device, 1 << 14), memory(block.bytes()) {}
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  ~world() { streams.drain(); }

  std::unique_ptr<module_stager> stager(const std::vector<std::string>& paths, bool pin = true) {
    return std::make_unique<module_stager>(*gpu, unit_of(model, paths),
                                           stager_options{paths.front(), {.pin = pin}}, memory);
  }

  /// Returns whether all tensors of the model have their bytes, with `group` in use.
  bool right_with(module_stager& group) {
    return streams.use(group, [this] { return everything(*model.tree()) == before; });
  }

  [[nodiscard]] bool ordinary() const { return everything(*model.tree()) == before; }

  std::unique_ptr<device> gpu;
  fake_pipeline model;
  test::contents before;
  staging_streams streams;
  memory_block block;
  scripted_memory memory;
};

const std::vector<std::string> all{"encoder", "dit"};

TEST_CASE("a loaded group has its bytes, from pinned masters and from originals",
          "[offload][module_stager]") {
  world w{encoder_and_dit(), GENERATE(from_range(every_device))()};
  const auto group = w.stager(all, GENERATE(true, false));

  group->load(w.streams.copies);

  CHECK(group->loaded());
  CHECK(w.right_with(*group));
}

TEST_CASE("a group whose master cannot be pinned is staged from its originals",
          "[offload][module_stager][B70]") {
  auto gpu = std::make_unique<sim_device>(sim_options{});
  auto* sim = gpu.get();
  world w{encoder_and_dit(), std::move(gpu)};
  sim->inject({.call = device_call::allocate, .error = errc::out_of_host_memory});

  const auto group = w.stager(all);
  group->load(w.streams.copies);

  CHECK(group->pinned_bytes() == 0);
  CHECK(w.right_with(*group));
  w.streams.drain();
  group->restore();
  CHECK(w.ordinary());
}

TEST_CASE("a group that is away fails loudly when it is used", "[offload][module_stager]") {
  world w;
  const auto group = w.stager(all);

  CHECK_THROWS_WITH(everything(*w.model.tree()), Catch::Contains("parked"));

  group->load(w.streams.copies);
  group->offload(w.streams.copies);

  CHECK_FALSE(group->loaded());
  CHECK(group->region().empty());
  CHECK_THROWS_WITH(everything(*w.model.tree()), Catch::Contains("parked"));
}

TEST_CASE("views of one storage in several modules are still one storage on the device",
          "[offload][module_stager]") {
  const auto base = tensor({64}, dtype::f32, 9);
  const auto root = node("root")
                        ->child("a", node("a")->parameter("whole", base))
                        ->child("b", node("b")->parameter("part", test::view(base, {8}, {2}, 16)))
                        ->child("c", node("c")->buffer("tied", base));
  world w{root};
  const auto group = w.stager({"a", "b", "c"}, GENERATE(true, false));
  const auto& part = root->at("b")->own_tensors().at("part");

  group->load(w.streams.copies);

  CHECK(group->bytes() == 256);
  CHECK(w.right_with(*group));
  CHECK(part->bytes().data() == base->bytes().data());
  group->offload(w.streams.copies);
  w.streams.drain();
  group->restore();
  CHECK(part->bytes().data() == base->bytes().data());
}

TEST_CASE("a module of buffers only is staged", "[offload][module_stager]") {
  world w{node("root")->child("a", node("a")->buffer("table", tensor({32}), false))};
  const auto group = w.stager({"a"});

  group->load(w.streams.copies);

  CHECK(w.right_with(*group));
}

TEST_CASE("loading and offloading twice does nothing twice and uses one event",
          "[offload][module_stager]") {
  world w;
  const auto group = w.stager(all);
  const auto* event = &group->ready();
  w.memory.trace.clear();

  for (int cycle = 0; cycle != 2; ++cycle) {
    group->load(w.streams.copies);
    group->load(w.streams.copies);
    group->offload(w.streams.copies);
    group->offload(w.streams.copies);
  }

  CHECK(w.memory.trace == "tgrtgr");
  CHECK(&group->ready() == event);
  CHECK(w.gpu->counters().events == 2);
}

TEST_CASE("weights are pinned once and nothing is copied back from the device",
          "[offload][module_stager]") {
  world w;
  const auto group = w.stager(all);
  const auto allocations = w.gpu->counters().allocations;

  for (int cycle = 0; cycle != 3; ++cycle) {
    group->load(w.streams.copies);
    CHECK(w.right_with(*group));
    group->offload(w.streams.copies);
  }

  CHECK(w.gpu->counters().d2h_bytes == 0);
  CHECK(w.gpu->counters().h2d_bytes == 3 * group->bytes());
  CHECK(w.gpu->counters().allocations == allocations);
  CHECK(group->pinned_bytes() == group->bytes());
}

TEST_CASE("out of device memory, the cache is released and the load is tried once more",
          "[offload][module_stager]") {
  world w;
  const auto group = w.stager(all);
  w.memory.trace.clear();
  w.memory.failures = 1;

  group->load(w.streams.copies);

  CHECK(w.memory.trace == "tRt");
  CHECK(w.right_with(*group));
}

TEST_CASE("a second failure for want of memory is the caller's", "[offload][module_stager]") {
  world w;
  const auto group = w.stager(all);
  w.memory.trace.clear();
  w.memory.failures = 2;

  CHECK_THROWS_AS(group->load(w.streams.copies), device_error);

  CHECK(w.memory.trace == "tRtR");
  CHECK_FALSE(group->loaded());
}

TEST_CASE("a load that fails gives its memory back, releases the cache and is not retried",
          "[offload][module_stager]") {
  sim_device gpu{sim_options{}};
  fake_pipeline model{encoder_and_dit()};
  memory_block block{gpu, memory_kind::device, 1 << 14};
  scripted_memory memory{block.bytes()};
  staging_streams streams{gpu};
  module_stager group{gpu, unit_of(model, all), {"all", true}, memory};
  memory.trace.clear();
  gpu.inject({.call = GENERATE(device_call::copy, device_call::record)});

  CHECK_THROWS_AS(group.load(streams.copies), device_error);

  CHECK(memory.trace == "tgR");
  CHECK_FALSE(group.loaded());
  CHECK_THROWS_WITH(everything(*model.tree()), Catch::Contains("parked"));
  streams.drain();
}

TEST_CASE("a group that cannot be sent off stays, and can be sent off later",
          "[offload][module_stager]") {
  sim_device gpu{sim_options{}};
  fake_pipeline model{encoder_and_dit()};
  memory_block block{gpu, memory_kind::device, 1 << 14};
  reserved_memory memory{block.bytes()};
  staging_streams streams{gpu};
  const auto before = everything(*model.tree());
  module_stager group{gpu, unit_of(model, all), {"all", true}, memory};
  group.load(streams.copies);
  gpu.inject({.call = device_call::wait});

  CHECK_THROWS_AS(group.offload(streams.copies), device_error);

  CHECK(group.loaded());
  CHECK(streams.use(group, [&] { return everything(*model.tree()) == before; }));
  group.offload(streams.copies);
  CHECK_FALSE(group.loaded());
  streams.drain();
}

/// A unit that cannot be parked when it is told so.
class stuck_unit final : public weight_unit {
public:
  explicit stuck_unit(std::unique_ptr<weight_unit> whole) : whole_(std::move(whole)) {}

  const packed_layout& layout() const override { return whole_->layout(); }
  std::vector<const_bytes> originals() const override { return whole_->originals(); }
  memory_kind originals_kind(std::size_t i) const override { return whole_->originals_kind(i); }
  mutable_bytes writable_original(std::size_t i) override { return whole_->writable_original(i); }
  void park() override {
    whole_->park();
    if (stuck)
      throw ferry_error{{errc::out_of_host_memory, "park was told to fail"}};
  }
  void bind(std::byte* base) noexcept override { whole_->bind(base); }
  void bind_originals() noexcept override { whole_->bind_originals(); }
  void drop_originals() noexcept override { whole_->drop_originals(); }
  void restore(const_bytes master) override { whole_->restore(master); }

  bool stuck = false;

private:
  std::unique_ptr<weight_unit> whole_;
};

TEST_CASE("a group whose tensors could not be parked is still usable", "[offload][module_stager]") {
  world w;
  auto unit = std::make_unique<stuck_unit>(unit_of(w.model, all));
  auto& stuck = unit->stuck;
  module_stager group{*w.gpu, std::move(unit), {"all", true}, w.memory};
  group.load(w.streams.copies);
  stuck = true;

  CHECK_THROWS_AS(group.offload(w.streams.copies), ferry_error);

  CHECK(group.loaded());
  CHECK(w.right_with(group));
}

TEST_CASE("what a group leaves behind on the device is worthless", "[offload][module_stager]") {
  world w;
  const auto group = w.stager(all);
  group->load(w.streams.copies);
  const auto left = group->region();

  group->offload(w.streams.copies);
  w.streams.drain();

  CHECK(std::ranges::count(left, std::byte{0xff}) == std::ssize(left));
}

TEST_CASE("restored tensors are ordinary, from away and from the device",
          "[offload][module_stager]") {
  world w;
  const auto group = w.stager(all, GENERATE(true, false));
  if (GENERATE(true, false))
    group->load(w.streams.copies);
  w.streams.drain();

  group->restore();

  CHECK(w.ordinary());
  CHECK_FALSE(group->loaded());
  CHECK(group->pinned_bytes() == 0);

  group->restore();
  const auto changes = w.model.mutations();
  CHECK(std::ranges::count(changes, "restore encoder") == 1);
}

TEST_CASE("a restore that fails keeps the weights and may be repeated",
          "[offload][module_stager]") {
  world w;
  const auto group = w.stager(all);
  w.model.fail_restore(0);

  CHECK_THROWS_AS(group->restore(), ferry_error);
  CHECK(group->pinned_bytes() == group->bytes());

  group->restore();
  CHECK(w.ordinary());
}

TEST_CASE("a group with a meta tensor is refused and left as it was", "[offload][module_stager]") {
  const auto root = node("root")->child(
      "a", node("a")->parameter("w", {4})->parameter("m", test::meta_tensor({4})));
  world w{node("root")};
  fake_pipeline model{root};

  CHECK_THROWS_WITH(module_stager(*w.gpu, unit_of(model, {"a"}), {"a", true}, w.memory),
                    Catch::Contains("'a' has 1 tensors without memory"));

  CHECK(model.mutations().empty());
  CHECK(w.memory.trace.empty());
}

TEST_CASE("a group without bytes is refused", "[offload][module_stager]") {
  world w{node("root")->child("a", node("a"))};

  CHECK_THROWS_WITH(w.stager({"a"}), Catch::Contains("no bytes of its own"));
}

TEST_CASE("a stager tells its memory when it comes and when it goes", "[offload][module_stager]") {
  world w;
  auto group = w.stager(all);
  CHECK(w.memory.trace == "+");
  group->load(w.streams.copies);
  w.streams.drain();

  group.reset();

  CHECK(w.memory.trace == "+tg-");
}

TEST_CASE("reserved memory is one range that only one group has at a time",
          "[offload][module_stager]") {
  std::array<std::byte, 64> bytes{};
  reserved_memory memory{bytes};

  const auto taken = memory.take(40);

  CHECK(taken.data() == bytes.data());
  CHECK(taken.size() == 40);
  CHECK_THROWS_WITH(memory.take(1), Catch::Contains("in use"));
  memory.give_back(taken);
  CHECK_THROWS_WITH(memory.take(65), Catch::Contains("64 are reserved"));
  CHECK_FALSE(memory.release_cache(true));
}

/// Encoder and denoiser in turns on one range; in the end the denoiser has just been used, and a
/// decoder beside it has not been. Returns whether each saw its bytes.
bool take_turns(sim_device& gpu) {
  fake_pipeline model{encoder_and_dit()->child("vae", test::blocks(1))};
  const auto& tree = model.tree();
  const auto text = everything(*tree->at("encoder"));
  const auto image = everything(*tree->at("dit"));
  memory_block block{gpu, memory_kind::device, 1 << 12};
  reserved_memory encoder_place{block.bytes()};
  reserved_memory dit_place{block.bytes()};
  reserved_memory vae_place{block.bytes().subspan(2048)};
  staging_streams streams{gpu};
  module_stager encoder{gpu, unit_of(model, {"encoder"}), {"encoder", true}, encoder_place};
  module_stager dit{gpu, unit_of(model, {"dit"}), {"dit", true}, dit_place};
  module_stager vae{gpu, unit_of(model, {"vae"}), {"vae", true}, vae_place};

  auto right = true;
  for (int turn = 0; turn != 3; ++turn) {
    dit.offload(streams.copies);
    encoder.load(streams.copies);
    right = streams.use(encoder, [&] { return everything(*tree->at("encoder")) == text; }) && right;
    encoder.offload(streams.copies);
    dit.load(streams.copies);
    right = streams.use(dit, [&] { return everything(*tree->at("dit")) == image; }) && right;
  }
  vae.load(streams.copies);
  streams.drain();
  for (auto* each : {&encoder, &dit, &vae})
    each->restore();
  return right;
}

TEST_CASE("without any one of its wait edges a group that takes turns races or reads wrong bytes",
          "[offload][module_stager][edges]") {
  sim_options options;
  options.seed = GENERATE(1U, 2U, 3U);

  CHECK(test::with_each_edge_removed(options, take_turns) == 4);
}

TEST_CASE("whatever device call fails while groups are staged, the weights are exact afterwards",
          "[offload][module_stager][faults]") {
  sim_device gpu{sim_options{}};
  fake_pipeline model{encoder_and_dit()};
  const auto before = everything(*model.tree());
  memory_block block{gpu, memory_kind::device, 1 << 14};
  reserved_memory memory{block.bytes()};
  staging_streams streams{gpu};
  std::optional<module_stager> group;
  const auto held = gpu.counters();

  const auto failed = test::at_every_fault_point(
      gpu,
      [&] {
        group.emplace(gpu, unit_of(model, all), stager_options{.path = "all"}, memory);
        auto right = true;
        for (int cycle = 0; cycle != 2; ++cycle) {
          group->load(streams.copies);
          right = streams.use(*group, [&] { return everything(*model.tree()) == before; }) && right;
          group->offload(streams.copies);
        }
        return right;
      },
      [&] {
        streams.drain();
        if (group)
          group->restore();
        group.reset();
        CHECK(everything(*model.tree()) == before);
        CHECK(gpu.counters().pinned_bytes == held.pinned_bytes);
        CHECK(gpu.counters().events == held.events);
      });

  CHECK(failed > 10);
  streams.drain();
  group->restore();
  CHECK(gpu.race_count() == 0);
}

} // namespace
} // namespace ferry
