// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_requests.hpp"

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/config_legacy.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "interrupt_watch.hpp"
#include "models/load_model.hpp"
#include "output_digests.hpp"
#include "tiny_pipeline.hpp"
#include "torch/catch.hpp"

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using Catch::Matchers::Contains;
using test::streamed_tiny;
using test::watched_model;

constexpr auto layer =
    R"({"mode":"layer","components":["dit"],"layer_options":{"dit":{"resident_layers":1}}})";
constexpr auto whole = R"({"mode":"module","components":["dit","text_encoder"]})";

std::vector<asked_request> three_requests() {
  std::vector<asked_request> all;
  for (std::int64_t i = 0; i < 3; ++i) {
    request asked;
    asked.positive.ids = {5 + i, 17};
    asked.negative.ids = {1};
    asked.seed = static_cast<std::uint64_t>(i);
    asked.steps = 1 + i;
    asked.width = 32;
    asked.height = 32;
    asked.frames = 1;
    all.push_back({.what = asked, .origin = "r.jsonl:" + std::to_string(i + 1)});
  }
  return all;
}

run_context context_of(streamed_tiny& tiny, interrupt_watch& watch) {
  return {.model = *tiny.model,
          .target = *tiny.device,
          .interrupt = watch,
          .through = &tiny.through,
          .reference = nullptr,
          .title = "",
          .keep = {}};
}

void check_nothing_is_left(const runtime& through) {
  const auto state = through.state().value();
  CHECK_FALSE(state.in_request);
  CHECK(state.tickets_in_flight == 0);
  for (const auto& [path, component] : state.components) {
    INFO(path);
    CHECK_FALSE((component.on_device && component.selected));
  }
}

TEST_CASE("each request ends as it would alone and leaves nothing on the device",
          "[app][run_requests]") {
  streamed_tiny tiny(layer);
  interrupt_watch watch;
  output_digests together;
  auto where = context_of(tiny, watch);
  where.keep = [&](std::size_t index, const generated& made) {
    together.add(index, made);
    check_nothing_is_left(tiny.through);
  };

  const auto tally = run_requests(three_requests(), where);

  CHECK(tally.done == 3);
  CHECK(tally.failed == 0);
  CHECK(tally.step_s.size() == 6);
  output_digests alone;
  for (std::size_t i = 0; i < 3; ++i) {
    streamed_tiny fresh(layer);
    auto single = context_of(fresh, watch);
    single.keep = [&](std::size_t, const generated& made) { alone.add(i, made); };
    CHECK(run_requests({three_requests()[i]}, single).done == 1);
  }
  CHECK(together == alone);
}

TEST_CASE("requests in a group end as alone, and one that is cancelled leaves it",
          "[app][run_requests]") {
  streamed_tiny tiny(layer);
  interrupt_watch watch;
  const watched_model model(*tiny.model, [](const request& asked) {
    if (asked.seed == 1)
      throw ferry_error({.code = errc::cancelled, .detail = "by its user"});
  });
  output_digests together;
  const run_context where = {
      .model = model,
      .target = *tiny.device,
      .interrupt = watch,
      .through = &tiny.through,
      .reference = nullptr,
      .title = "",
      .passes_per_fetch = 6,
      .keep = [&](std::size_t index, const generated& made) { together.add(index, made); }};

  const auto tally = run_requests(three_requests(), where);

  CHECK(tally.done == 2);
  CHECK(tally.failed == 1);
  CHECK(tally.step_s.size() == 3);
  CHECK(tiny.device->race_count() == 0);
  check_nothing_is_left(tiny.through);
  output_digests alone;
  for (const std::size_t i : {0U, 2U}) {
    streamed_tiny fresh(layer);
    auto single = context_of(fresh, watch);
    single.keep = [&](std::size_t, const generated& made) { alone.add(i, made); };
    CHECK(run_requests({three_requests()[i]}, single).done == 1);
  }
  CHECK(together == alone);
}

TEST_CASE("a request that fails is ended and the others run", "[app][run_requests]") {
  streamed_tiny tiny(layer);
  interrupt_watch watch;
  const watched_model model(*tiny.model, [](const request& asked) {
    if (asked.seed == 1)
      throw std::runtime_error("no such luck");
  });
  const auto plain = context_of(tiny, watch);
  std::vector<std::size_t> kept;
  const run_context where = {
      .model = model,
      .target = plain.target,
      .interrupt = watch,
      .through = &tiny.through,
      .reference = nullptr,
      .title = "",
      .keep = [&](std::size_t index, const generated&) { kept.push_back(index); }};

  const auto tally = run_requests(three_requests(), where);

  CHECK(tally.done == 2);
  CHECK(tally.failed == 1);
  CHECK(kept == std::vector<std::size_t>{0, 2});
  check_nothing_is_left(tiny.through);
}

TEST_CASE("what ends the run of all ranks names the request of a group that failed",
          "[app][run_requests]") {
  streamed_tiny tiny(layer);
  interrupt_watch watch;
  const watched_model model(*tiny.model, [](const request& asked) {
    if (asked.seed == 1)
      throw std::runtime_error("no such luck");
  });
  const run_context where = {.model = model,
                             .target = *tiny.device,
                             .interrupt = watch,
                             .through = &tiny.through,
                             .in_waves = true,
                             .reference = nullptr,
                             .title = "",
                             .passes_per_fetch = 6,
                             .keep = {}};

  CHECK_THROWS_WITH(run_requests(three_requests(), where), Contains("r.jsonl:2: no such luck"));
}

/// The small Wan pipeline, offloaded to the host device.
struct hosted_tiny {
  explicit hosted_tiny(const std::string& config) {
    REQUIRE(through.start());
    REQUIRE(through.enable(std::make_shared<torch_pipeline>(model->description()),
                           resolve_config(config, {}).value().config));
  }

  /// Runs one request, and lets `watch` in on it. Returns what it ended in, if it did.
  [[nodiscard]] std::vector<generated> run(const asked_request& asked,
                                           const std::function<void(const request&)>& watch) {
    std::vector<generated> ended;
    interrupt_watch interrupt;
    const watched_model watched(*model, watch);
    const run_context where = {
        .model = watched,
        .target = *target,
        .interrupt = interrupt,
        .through = &through,
        .reference = nullptr,
        .title = "",
        .keep = [&](std::size_t, const generated& made) { ended.push_back(made); }};
    const auto tally = run_requests({asked}, where);
    CHECK(tally.done == ended.size());
    CHECK(tally.done + tally.failed == 1);
    return ended;
  }

  std::unique_ptr<diffusion_model> model =
      load_model(std::filesystem::path(FERRY_TEST_DATA) / "wan-tiny").value();
  std::shared_ptr<host_device> target =
      std::make_shared<host_device>(host_device_options{.memory = std::size_t{64} << 20});
  runtime through{target, {}};
};

TEST_CASE("of fifty requests on the host device, a tenth cancelled and a tenth failing, the others "
          "end as they would alone, and none leaves anything",
          "[app][run_requests]") {
  const std::string config = GENERATE(as<std::string>{}, layer, whole);
  CAPTURE(config);
  auto kinds = three_requests();
  for (auto& each : kinds) {
    each.what.steps = 2;
    each.what.width = 16;
    each.what.height = 16;
  }
  std::vector<generated> single;
  for (const auto& each : kinds)
    single.push_back(hosted_tiny(config).run(each, [](const request&) {}).at(0));
  hosted_tiny tiny(config);
  const auto idle = tiny.target->counters();
  output_digests together;
  output_digests alone;

  for (std::size_t i = 0; i < 50; ++i) {
    INFO("request " << i);
    const auto ended = tiny.run(kinds[i % kinds.size()], [&](const request&) {
      if (i % 10 == 3)
        REQUIRE(tiny.through.cancel_request(request_id{i + 1}));
      if (i % 10 == 7)
        throw std::runtime_error("no such luck");
    });
    CHECK(ended.empty() == (i % 10 == 3 || i % 10 == 7));
    for (const auto& made : ended) {
      together.add(i, made);
      alone.add(i, single[i % kinds.size()]);
    }
    check_nothing_is_left(tiny.through);
    CHECK(tiny.target->counters().device_bytes == idle.device_bytes);
    CHECK(tiny.target->counters().pinned_bytes == idle.pinned_bytes);
  }

  CHECK(together == alone);
  CHECK(tiny.through.disable());
  CHECK(tiny.target->counters().device_bytes == 0);
}

TEST_CASE("no request runs after a transfer failed", "[app][run_requests]") {
  streamed_tiny tiny(layer);
  interrupt_watch watch;
  auto where = context_of(tiny, watch);
  std::size_t kept = 0;
  where.keep = [&](std::size_t, const generated&) {
    ++kept;
    tiny.device->inject({.call = device_call::copy, .after = 2});
  };

  CHECK_THROWS_WITH(run_requests(three_requests(), where), Contains("r.jsonl:2: "));

  CHECK(kept == 1);
}

TEST_CASE("an interrupt cancels the request that runs and lets no other begin",
          "[app][run_requests]") {
  streamed_tiny tiny(layer);
  interrupt_watch watch;
  const watched_model model(*tiny.model, [&](const request& asked) {
    if (asked.seed != 1)
      return;
    ::kill(::getpid(), SIGINT);
    while (!watch.interrupted())
      std::this_thread::yield();
  });
  const run_context where = {.model = model,
                             .target = *tiny.device,
                             .interrupt = watch,
                             .through = &tiny.through,
                             .reference = nullptr,
                             .title = "",
                             .keep = {}};

  const auto tally = run_requests(three_requests(), where);

  CHECK(tally.done == 1);
  CHECK(tally.failed == 0);
  CHECK(tally.step_s.size() == 2); // One of the first request, and one of two of the second.
  check_nothing_is_left(tiny.through);
}

} // namespace
} // namespace ferry
