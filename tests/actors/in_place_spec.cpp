// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/mapped_file.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/edges.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"
#include "support/scratch_directory.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// Blocks that lie in files as they are computed with, on a device that computes with pages where
// they are.
namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::fake_module;
using test::fake_pipeline;

constexpr std::size_t block_count = 5;
constexpr std::size_t block_bytes = 64 << 10;
constexpr auto streamed = R"({"mode":"layer","components":["dit"],"pin_memory":false})";

std::byte fill_of(std::size_t block) {
  return static_cast<std::byte>(10 + block);
}

/// A file with the blocks one after another, and a model over it.
struct filed_model {
  /// `shift` is where in the file the first block begins.
  explicit filed_model(std::size_t shift = 0) {
    const auto weights = file.bytes().subspan(shift);
    std::vector<test::fake_node> blocks;
    for (std::size_t i = 0; i != block_count; ++i)
      blocks.push_back(test::node("test.block")
                           ->parameter("weight", half_of(weights, 2 * i))
                           ->parameter("second", half_of(weights, 2 * i + 1)));
    model = std::make_shared<fake_pipeline>(
        test::node("test.root")
            ->child("transformer",
                    test::node("test.dit")->child("blocks", test::list(std::move(blocks)))));
    model->declare({.dits = {"transformer"}})
        .plan(
            {.block_attrs = {{"transformer", {"blocks"}}}, .resident_dit_paths = {"transformer"}});
  }

  static test::fake_tensor_ptr half_of(const_bytes weights, std::size_t number) {
    return test::mapped_tensor(weights.subspan(number * block_bytes / 2, block_bytes / 2),
                               {block_bytes / 8});
  }

  static std::string contents() {
    std::string all;
    for (std::size_t i = 0; i != block_count; ++i)
      all.append(block_bytes, static_cast<char>(fill_of(i)));
    return all + "the end";
  }

  /// Calls a block. `inside` is given where its weight is.
  void call(std::size_t block, const std::function<void(const_bytes)>& inside) {
    model->call("transformer.blocks." + std::to_string(block),
                [&](fake_module& called) { inside(called.own_tensors().at("weight")->bytes()); });
  }

  /// Runs the blocks of `order`. Returns whether each saw its weights.
  bool run(const std::vector<std::size_t>& order) {
    auto right = true;
    for (const auto block : order)
      call(block, [&](const_bytes seen) {
        right = right && std::ranges::count(seen, fill_of(block)) == std::ssize(seen);
      });
    return right;
  }

  test::scratch_directory directory;
  std::filesystem::path path = directory.write("weights", contents());
  mapped_file file{path};
  std::shared_ptr<fake_pipeline> model;
};

bool run_request(runtime& through, filed_model& subject, const std::vector<std::size_t>& order) {
  if (!through.begin_request({.steps = 3}))
    return false;
  auto right = true;
  for (int step = 0; step != 3; ++step)
    right = subject.run(order) && right;
  return through.end_request() && right;
}

/// A model that is offloaded to a device that computes in place, or copies.
struct offloaded {
  explicit offloaded(bool in_place = true, std::size_t shift = 0)
      : gpu(std::make_shared<sim_device>(sim_options{.in_place = in_place})), subject(shift),
        through(gpu, {.acquire_deadline = 5s}) {
    REQUIRE(through.start());
    REQUIRE(through.enable(subject.model, test::compact(streamed)));
  }

  std::shared_ptr<sim_device> gpu;
  filed_model subject;
  runtime through;
};

const std::vector<std::size_t> forward{0, 1, 2, 3, 4};

TEST_CASE("a block that lies in a file as it is computed with is computed with there",
          "[actors][in-place]") {
  offloaded run;
  auto& [gpu, subject, through] = run;

  CHECK(run_request(through, subject, forward));
  for (std::size_t i = 0; i != block_count; ++i)
    subject.call(i, [&](const_bytes seen) {
      CHECK(seen.data() == subject.file.bytes().data() + i * block_bytes);
    });

  CHECK(gpu->race_count() == 0);
  CHECK(gpu->counters().h2d_bytes >= 3 * block_count * block_bytes);
  REQUIRE(through.disable());
  CHECK(subject.run(forward));
  CHECK(gpu->counters().device_bytes == 0);
}

TEST_CASE("a block that is not aligned in its file as it would be in a slot is copied",
          "[actors][in-place]") {
  const auto shift = GENERATE(std::size_t{0}, std::size_t{4});
  offloaded run{true, shift};
  auto& [gpu, subject, through] = run;
  REQUIRE(through.begin_request({.steps = 1}));

  subject.call(0, [&](const_bytes seen) {
    const auto there = subject.file.bytes().subspan(shift).data() == seen.data();
    CHECK(there == (shift == 0));
  });
  CHECK(through.state()->components.at("transformer").blocks_in_place ==
        (shift == 0 ? block_count : 0));

  REQUIRE(through.end_request());
}

TEST_CASE("pages are got ahead of their use, and leave before more than the slots would hold",
          "[actors][in-place]") {
  struct page_watch final : operation_observer {
    void on_operation(const operation_span& span) override {
      there += span.kind == operation_kind::copy ? 1 : 0;
      there -= std::string_view(span.tag.what) == "evict" ? 1 : 0;
      most = std::max(most, there);
      evicted += std::string_view(span.tag.what) == "evict" ? 1 : 0;
    }
    void on_stream(stream_id, std::string_view) override {}
    int there = 0;
    int most = 0;
    int evicted = 0;
  } watch;
  offloaded run;
  auto& [gpu, subject, through] = run;
  gpu->attach(watch);

  CHECK(run_request(through, subject, forward));

  CHECK(through.state()->blocking_loads == 0);
  REQUIRE(through.disable());
  gpu->detach(watch);
  CHECK(watch.most <= 2);
  CHECK(watch.evicted >= 13);
}

TEST_CASE("a block that runs twice in a row keeps its pages in between", "[actors][in-place]") {
  offloaded run;
  auto& [gpu, subject, through] = run;

  CHECK(run_request(through, subject, {0, 0, 1, 1, 1, 2, 3, 4, 4}));
  CHECK(run_request(through, subject, {4, 4, 0, 2, 2}));

  CHECK(gpu->race_count() == 0);
}

TEST_CASE("each wait of a run in place is needed", "[actors][in-place]") {
  const std::string forgotten = GENERATE(std::string{}, std::string(fetch_waits_last_use.name),
                                         std::string(compute_waits_fetch.name));
  CAPTURE(forgotten);
  const auto shown =
      test::run_without_edge(sim_options{.in_place = true}, forgotten, [](sim_device& gpu) {
        const std::shared_ptr<device> shared{std::shared_ptr<void>{}, &gpu};
        filed_model subject;
        runtime through(shared, {.acquire_deadline = 5s});
        return through.start() && through.enable(subject.model, test::compact(streamed)) &&
               run_request(through, subject, forward) && through.stop(5s);
      });
  CHECK(shown.caught() == !forgotten.empty());
}

TEST_CASE("weights that were replaced are computed with beside those of the block in files",
          "[actors][in-place]") {
  offloaded run;
  auto& [gpu, subject, through] = run;
  CHECK(run_request(through, subject, forward));
  auto read = through.read_weights("transformer", {"blocks.1.weight"});
  REQUIRE(read);
  const std::vector<std::byte> changed(block_bytes / 2, std::byte{77});
  read->values.front().bytes = changed;

  REQUIRE(through.update_weights({"transformer", read->values}));

  REQUIRE(through.begin_request({.steps = 1}));
  CHECK(subject.run({0}));
  subject.model->call("transformer.blocks.1", [&](fake_module& called) {
    const auto replaced = called.own_tensors().at("weight")->bytes();
    const auto filed = called.own_tensors().at("second")->bytes();
    CHECK(std::ranges::count(replaced, std::byte{77}) == std::ssize(replaced));
    CHECK(std::ranges::count(filed, fill_of(1)) == std::ssize(filed));
  });
  CHECK(subject.run({2, 3, 4}));
  REQUIRE(through.end_request());
  CHECK(gpu->race_count() == 0);
}

TEST_CASE("a file that is written while its last block computes with it ends the request with its "
          "name",
          "[actors][in-place]") {
  offloaded run;
  auto& [gpu, subject, through] = run;
  REQUIRE(through.begin_request({.steps = 1}));
  CHECK(subject.run({0, 1, 2, 3}));

  subject.call(4, [&](const_bytes) {
    std::ofstream(subject.path, std::ios::in | std::ios::binary).put('x');
    std::filesystem::last_write_time(subject.path, std::filesystem::file_time_type::clock::now() +
                                                       std::chrono::seconds(5));
  });
  const auto ended = through.end_request();

  REQUIRE_FALSE(ended);
  CHECK_THAT(ended.error().detail, Catch::Contains(subject.path.string()) &&
                                       Catch::Contains("was written while it was in use"));
}

TEST_CASE("a request that read a page which its file has lost fails, whoever read it",
          "[actors][in-place]") {
  offloaded run{false};
  auto& [gpu, subject, through] = run;
  REQUIRE(through.begin_request({.steps = 1}));
  const test::scratch_directory elsewhere;
  const auto path = elsewhere.write("vae", std::string(20'000, 'v'));
  const mapped_file beside(path);
  std::filesystem::resize_file(path, 100);
  CHECK(*const_cast<const volatile std::byte*>(&beside.bytes().back()) == std::byte{0});

  const auto ended = through.end_request();

  REQUIRE_FALSE(ended);
  CHECK_THAT(ended.error().detail, Catch::Contains(path.string()));
}

TEST_CASE("a file that is cut short while a block computes with it ends the request with its name",
          "[actors][in-place]") {
  offloaded run;
  auto& [gpu, subject, through] = run;
  REQUIRE(through.begin_request({.steps = 1}));
  CHECK(subject.run({0}));

  std::optional<failure> told;
  try {
    subject.call(1, [&](const_bytes seen) {
      std::filesystem::resize_file(subject.path, 100);
      CHECK(seen.back() == std::byte{0});
    });
    subject.call(2, [](const_bytes) {});
  } catch (const ferry_error& ended) {
    told = ended.reason();
  }

  REQUIRE(told);
  CHECK_THAT(told->detail, Catch::Contains(subject.path.string()) &&
                               Catch::Contains("was changed while it was in use"));
}

/// As `offloaded`, on a device whose copies and pages are real.
struct hosted {
  explicit hosted(std::size_t shift) : subject(shift), through(host, {.acquire_deadline = 5s}) {
    REQUIRE(through.start());
  }

  std::shared_ptr<host_device> host =
      std::make_shared<host_device>(host_device_options{.memory = 16 << 20});
  filed_model subject;
  runtime through;
};

TEST_CASE("a block whose file is cut short before it comes is named, and everything is taken back",
          "[actors][in-place]") {
  const auto shift = GENERATE(std::size_t{0}, std::size_t{4}); // In place, and copied.
  CAPTURE(shift);
  hosted run(shift);
  auto& [host, subject, through] = run;
  REQUIRE(through.enable(subject.model, test::compact(streamed)));
  REQUIRE(through.begin_request({.steps = 1}));
  subject.call(0, [&](const_bytes) { std::filesystem::resize_file(subject.path, 100); });

  std::optional<failure> told;
  std::size_t block = 0;
  while (!told && ++block != block_count)
    try {
      subject.call(block, [](const_bytes) {});
    } catch (const ferry_error& ended) {
      told = ended.reason();
    }

  REQUIRE(told);
  CHECK(told->code == errc::io_failure);
  CHECK_THAT(told->detail, Catch::StartsWith("'" + subject.path.string()));
  // What computed with the file is told of it itself.
  CHECK(told->block == "transformer.blocks." + std::to_string(shift == 0 ? 0 : block));
  CHECK(through.disable());
  CHECK(host->counters().device_bytes == 0);
  CHECK(through.stop(5s));
}

TEST_CASE("a file that is cut short under blocks that nobody asks for does not keep the backend",
          "[actors][in-place]") {
  const auto shift = GENERATE(std::size_t{0}, std::size_t{4});
  CAPTURE(shift);
  hosted run(shift);
  auto& [host, subject, through] = run;
  std::filesystem::resize_file(subject.path, 100);

  REQUIRE(through.enable(subject.model, test::compact(streamed)));
  const auto disabled = through.disable();

  CHECK(disabled);
  CHECK(host->counters().device_bytes == 0);
  filed_model intact(shift);
  REQUIRE(through.enable(intact.model, test::compact(streamed)));
  CHECK(run_request(through, intact, forward));
  CHECK(through.stop(5s));
}

TEST_CASE("a component whose file is cut short before it comes does not keep the backend",
          "[actors][in-place]") {
  constexpr auto whole = R"({"mode":"module","components":["dit","text_encoder"]})";
  hosted run(4);
  auto& [host, subject, through] = run;
  const auto part = [&](std::size_t number) {
    return test::node("test.part")
        ->parameter("weight", filed_model::half_of(subject.file.bytes().subspan(4), number));
  };
  const auto model = std::make_shared<fake_pipeline>(
      test::node("test.root")->child("transformer", part(0))->child("text_encoder", part(1)));
  model->declare({.dits = {"transformer"}, .encoders = {"text_encoder"}});
  REQUIRE(through.enable(model, test::compact(whole)));
  std::filesystem::resize_file(subject.path, 100);

  std::optional<failure> told;
  try {
    model->call("transformer", [](fake_module&) {});
  } catch (const ferry_error& ended) {
    told = ended.reason();
  }

  REQUIRE(told);
  CHECK(told->code == errc::io_failure);
  CHECK_THAT(told->detail, Catch::StartsWith("'" + subject.path.string()));
  CHECK(through.disable());
  CHECK(host->counters().device_bytes == 0);
  CHECK(through.stop(5s));
}

TEST_CASE("residents whose file is cut short refuse their enable, and not the next",
          "[actors][in-place]") {
  hosted run(4);
  auto& [host, subject, through] = run;
  const filed_model intact(4);
  const auto headed = [](const filed_model& file) {
    const auto half = [&](std::size_t number) {
      return filed_model::half_of(file.file.bytes().subspan(4), number);
    };
    const auto block = [&](std::size_t number) {
      return test::node("test.block")->parameter("weight", half(number));
    };
    auto model = std::make_shared<fake_pipeline>(
        test::node("test.root")
            ->child("transformer",
                    test::node("test.dit")
                        ->parameter("head", half(0))
                        ->child("blocks", test::list({block(1), block(2), block(3)}))));
    model->declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});
    return model;
  };
  std::filesystem::resize_file(subject.path, 100);

  const auto refused = through.enable(headed(subject), test::compact(streamed));

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::io_failure);
  CHECK_THAT(refused.error().detail, Catch::StartsWith("'" + subject.path.string()));
  CHECK(host->counters().device_bytes == 0);
  CHECK(through.enable(headed(intact), test::compact(streamed)));
  CHECK(through.stop(5s));
}

} // namespace
} // namespace ferry
