// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/edges.hpp"
#include "support/fake_pipeline.hpp"
#include "support/faults.hpp"
#include "support/rank_team.hpp"
#include "support/resolution.hpp"
#include "support/staging.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::contents;
using test::everything;
using test::fake_module;
using test::fake_pipeline;

constexpr std::size_t piece_bytes = 1024;
constexpr std::size_t two_buffers = 2 * piece_bytes;
constexpr std::size_t blocks_of_dit = 5;
constexpr std::size_t blocks_of_encoder = 3;

/// A block of several storages of odd sizes, one of them shared by two tensors of which one is
/// strided, that takes several pieces.
test::fake_node odd_block(std::size_t index, unsigned char fill) {
  const auto elements = static_cast<std::int64_t>(500 + 37 * index);
  const auto base = test::tensor({elements}, dtype::f32, fill);
  return test::node("test.block")
      ->parameter("weight", base)
      ->parameter("tied", test::view(base, {2, 9}, {20, 2}, 5))
      ->parameter("scale", test::tensor({7}, dtype::f16, static_cast<unsigned char>(fill + 1)))
      ->buffer("steps", test::tensor({33}, dtype::f32, static_cast<unsigned char>(fill + 2)));
}

test::fake_node odd_blocks(std::size_t count, unsigned char first) {
  std::vector<test::fake_node> items;
  for (std::size_t i = 0; i != count; ++i)
    items.push_back(odd_block(i, static_cast<unsigned char>(first + 4 * i)));
  return test::list(std::move(items));
}

/// A model whose weights lie in files.
std::shared_ptr<fake_pipeline> model_in_files() {
  auto made = std::make_shared<fake_pipeline>(
      test::node("test.root")
          ->child("transformer", test::node("test.dit")
                                     ->parameter("pos", {4})
                                     ->child("blocks", odd_blocks(blocks_of_dit, 10)))
          ->child("text_encoder",
                  test::node("test.encoder")->child("block", odd_blocks(blocks_of_encoder, 100))));
  made->declare({.dits = {"transformer"}, .encoders = {"text_encoder"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}},
             .encoder_block_attrs = {{"text_encoder", {"block"}}},
             .resident_dit_paths = {"transformer"}})
      .lies_in_files();
  return made;
}

/// Keeps files as the masters.
offload_config kept(std::string_view text) {
  auto config = test::compact(text);
  config.keep_mapped = true;
  config.chunk_bytes = piece_bytes;
  return config;
}

constexpr auto headed = R"({"mode":"layer","components":["dit","text_encoder"],
    "layer_options":{"dit":{"resident_layers":2}}})";
constexpr auto whole = R"({"mode":"module","components":["dit","text_encoder"]})";

std::string dit_block(std::size_t i) {
  return "transformer.blocks." + std::to_string(i);
}
std::string encoder_block(std::size_t i) {
  return "text_encoder.block." + std::to_string(i);
}

/// The model under a runtime.
struct staged_run {
  explicit staged_run(const offload_config& config = kept(test::both),
                      std::shared_ptr<device> target = nullptr)
      : gpu(target == nullptr ? std::make_shared<sim_device>(sim_options{}) : nullptr),
        subject(target == nullptr ? gpu : target, {.acquire_deadline = 5s}) {
    for (std::size_t i = 0; i != blocks_of_dit; ++i)
      original.emplace(dit_block(i), everything(*model->tree()->at(dit_block(i))));
    for (std::size_t i = 0; i != blocks_of_encoder; ++i)
      original.emplace(encoder_block(i), everything(*model->tree()->at(encoder_block(i))));
    all = everything(*model->tree());
    REQUIRE(subject.start());
    REQUIRE(subject.enable(model, config));
  }

  [[nodiscard]] bool call(const std::string& path) {
    auto right = false;
    model->call(path, [&](fake_module& seen) { right = everything(seen) == original.at(path); });
    return right;
  }
  [[nodiscard]] bool step() {
    auto right = true;
    for (std::size_t i = 0; i != blocks_of_dit; ++i)
      right = call(dit_block(i)) && right;
    return right;
  }
  [[nodiscard]] bool request(int steps = 3) {
    auto right = subject.begin_request().has_value();
    for (std::size_t i = 0; i != blocks_of_encoder; ++i)
      right = call(encoder_block(i)) && right;
    for (int i = 0; i != steps; ++i)
      right = step() && right;
    return subject.end_request() && right;
  }
  [[nodiscard]] offload_state state() const { return subject.state().value(); }

  std::shared_ptr<sim_device> gpu;
  std::shared_ptr<fake_pipeline> model = model_in_files();
  std::map<std::string, contents> original;
  contents all;
  runtime subject;
};

TEST_CASE("blocks in files reach the device through two buffers, and nothing else is pinned",
          "[actors][staging_buffers]") {
  staged_run run;

  CHECK(run.request());
  CHECK(run.request());

  const auto state = run.state();
  CHECK(state.staged_stores == blocks_of_dit + blocks_of_encoder);
  CHECK(state.pageable_stores == 0);
  CHECK(state.pinned_bytes == two_buffers);
  CHECK(state.blocking_loads <= 1);
  CHECK(state.tickets_in_flight == 0);
  CHECK(run.gpu->counters().peak_pinned_bytes == two_buffers);
  CHECK(run.gpu->race_count() == 0);
  REQUIRE(run.subject.disable());
  CHECK(run.gpu->counters().pinned_bytes == 0);
  CHECK(everything(*run.model->tree()) == run.all);
}

TEST_CASE("two rows of buffers serve a model that streams blocks and stages a resident head",
          "[actors][staging_buffers]") {
  staged_run run{kept(headed)};

  CHECK(run.request());
  CHECK(run.request());

  CHECK(run.state().staged_stores == blocks_of_dit - 2 + blocks_of_encoder + 1);
  CHECK(run.gpu->counters().peak_pinned_bytes == 2 * two_buffers);
  CHECK(run.gpu->race_count() == 0);
}

TEST_CASE("whole components in files are staged as well", "[actors][staging_buffers]") {
  staged_run run{kept(whole)};

  for (int i = 0; i != 2; ++i) {
    REQUIRE(run.subject.begin_request());
    run.model->call("text_encoder", [&](fake_module&) {
      for (std::size_t k = 0; k != blocks_of_encoder; ++k)
        CHECK(everything(*run.model->tree()->at(encoder_block(k))) ==
              run.original.at(encoder_block(k)));
    });
    run.model->call("transformer", [&](fake_module&) {
      for (std::size_t k = 0; k != blocks_of_dit; ++k)
        CHECK(everything(*run.model->tree()->at(dit_block(k))) == run.original.at(dit_block(k)));
    });
    REQUIRE(run.subject.end_request());
  }

  CHECK(run.state().staged_stores == 2);
  CHECK(run.gpu->counters().peak_pinned_bytes == two_buffers);
  CHECK(run.gpu->race_count() == 0);
}

TEST_CASE("files that are not to be kept are pinned as a whole, and nothing is staged",
          "[actors][staging_buffers]") {
  staged_run run{test::compact(test::both)};

  CHECK(run.request());
  CHECK(run.state().staged_stores == 0);
  CHECK(run.gpu->counters().peak_pinned_bytes > two_buffers);
}

TEST_CASE("without pinned memory nothing is staged", "[actors][staging_buffers]") {
  auto config = kept(test::both);
  config.pin_memory = false;
  staged_run run{config};

  CHECK(run.request());
  CHECK(run.state().staged_stores == 0);
  CHECK(run.gpu->counters().peak_pinned_bytes == 0);
}

TEST_CASE("a device that gains nothing from pinned memory is copied to from the files",
          "[actors][staging_buffers]") {
  const auto host =
      std::make_shared<host_device>(host_device_options{.memory = std::size_t{1} << 20});
  staged_run run{kept(headed), host};

  CHECK(run.request());
  CHECK(run.state().staged_stores == 0);
  CHECK(host->counters().peak_pinned_bytes == 0);
}

TEST_CASE("where the buffers cannot be had, files are copied from where they are",
          "[actors][staging_buffers]") {
  auto config = kept(test::both);
  SECTION("because of the budget") {
    config.pin_budget_bytes = two_buffers - 1;
    staged_run run{config};
    CHECK(run.request());
    CHECK(run.state().staged_stores == 0);
    CHECK(run.state().pinned_bytes == 0);
  }
  SECTION("because the device has none left") {
    sim_options small;
    small.pinned = two_buffers - 1;
    const auto gpu = std::make_shared<sim_device>(small);
    staged_run run{config, gpu};
    CHECK(run.request());
    CHECK(run.state().staged_stores == 0);
    CHECK(gpu->race_count() == 0);
  }
}

TEST_CASE("a cancelled request leaves no staged block behind, and the next one is right",
          "[actors][staging_buffers]") {
  staged_run run;
  const auto id = run.subject.begin_request();
  REQUIRE(id);
  REQUIRE(run.call(encoder_block(0)));

  REQUIRE(run.subject.cancel_request(*id));
  CHECK_THROWS_WITH(run.call(encoder_block(1)), Catch::Contains("cancelled"));
  REQUIRE(run.subject.end_request());

  CHECK(run.state().tickets_in_flight == 0);
  CHECK(run.state().slots_free == 2);
  CHECK(run.request());
  CHECK(run.gpu->race_count() == 0);
}

TEST_CASE("blocks that are left out or come in another order are right",
          "[actors][staging_buffers]") {
  staged_run run;
  for (const auto& order : std::vector<std::vector<std::size_t>>{
           {0, 1, 2, 3, 4}, {0, 2, 4}, {4, 3, 2, 1, 0}, {1, 1, 1}, {0, 1, 2, 3, 4}}) {
    REQUIRE(run.subject.begin_request());
    for (const auto each : order)
      CHECK(run.call(dit_block(each)));
    REQUIRE(run.subject.end_request());
    CHECK(run.state().slots_free == 2);
  }
  CHECK(run.gpu->race_count() == 0);
}

TEST_CASE("weights that are replaced while they are staged come from their new place",
          "[actors][staging_buffers]") {
  const auto config = GENERATE(kept(test::both), kept(headed));
  staged_run run{config};
  REQUIRE(run.request());
  const contents changed(33 * 4, std::byte{77});

  REQUIRE(run.subject.update_weights(
      {.component = "transformer",
       .values = {{.name = "blocks.1.steps", .shape = {33}, .bytes = changed, .owner = {}},
                  {.name = "blocks.3.steps", .shape = {33}, .bytes = changed, .owner = {}}}}));

  for (const auto* path : {"transformer.blocks.1", "transformer.blocks.3"}) {
    contents after;
    run.model->call(path, [&](fake_module& seen) { after = everything(seen); });
    CHECK(after != run.original.at(path));
    CHECK(std::ranges::count(after, std::byte{77}) == std::ssize(changed));
    run.original.at(path) = after;
  }
  CHECK(run.request());
  CHECK(run.gpu->counters().peak_pinned_bytes <= 2 * two_buffers);
  CHECK(run.gpu->race_count() == 0);
  CHECK(run.subject.disable());
}

TEST_CASE("ranks that share no block stage each for itself, also beside blocks that they gather",
          "[actors][staging_buffers][ranks][B68]") {
  const auto* text = GENERATE(test::both, test::resident_head);
  test::rank_team ranks(2, test::kind::sim);

  CHECK(ranks.all([&](test::rank& own, std::size_t) {
    own.pipeline->lies_in_files();
    auto config = kept(text);
    const auto right = own.subject.start() && own.subject.enable(own.pipeline, config) &&
                       own.request(3) && own.request(2);
    const auto staged = own.subject.state()->staged_stores;
    return right && staged >= test::dit_blocks - 1 && own.subject.disable() &&
           test::has_own_bytes(*own.pipeline);
  }));

  CHECK(ranks.races() == 0);
}

/// Equal blocks of one storage each in files, and what they take on a modelled machine.
struct timed_run {
  static constexpr std::int64_t elements = 64 << 10; // 256 KiB a block.
  static constexpr double bytes = 4.0 * elements;
  static constexpr std::size_t blocks = 6;

  /// Returns how long a block takes in a steady state.
  static nanoseconds period(const sim_options& options, bool stages) {
    const auto gpu = std::make_shared<sim_device>(options);
    const auto model = std::make_shared<fake_pipeline>(
        test::node("test.root")
            ->child("transformer",
                    test::node("test.dit")->child("blocks", test::blocks(blocks, elements))));
    model->declare({.dits = {"transformer"}})
        .plan({.block_attrs = {{"transformer", {"blocks"}}}})
        .lies_in_files();
    auto config = kept(test::dit_only);
    config.chunk_bytes = 64 << 10;
    config.pin_memory = stages;
    runtime subject{gpu, {.acquire_deadline = 5s}};
    REQUIRE(subject.start());
    REQUIRE(subject.enable(model, config));
    REQUIRE(subject.begin_request());
    for (std::size_t i = 0; i != 5 * blocks; ++i)
      model->call(dit_block(i % blocks), [](fake_module&) {});
    REQUIRE(subject.end_request());
    REQUIRE(subject.disable());
    std::vector<nanoseconds> ends;
    for (const auto& each : gpu->timeline())
      if (each.span.kind == operation_kind::compute)
        ends.push_back(each.span.end);
    REQUIRE(ends.size() == 5 * blocks);
    CHECK(gpu->race_count() == 0);
    return (ends.back() - ends[2 * blocks - 1]) / (3 * blocks);
  }
};

TEST_CASE("a staged block takes as long as the slowest of computing, copying and packing",
          "[actors][staging_buffers][time]") {
  struct speeds {
    nanoseconds compute;
    double link;
    double host;
  };
  const auto [compute, link, host] = GENERATE(speeds{2ms, 0.5e9, 0.5e9},    // compute
                                              speeds{100us, 0.2e9, 0.5e9},  // the link
                                              speeds{100us, 0.5e9, 0.2e9},  // packing
                                              speeds{1ms, 0.25e9, 0.26e9}); // all about equal
  sim_options options;
  options.compute = compute;
  options.h2d_bandwidth = link;
  options.host_bandwidth = host;
  options.pageable_bandwidth = 1 / (1 / link + 1 / host); // Packed and copied by one thread.
  const auto copy = nanoseconds{static_cast<std::int64_t>(timed_run::bytes / link * 1e9)};
  const auto pack = nanoseconds{static_cast<std::int64_t>(timed_run::bytes / host * 1e9)};
  CAPTURE(compute.count(), copy.count(), pack.count());

  const auto staged = timed_run::period(options, true);
  const auto direct = timed_run::period(options, false);

  const auto bound = std::max({compute, copy, pack});
  CAPTURE(staged.count(), direct.count());
  CHECK(staged >= bound);
  CHECK(static_cast<double>(staged.count()) <= 1.03 * static_cast<double>(bound.count()));
  CHECK(direct >= std::max(compute, copy + pack));
}

/// Lives through everything that orders staged blocks and groups, what nobody uses included.
bool whole_life(sim_device& gpu, const offload_config& config) {
  const std::shared_ptr<sim_device> shared{&gpu, [](sim_device*) {}};
  const auto model = model_in_files();
  const auto dit = everything(*model->tree()->at("transformer"));
  const auto encoder = everything(*model->tree()->at("text_encoder"));
  runtime subject{shared, {.acquire_deadline = 5s}};
  if (!subject.start() || !subject.enable(model, config) || !subject.disable() ||
      !subject.enable(model, config))
    return false;
  contents seen;
  const auto add = [&seen](fake_module& block) {
    const auto more = everything(block);
    seen.insert(seen.end(), more.begin(), more.end());
  };
  const auto matches = [&seen](const contents& all) {
    const auto blocks = std::exchange(seen, {});
    return std::ranges::equal(blocks, const_bytes{all}.last(blocks.size()));
  };
  auto right = true;
  for (int request = 0; request != 2 && right; ++request) {
    right = subject.begin_request().has_value();
    model->call("text_encoder", [&](fake_module&) {
      for (std::size_t i = 0; i != blocks_of_encoder; ++i)
        model->call(encoder_block(i), add);
    });
    right = matches(encoder) && right;
    model->call("transformer", [&](fake_module&) {
      for (std::size_t i = 0; i != blocks_of_dit; ++i)
        model->call(dit_block(i), add);
    });
    right = matches(dit) && right;
    right = subject.end_request() && right;
  }
  model->call(dit_block(0), [](fake_module&) {});
  return subject.disable() && right;
}

TEST_CASE("without any one of its wait edges staging through buffers races or computes on wrong "
          "bytes",
          "[actors][edges]") {
  const auto* text = GENERATE(headed, test::both, whole);
  CAPTURE(text);
  const auto life = [text](sim_device& gpu) { return whole_life(gpu, kept(text)); };
  const auto run = test::run_without_edge(sim_options{}, "", life);
  REQUIRE_FALSE(run.caught());
  CHECK(std::ranges::find(run.edges, pack_waits_copy.name) != run.edges.end());

  for (const auto& edge : {pack_waits_copy, drain_before_restore}) {
    INFO("without the edge '" << edge.name << "' nothing goes wrong");
    CHECK(test::run_without_edge(sim_options{}, edge.name, life).caught());
  }
}

TEST_CASE("whatever device call fails while blocks and groups are staged, nothing is left behind",
          "[actors][staging_buffers][faults]") {
  const auto gpu = std::make_shared<sim_device>(sim_options{});
  const auto model = model_in_files();
  const auto original = everything(*model->tree());

  const auto tried = test::at_every_fault_point(
      *gpu,
      [&] {
        runtime subject{gpu, {.acquire_deadline = 5s}};
        auto ok = subject.start() && subject.enable(model, kept(headed)) && subject.begin_request();
        if (ok) {
          for (std::size_t i = 0; i != blocks_of_dit; ++i)
            model->call(dit_block(i), [](fake_module&) {});
          ok = subject.end_request().has_value();
        }
        return subject.disable() && ok;
      },
      [&] {
        CHECK(everything(*model->tree()) == original);
        CHECK(model->hook_count() == 0);
        test::check_nothing_left(*gpu);
      });

  CHECK(tried > 80);
}

} // namespace
} // namespace ferry
