// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/failing_device.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"
#include "support/staging.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::contents;
using test::everything;
using test::failing_device;
using test::fake_module;
using test::fake_pipeline;

constexpr std::uint64_t seed = 20260418;
constexpr std::size_t requests_of_a_mix = 50;
constexpr std::size_t cancelled_of_a_mix = 5;
constexpr std::size_t failing_of_a_mix = 5;

/// How a mix is offloaded, and which components a scheduler may stage.
struct offloading {
  std::string config;
  std::vector<std::string> staged;
};

const std::vector<offloading> all_modes{
    {R"({"mode":"layer","components":["dit","text_encoder"]})", {}},
    {R"({"mode":"layer","components":["dit","text_encoder"],"pin_memory":false})", {}},
    {R"({"mode":"layer","components":["dit"],"layer_options":{"dit":{"resident_layers":2}}})",
     {"transformer", "transformer_2"}},
    {R"({"mode":"module","components":["dit","text_encoder"]})",
     {"transformer", "transformer_2", "text_encoder"}},
};

/// One thing that is done for a request.
struct action {
  enum class kind : std::uint8_t { run, stage_in, stage_out };

  kind what = kind::run;
  std::string component;
};

using recipe = std::vector<action>;

std::size_t blocks_of(const std::string& component) {
  return component == "vae" ? 1 : component == "text_encoder" ? 3 : 5;
}

/// Counts the blocks that a recipe runs before its last denoiser.
std::size_t blocks_before_last_step(const recipe& what) {
  std::size_t count = 0;
  std::size_t before = 0;
  for (const auto& each : what) {
    if (each.what != action::kind::run)
      continue;
    if (each.component.starts_with("transformer"))
      before = count;
    count += blocks_of(each.component);
  }
  return before;
}

std::shared_ptr<fake_pipeline> make_model() {
  auto made = std::make_shared<fake_pipeline>(
      test::node("test.root")
          ->child("transformer", test::node("test.dit")->child("blocks", test::blocks(5, 32, 10)))
          ->child("transformer_2", test::node("test.dit")->child("blocks", test::blocks(5, 48, 60)))
          ->child("text_encoder",
                  test::node("test.encoder")->child("blocks", test::blocks(3, 16, 120)))
          ->child("vae", test::node("test.vae")->child("blocks", test::blocks(1, 8, 200))));
  made->declare(
          {.dits = {"transformer", "transformer_2"}, .encoders = {"text_encoder"}, .vaes = {"vae"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}, {"transformer_2", {"blocks"}}},
             .encoder_block_attrs = {{"text_encoder", {"blocks"}}},
             .resident_dit_paths = {"transformer", "transformer_2"}});
  return made;
}

std::shared_ptr<device> make_device(bool on_host) {
  if (on_host)
    return std::make_shared<host_device>(host_device_options{.memory = std::size_t{1} << 20});
  return std::make_shared<sim_device>(sim_options{});
}

/// A pipeline that is served by a runtime.
struct serving {
  /// Is told how many blocks of the request have run, inside the one that runs.
  using watcher = std::function<void(std::size_t)>;

  serving(bool on_host, const offloading& mode)
      : config(test::compact(mode.config)), inner(make_device(on_host)),
        gpu(std::make_shared<failing_device>(inner)), subject(gpu, {.acquire_deadline = 30s}) {
    weights = everything(*model->tree());
    open();
  }

  void open() {
    REQUIRE(subject.start());
    REQUIRE(subject.enable(model, config));
    hooks = model->hook_count();
    idle = gpu->counters();
  }

  /// Ends all of it, and returns what is left.
  [[nodiscard]] std::string close() {
    std::vector<std::string> bad;
    if (const auto disabled = subject.disable(); !disabled)
      bad.push_back("not disabled: " + describe(disabled.error()));
    if (const auto stopped = subject.stop(20s); !stopped)
      bad.push_back("not stopped: " + describe(stopped.error()));
    const auto left = gpu->counters();
    if (left.device_bytes + left.pinned_bytes + left.streams + left.events != 0)
      bad.emplace_back("memory, streams or events");
    if (model->hook_count() != 0)
      bad.emplace_back("hooks");
    if (everything(*model->tree()) != weights)
      bad.emplace_back("other weights");
    return test::joined(bad);
  }

  /// Returns what a request has left behind that no request may.
  [[nodiscard]] std::string left_behind() const {
    const auto state = subject.state().value();
    const auto now = gpu->counters();
    std::vector<std::string> bad;
    for (const auto& [what, is_left] :
         {std::pair{"a request", state.in_request || state.requests_waiting != 0},
          {"a ticket", state.tickets_in_flight > fetched_before},
          {"a slot", state.slots_free + fetched_before < state.slots},
          {"a hook", model->hook_count() != hooks},
          {"device memory", now.device_bytes != idle.device_bytes},
          {"pinned memory", now.pinned_bytes != idle.pinned_bytes},
          {"a stream", now.streams != idle.streams},
          {"an event", now.events != idle.events}})
      if (is_left)
        bad.emplace_back(what);
    for (const auto& [path, component] : state.components)
      if (component.on_device && component.selected)
        bad.push_back("residency of " + path);
    return test::joined(bad);
  }

  /// Computes on the weights that a block has, as they are seen now.
  void compute(const std::string& component, contents& activations, std::size_t& done,
               const watcher& watch) {
    for (std::size_t i = 0; i != blocks_of(component); ++i)
      model->call(component + ".blocks." + std::to_string(i), [&](fake_module& block) {
        std::size_t at = 0;
        for (const auto weight : everything(block)) {
          auto& value = activations[at++ % activations.size()];
          value = std::byte(31 * std::to_integer<unsigned>(value) +
                            std::to_integer<unsigned>(weight) + at);
        }
        watch(done++);
      });
  }

  [[nodiscard]] result<void> act(const action& next, contents& activations, std::size_t& done,
                                 const watcher& watch) {
    if (next.what == action::kind::stage_in)
      return subject.stage_in(next.component);
    if (next.what == action::kind::stage_out)
      return subject.stage_out(next.component);
    try {
      model->call(next.component,
                  [&](fake_module&) { compute(next.component, activations, done, watch); });
      return {};
    } catch (const ferry_error& e) {
      return tl::unexpected(e.reason());
    }
  }

  /// Serves one request. Returns what it computed, or why it did not.
  [[nodiscard]] result<contents> serve(const recipe& what, const watcher& watch) {
    fetched_before = subject.state().value().tickets_in_flight;
    const auto begun = subject.begin_request();
    if (!begun)
      return tl::unexpected(begun.error());
    fetched_before = 0;
    running = *begun;
    contents activations(64, std::byte{7});
    std::size_t done = 0;
    result<void> outcome;
    for (const auto& next : what)
      if (outcome)
        outcome = act(next, activations, done, watch);
    const auto ended = subject.end_request();
    if (outcome && !ended)
      outcome = ended;
    return outcome.map([&] { return activations; });
  }

  /// Lets another client ask for a turn while a request runs, and go away before it comes.
  void cancel_one_that_waits() {
    const auto next = subject.new_request();
    result<void> turn;
    std::thread client([&] { turn = subject.begin_request(next); });
    while (subject.state().value().requests_waiting == 0)
      std::this_thread::yield();
    const auto cancelled = subject.cancel_request(next);
    client.join();
    CHECK(cancelled);
    CHECK((!turn && turn.error().code == errc::cancelled));
  }

  offload_config config;
  std::shared_ptr<device> inner;
  std::shared_ptr<failing_device> gpu;
  std::shared_ptr<fake_pipeline> model = make_model();
  contents weights;
  std::size_t hooks = 0;
  device_counters idle;
  std::uint32_t fetched_before = 0; ///< Since the enable, unless a request has begun.
  request_id running{};
  runtime subject;
};

void ignore(std::size_t) {}

/// What becomes of a request.
enum class fate : std::uint8_t { finishes, is_cancelled, meets_a_fault };

struct job {
  recipe what;
  fate ends = fate::finishes;
  bool another_waits = false; ///< Another is cancelled while it waits for this one.
};

using dice = std::mt19937_64;

std::size_t below(dice& random, std::size_t limit) {
  return random() % limit;
}

bool one_in(dice& random, std::size_t n) {
  return below(random, n) == 0;
}

recipe make_recipe(dice& random, const offloading& mode) {
  recipe made;
  const auto run = [&](const std::string& component, std::size_t times) {
    const auto staged = std::ranges::find(mode.staged, component) != mode.staged.end();
    if (staged && one_in(random, 3))
      made.push_back({action::kind::stage_in, component});
    for (std::size_t i = 0; i != times; ++i)
      made.push_back({action::kind::run, component});
    if (staged && one_in(random, 3))
      made.push_back({action::kind::stage_out, component});
  };
  run("text_encoder", 1 + below(random, 2));
  run("transformer", 1 + below(random, 3));
  run("transformer_2", below(random, 3));
  run("vae", below(random, 3));
  return made;
}

/// Draws the requests of a mix: as many cancelled while they run as while they wait for another.
std::vector<job> make_jobs(dice& random, const offloading& mode) {
  constexpr auto waiting = cancelled_of_a_mix / 2;
  std::vector<job> jobs(requests_of_a_mix - waiting);
  for (std::size_t i = 0; i != jobs.size(); ++i)
    jobs[i] = {make_recipe(random, mode),
               i < failing_of_a_mix                                  ? fate::meets_a_fault
               : i < failing_of_a_mix + cancelled_of_a_mix - waiting ? fate::is_cancelled
                                                                     : fate::finishes,
               i >= jobs.size() - waiting};
  std::ranges::shuffle(jobs, random);
  return jobs;
}

/// Mixes one after another, on one device each.
class mix {
public:
  mix(bool on_host, const offloading& mode)
      : on_host_(on_host), mode_(mode), together_(on_host, mode) {}

  void serve(const job& next) {
    serving single{on_host_, mode_};
    const auto calls = single.gpu->fallible_calls();
    const auto expected = single.serve(next.what, ignore);
    const auto most = single.gpu->fallible_calls() - calls;
    REQUIRE(expected);
    REQUIRE(single.close() == "");
    alone_ = *expected;
    if (next.ends == fate::meets_a_fault)
      fail(next, below(random_, most));
    else if (next.ends == fate::is_cancelled)
      cancel(next, below(random_, blocks_before_last_step(next.what)));
    else
      finish(next, below(random_, blocks_before_last_step(next.what)));
    if (!together_.subject.state().value().first_failure)
      CHECK(together_.left_behind() == "");
    else
      restart();
  }

  [[nodiscard]] std::string end() { return together_.close(); }
  [[nodiscard]] dice& random() noexcept { return random_; }
  [[nodiscard]] std::size_t done() const noexcept { return done_; }
  [[nodiscard]] std::size_t cancelled() const noexcept { return cancelled_; }
  [[nodiscard]] std::size_t struck() const noexcept { return struck_; }
  [[nodiscard]] std::uint64_t races() const {
    const auto* sim = dynamic_cast<const sim_device*>(together_.inner.get());
    return sim == nullptr ? 0 : sim->race_count();
  }

private:
  void finish(const job& next, std::size_t at) {
    const auto made = together_.serve(next.what, [&](std::size_t block) {
      if (next.another_waits && block == at) {
        together_.cancel_one_that_waits();
        ++cancelled_;
      }
    });
    INFO((made ? "" : describe(made.error())));
    CHECK((made && *made == alone_));
    ++done_;
  }

  void cancel(const job& next, std::size_t at) {
    const auto made = together_.serve(next.what, [&](std::size_t block) {
      if (block == at)
        CHECK(together_.subject.cancel_request(together_.running));
    });
    CHECK((!made && made.error().code == errc::cancelled));
    ++cancelled_;
  }

  void fail(const job& next, std::uint64_t call) {
    // What it needs in the mix may be less than it needed alone.
    for (auto failed = false; !failed; call /= 2) {
      INFO("device call " << call << " of the request fails");
      together_.gpu->fail_after(call);
      const auto made = together_.serve(next.what, ignore);
      failed = together_.gpu->cancel_failure();
      // Blocks that are fetched for nobody may fail without harm to the request.
      if (made)
        CHECK(*made == alone_);
      else
        CHECK((failed && made.error().code == errc::device_failure));
      struck_ += failed ? 1 : 0;
    }
  }

  void restart() {
    CHECK(together_.close() == "");
    together_.open();
  }

  bool on_host_;
  offloading mode_;
  dice random_{seed};
  serving together_;
  contents alone_;
  std::size_t done_ = 0;
  std::size_t cancelled_ = 0;
  std::size_t struck_ = 0;
};

TEST_CASE("in a mix of requests, some cancelled and some failing, each of the others computes what "
          "it does alone, and none leaves anything",
          "[actors][requests][mix]") {
  const auto on_host = GENERATE(false, true);
  const auto mode = GENERATE(from_range(all_modes));
  CAPTURE(on_host, mode.config, seed);
  mix all{on_host, mode};

  const auto jobs = make_jobs(all.random(), mode);
  for (std::size_t i = 0; i != jobs.size(); ++i) {
    INFO("request " << i);
    all.serve(jobs[i]);
  }

  CHECK(all.done() == requests_of_a_mix - cancelled_of_a_mix - failing_of_a_mix);
  CHECK(all.cancelled() == cancelled_of_a_mix);
  CHECK(all.struck() == failing_of_a_mix);
  CHECK(all.end() == "");
  CHECK(all.races() == 0);
}

} // namespace
} // namespace ferry
