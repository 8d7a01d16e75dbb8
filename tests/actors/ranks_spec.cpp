// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/host_communicator.hpp>
#include <ferry/platform/sim_communicator.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/fake_numa.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::fake_module;
using test::fake_pipeline;

constexpr auto gathered = R"({"mode":"layer","components":["dit","text_encoder"],
    "layer_options":{"dit":{"weight_transfer":"allgather"}}})";
constexpr auto all_gathered = R"({"mode":"layer","components":["dit","text_encoder"],
    "layer_options":{"dit":{"weight_transfer":"allgather"},
                     "text_encoder":{"weight_transfer":"allgather"}}})";

constexpr std::size_t dit_blocks = 5;
constexpr std::size_t encoder_blocks = 3;

std::shared_ptr<fake_pipeline> model(unsigned char first = 10) {
  auto made = std::make_shared<fake_pipeline>(
      test::node("test.root")
          ->child("transformer",
                  test::node("test.dit")->child("blocks", test::blocks(dit_blocks, 700, first)))
          ->child(
              "text_encoder",
              test::node("test.encoder")->child("block", test::blocks(encoder_blocks, 300, 100))));
  made->declare({.dits = {"transformer"}, .encoders = {"text_encoder"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}},
             .encoder_block_attrs = {{"text_encoder", {"block"}}},
             .encoder_dlo_weight_replication = {"text_encoder"}});
  return made;
}

/// One rank: a device, a pipeline with the same weights as everybody's, and the runtime.
struct rank {
  rank(std::shared_ptr<device> target, rank_group ranks,
       std::shared_ptr<const numa_nodes> memory_nodes)
      : gpu(std::move(target)), subject(gpu, {.ranks = std::move(ranks),
                                              .memory_nodes = std::move(memory_nodes),
                                              .acquire_deadline = 20s}) {}

  [[nodiscard]] bool run_block(const std::string& path, unsigned char fill) {
    auto right = false;
    pipeline->call(path, [&](fake_module& block) {
      const auto seen = block.own_tensors().at("weight")->bytes();
      right = std::ranges::count(seen, std::byte{fill}) == std::ssize(seen);
    });
    return right;
  }

  [[nodiscard]] bool run_encoder() {
    auto right = true;
    for (std::size_t i = 0; i != encoder_blocks; ++i)
      right = run_block("text_encoder.block." + std::to_string(i),
                        static_cast<unsigned char>(100 + i)) &&
              right;
    return right;
  }

  [[nodiscard]] bool run_step() {
    auto right = true;
    for (std::size_t i = 0; i != dit_blocks; ++i)
      right = run_block("transformer.blocks." + std::to_string(i),
                        static_cast<unsigned char>(10 + i)) &&
              right;
    return right;
  }

  [[nodiscard]] bool request(int steps) {
    auto right = begin(steps).has_value() && run_encoder();
    for (int step = 0; step != steps; ++step)
      right = run_step() && right;
    return subject.end_request() && right;
  }

  [[nodiscard]] result<request_id> begin(int steps) {
    return subject.begin_request({.steps = static_cast<std::uint32_t>(steps)});
  }

  std::shared_ptr<device> gpu;
  std::shared_ptr<fake_pipeline> pipeline = model();
  runtime subject;
};

enum class kind { sim, host };

/// Ranks that are threads of this process.
class group {
public:
  explicit group(int size, kind what, sim_options sim = {},
                 const std::shared_ptr<const numa_nodes>& memory_nodes = nullptr,
                 gather_pipelining pipelining = gather_pipelining::overlapped) {
    auto meetings = make_memory_rendezvous(size);
    std::vector<std::unique_ptr<communicator>> ends;
    std::vector<std::shared_ptr<device>> devices;
    if (what == kind::sim) {
      machine_ = make_sim_machine(7);
      std::vector<sim_device*> raw;
      for (int i = 0; i != size; ++i) {
        sims_.push_back(std::make_shared<sim_device>(machine_, "rank" + std::to_string(i), sim));
        devices.push_back(sims_.back());
        raw.push_back(sims_.back().get());
      }
      ends = make_sim_communicators(raw, 20s);
    } else {
      std::vector<host_device*> raw;
      for (int i = 0; i != size; ++i) {
        auto made =
            std::make_shared<host_device>(host_device_options{.memory = std::size_t{1} << 20});
        raw.push_back(made.get());
        devices.push_back(std::move(made));
      }
      ends = make_host_communicators(raw, 20s);
    }
    for (std::size_t i = 0; i != devices.size(); ++i)
      ranks_.push_back(std::make_unique<rank>(devices[i],
                                              rank_group{.meeting = std::move(meetings[i]),
                                                         .gathers = std::move(ends[i]),
                                                         .patience = 20s,
                                                         .pipelining = pipelining},
                                              memory_nodes));
  }

  [[nodiscard]] rank& operator[](std::size_t i) { return *ranks_[i]; }
  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  [[nodiscard]] sim_device& sim(std::size_t i) { return *sims_[i]; }
  [[nodiscard]] std::size_t races() const {
    std::size_t all = 0;
    for (const auto& each : sims_)
      all += each->race_count();
    return all;
  }

  /// Runs `act` for every rank, on a thread each. Returns whether it is true for all.
  bool all(const std::function<bool(rank&, std::size_t)>& act) {
    std::vector<std::thread> threads;
    std::atomic<std::size_t> right = 0;
    for (std::size_t i = 0; i != size(); ++i)
      threads.emplace_back([&, i] { right += act(*ranks_[i], i) ? 1 : 0; });
    for (auto& each : threads)
      each.join();
    return right == size();
  }

private:
  std::shared_ptr<sim_machine> machine_;
  std::vector<std::shared_ptr<sim_device>> sims_;
  std::vector<std::unique_ptr<rank>> ranks_;
};

offload_config config_of(std::string_view text, std::size_t chunk = std::size_t{64} << 20) {
  auto made = test::compact(text);
  made.chunk_bytes = chunk;
  return made;
}

TEST_CASE("ranks gather their blocks from each other, and every block has its bytes",
          "[actors][ranks]") {
  const auto size = GENERATE(2, 3, 4);
  const auto what = GENERATE(kind::sim, kind::host);
  const auto* text = GENERATE(gathered, all_gathered);
  const auto chunk = GENERATE(std::size_t{64} << 20, std::size_t{1024});
  CAPTURE(size, what == kind::sim, text, chunk);
  group ranks(size, what);

  CHECK(ranks.all([&](rank& own, std::size_t) {
    auto right = own.subject.start() && own.subject.enable(own.pipeline, config_of(text, chunk)) &&
                 own.request(3) && own.request(2);
    const auto state = own.subject.state().value();
    right = right && state.collectives > 0 && state.tickets_in_flight == 0;
    return own.subject.disable() && own.pipeline->hook_count() == 0 && own.run_encoder() &&
           own.run_step() && right;
  }));
  CHECK(ranks.races() == 0);
}

TEST_CASE("all ranks make the same gathers, and each copies its part alone", "[actors][ranks]") {
  group ranks(4, kind::sim);
  std::vector<offload_state> states(4);
  REQUIRE(ranks.all([&](rank& own, std::size_t i) {
    const auto right = own.subject.start() &&
                       own.subject.enable(own.pipeline, config_of(all_gathered)) && own.request(4);
    states[i] = own.subject.state().value();
    return right;
  }));

  for (std::size_t i = 0; i != 4; ++i) {
    CHECK(states[i].collectives == states[0].collectives);
    const auto counters = ranks.sim(i).counters();
    CHECK(counters.h2d_bytes == ranks.sim(0).counters().h2d_bytes);
    CHECK(counters.h2d_bytes * 4 == states[i].gathered_bytes);
    CHECK(counters.d2h_bytes == 0);
  }
}

/// Returns for how long in all a rank copied something while it gathered something.
nanoseconds copied_while_gathering(const sim_device& gpu) {
  nanoseconds both{};
  const auto timeline = gpu.timeline();
  for (const auto& [copy, from, first] : timeline)
    for (const auto& [gather, on, second] : timeline)
      if (copy.kind == operation_kind::copy && gather.kind == operation_kind::gather)
        both += std::max(nanoseconds{},
                         std::min(copy.end, gather.end) - std::max(copy.start, gather.start));
  return both;
}

TEST_CASE("a rank copies a piece while it gathers the one before, unless told to work back to back",
          "[actors][ranks]") {
  const auto pipelining = GENERATE(gather_pipelining::overlapped, gather_pipelining::back_to_back);
  const auto chunk = GENERATE(std::size_t{64} << 20, std::size_t{1024});
  CAPTURE(chunk);
  sim_options slow;
  slow.h2d_bandwidth = 40e6; // A part takes about as long as its gather.
  group ranks(2, kind::sim, slow, nullptr, pipelining);

  REQUIRE(ranks.all([&](rank& own, std::size_t) {
    return own.subject.start() && own.subject.enable(own.pipeline, config_of(gathered, chunk)) &&
           own.request(3) && own.subject.disable();
  }));

  CHECK(ranks.races() == 0);
  for (std::size_t i = 0; i != ranks.size(); ++i)
    CHECK((copied_while_gathering(ranks.sim(i)) == nanoseconds{}) ==
          (pipelining == gather_pipelining::back_to_back));
}

TEST_CASE("weights that ranks share are read from the host, and not replaced while they are shared",
          "[actors][ranks]") {
  group ranks(2, kind::sim);
  const std::vector<std::byte> zeros(700 * sizeof(float));

  CHECK(ranks.all([&](rank& own, std::size_t) {
    if (!own.subject.start() || !own.subject.enable(own.pipeline, config_of(gathered)))
      return false;
    const auto refused = own.subject.update_weights(
        {.component = "transformer",
         .values = {{.name = "blocks.1.weight", .shape = {700}, .bytes = zeros, .owner = {}}}});
    const auto read = own.subject.read_weights("transformer", {"blocks.1.weight"});
    return !refused && refused.error().code == errc::unsupported && read &&
           read->values.front().bytes.front() == std::byte{11} && own.request(1);
  }));
}

TEST_CASE("each rank counts those of its parts that lie on another node than its device's",
          "[actors][ranks][B75]") {
  const auto kernel = std::make_shared<test::fake_numa_kernel>();
  group ranks(2, kind::sim, test::near_to(1), test::nodes_listed("0-1", kernel));

  CHECK(ranks.all([&](rank& own, std::size_t) {
    return own.subject.start() && own.subject.enable(own.pipeline, config_of(all_gathered)) &&
           own.subject.state()->misplaced_stores == dit_blocks + encoder_blocks && own.request(1);
  }));
}

TEST_CASE("one rank alone copies its blocks whole and gathers nothing", "[actors][ranks]") {
  group ranks(1, kind::sim);
  auto& own = ranks[0];
  REQUIRE(own.subject.start());

  REQUIRE(own.subject.enable(own.pipeline, config_of(all_gathered)));

  CHECK(own.request(2));
  CHECK(own.subject.state()->collectives == 0);
}

TEST_CASE("ranks that differ all refuse to start, naming who differs and in what",
          "[actors][ranks]") {
  group ranks(3, kind::sim);
  std::vector<failure> reasons(3);

  CHECK(ranks.all([&](rank& own, std::size_t i) {
    if (!own.subject.start())
      return false;
    const auto refused =
        own.subject.enable(own.pipeline, config_of(gathered, i == 2 ? 2048 : 1024 * 3));
    reasons[i] = refused ? failure{} : refused.error();
    return !refused && own.pipeline->hook_count() == 0 && own.run_step();
  }));

  for (const auto& each : reasons) {
    CHECK(each == reasons[0]);
    CHECK(each.code == errc::invalid_config);
    CHECK(each.rank == 2);
    CHECK_THAT(each.detail, Catch::Contains("rank 2 has configuration"));
  }
}

TEST_CASE("a rank that cannot start fails all ranks at once with its cause", "[actors][ranks]") {
  group ranks(3, kind::sim);
  std::vector<failure> reasons(3);
  const auto begun = std::chrono::steady_clock::now();

  CHECK(ranks.all([&](rank& own, std::size_t i) {
    if (!own.subject.start())
      return false;
    if (i == 1)
      ranks.sim(1).inject({.call = device_call::allocate});
    const auto refused = own.subject.enable(own.pipeline, config_of(gathered));
    reasons[i] = refused ? failure{} : refused.error();
    return !refused && own.pipeline->hook_count() == 0 && own.run_step() &&
           !own.subject.enable(own.pipeline, config_of(gathered));
  }));

  CHECK(std::chrono::steady_clock::now() - begun < 10s);
  for (const auto& each : reasons) {
    CHECK(each.code == reasons[1].code);
    CHECK_THAT(each.detail, Catch::Contains(reasons[1].detail));
  }
  CHECK(reasons[0].rank == 1);
  CHECK(ranks.sim(0).counters().device_bytes == 0);
}

TEST_CASE("a configured group that is not the real one is refused on every rank",
          "[actors][ranks]") {
  group ranks(2, kind::sim);
  CHECK(ranks.all([&](rank& own, std::size_t) {
    auto config = config_of(gathered);
    config.group_size = 4;
    const auto refused =
        own.subject.start() ? own.subject.enable(own.pipeline, config) : result<void>{};
    return !refused && refused.error().detail.find(
                           "configured group has 4 ranks, and there are 2") != std::string::npos;
  }));
}

TEST_CASE("a rank that fails in a step ends the step of all ranks with its cause",
          "[actors][ranks]") {
  const auto what = GENERATE(kind::sim, kind::host);
  group ranks(3, what);
  std::atomic<int> told = 0;

  CHECK(ranks.all([&](rank& own, std::size_t i) {
    if (!own.subject.start() || !own.subject.enable(own.pipeline, config_of(gathered)) ||
        !own.request(1) || !own.begin(1))
      return false;
    if (i == 1) { // As a process that ends: without a word to the others.
      static_cast<void>(own.subject.stop(10s));
      return true;
    }
    try {
      while (own.run_step())
        continue;
      return false;
    } catch (const ferry_error& e) {
      told += e.reason().rank == 1 ? 1 : 0;
    }
    return own.subject.stop(10s) && own.pipeline->hook_count() == 0 && own.run_step();
  }));

  CHECK(told == 2);
}

/// Returns whether all ranks saw the right bytes in a life without `forgotten`: two requests, one
/// of which leaves blocks out, and a disable while blocks are on their way.
bool life_without(std::string_view forgotten, std::size_t& races, std::set<std::string>* seen) {
  group ranks(2, kind::sim);
  for (std::size_t i = 0; i != ranks.size() && !forgotten.empty(); ++i)
    ranks.sim(i).forget(forgotten);
  const auto right = ranks.all([&](rank& own, std::size_t) {
    try {
      auto good = own.subject.start() &&
                  own.subject.enable(own.pipeline, config_of(gathered, 1024)) && own.request(3) &&
                  own.begin(3) && own.run_step();
      good = good && own.run_block("transformer.blocks.3", 13) && own.run_encoder();
      return own.subject.end_request() && own.subject.disable() && good;
    } catch (const ferry_error&) {
      return false;
    }
  });
  races = ranks.races();
  if (seen != nullptr)
    for (std::size_t i = 0; i != ranks.size(); ++i)
      for (const auto& edge : ranks.sim(i).edges_seen())
        seen->insert(edge);
  return right;
}

/// Returns how many races there are if rank 0 fails to copy anything from its `nth` copy on, while
/// gathers are under way, and everybody stops.
std::size_t races_after_failure(std::string_view forgotten, std::uint64_t nth) {
  group ranks(2, kind::sim);
  for (std::size_t i = 0; i != ranks.size() && !forgotten.empty(); ++i)
    ranks.sim(i).forget(forgotten);
  ranks.all([&](rank& own, std::size_t i) {
    if (!own.subject.start() || !own.subject.enable(own.pipeline, config_of(all_gathered)))
      return false;
    if (i == 0)
      ranks.sim(0).inject({.call = device_call::copy, .after = nth});
    try {
      static_cast<void>(own.request(3));
    } catch (const ferry_error&) {
      // Each rank is told.
    }
    return own.subject.stop(10s).has_value();
  });
  return ranks.races();
}

TEST_CASE("without any one of its wait edges a gathering backend races or computes on wrong bytes",
          "[actors][ranks][edges]") {
  std::size_t races = 0;
  std::set<std::string> seen;
  REQUIRE(life_without("", races, &seen));
  REQUIRE(races == 0);
  for (const auto& edge : gather_wait_edges)
    CHECK(seen.contains(edge.name));

  for (const auto& edge : gather_wait_edges) {
    INFO("without the edge '" << edge.name << "' nothing goes wrong");
    auto wrong = !life_without(edge.name, races, nullptr) || races > 0;
    for (std::uint64_t nth = 0; nth != 12 && !wrong; ++nth) {
      CHECK(races_after_failure("", nth) == 0);
      wrong = races_after_failure(edge.name, nth) > 0;
    }
    CHECK(wrong);
  }
}

/// Returns the terms of a request of so many steps, with all that it runs.
wave_terms terms_of(const rank& own, int steps) {
  const auto known = own.subject.state().value().blocks;
  const auto add = [&known](std::vector<block_id>& to, const std::string& prefix) {
    for (std::size_t i = 0; i != known.size(); ++i)
      if (known[i].starts_with(prefix))
        to.push_back(block_id{static_cast<std::uint32_t>(i)});
  };
  wave_terms terms{.steps = static_cast<std::uint32_t>(steps)};
  add(terms.blocks, "text_encoder.");
  for (int step = 0; step != steps; ++step)
    add(terms.blocks, "transformer.");
  return terms;
}

/// Runs a request of the rank's own in a wave. Returns whether it saw the right bytes.
bool take_part(rank& own, int steps) {
  auto right = own.subject.begin_request(terms_of(own, steps)).has_value() && own.run_encoder();
  for (int step = 0; step != steps; ++step)
    right = own.run_step() && right;
  return own.subject.end_request() && right;
}

/// The same, cancelled by somebody else when it has run `ran` steps.
bool is_cancelled_after(rank& own, int steps, int ran) {
  const auto id = own.subject.begin_request(terms_of(own, steps));
  if (!id || !own.run_encoder())
    return false;
  for (int step = 0; step != ran; ++step)
    if (!own.run_step())
      return false;
  if (!own.subject.cancel_request(*id))
    return false;
  try {
    static_cast<void>(own.run_step());
    return false;
  } catch (const ferry_error& e) {
    return e.reason().code == errc::cancelled && own.subject.end_request();
  }
}

TEST_CASE("a request that is cancelled leaves its wave, and the others go on", "[actors][ranks]") {
  const auto what = GENERATE(kind::sim, kind::host);
  const auto* text = GENERATE(gathered, all_gathered);
  const auto ran = GENERATE(0, 2, 5);
  CAPTURE(what == kind::sim, text, ran);
  group ranks(3, what);
  std::vector<std::uint64_t> collectives(3);

  CHECK(ranks.all([&](rank& own, std::size_t i) {
    auto right = own.subject.start() && own.subject.enable(own.pipeline, config_of(text, 1024)) &&
                 take_part(own, 2);
    right = right && (i == 1 ? is_cancelled_after(own, 6, ran) : take_part(own, 6));
    right = right && take_part(own, 3);
    const auto state = own.subject.state().value();
    collectives[i] = state.collectives;
    return own.subject.disable() && right && state.tickets_in_flight == 0;
  }));

  CHECK(ranks.races() == 0);
  CHECK(collectives[1] == collectives[0]);
  CHECK(collectives[2] == collectives[0]);
}

TEST_CASE("a rank without a request sends its part to the others", "[actors][ranks]") {
  const auto what = GENERATE(kind::sim, kind::host);
  group ranks(2, what);

  // Three requests for two ranks.
  CHECK(ranks.all([&](rank& own, std::size_t i) {
    auto right = own.subject.start() && own.subject.enable(own.pipeline, config_of(all_gathered)) &&
                 take_part(own, 2);
    if (i == 0)
      right = right && take_part(own, 3);
    else
      right = right && own.subject.begin_request(terms_of(own, 3)) && own.subject.end_request();
    return right && take_part(own, 1) && own.subject.disable();
  }));

  CHECK(ranks.races() == 0);
}

TEST_CASE("requests that make no wave begin on no rank, and the next may", "[actors][ranks]") {
  group ranks(2, kind::sim);
  std::vector<failure> reasons(2);

  CHECK(ranks.all([&](rank& own, std::size_t i) {
    if (!own.subject.start() || !own.subject.enable(own.pipeline, config_of(gathered)))
      return false;
    const auto refused = own.subject.begin_request({.steps = i == 0 ? 4 : 5});
    const auto unsaid = own.subject.begin_request();
    const auto cached = own.subject.begin_request({.steps = 4, .skips_blocks = i == 1});
    if (refused || unsaid || cached)
      return false;
    reasons[i] = refused.error();
    return unsaid.error().rank == 0 && cached.error().rank == 1 && take_part(own, 4);
  }));

  CHECK(reasons[0] == reasons[1]);
  CHECK(reasons[0].code == errc::invalid_argument);
  CHECK_THAT(reasons[0].detail, Catch::Contains("rank 1 takes 5 steps, rank 0 4"));
}

TEST_CASE("a request in a wave that did not say what it runs is not cancelled alone",
          "[actors][ranks]") {
  group ranks(2, kind::sim);

  CHECK(ranks.all([&](rank& own, std::size_t) {
    if (!own.subject.start() || !own.subject.enable(own.pipeline, config_of(gathered)))
      return false;
    const auto id = own.begin(1);
    const auto refused = id ? own.subject.cancel_request(*id) : result<void>{};
    return !refused && refused.error().code == errc::unsupported && own.run_step() &&
           own.subject.end_request();
  }));
}

TEST_CASE("a rank that stops while it waits for a wave ends the wait of all", "[actors][ranks]") {
  group ranks(2, kind::host);
  const auto begun = std::chrono::steady_clock::now();

  CHECK(ranks.all([&](rank& own, std::size_t i) {
    if (!own.subject.start() || !own.subject.enable(own.pipeline, config_of(gathered)))
      return false;
    if (i == 1) // Never begins.
      return true;
    std::thread stopper{[&] {
      std::this_thread::sleep_for(100ms);
      CHECK(own.subject.stop(10s));
    }};
    const auto refused = own.subject.begin_request({.steps = 1});
    stopper.join();
    return !refused && own.pipeline->hook_count() == 0;
  }));

  CHECK(std::chrono::steady_clock::now() - begun < 10s);
  CHECK_FALSE(ranks[1].begin(1));
}

} // namespace
} // namespace ferry
