// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/wait_edges.hpp>

#include "support/catch.hpp"
#include "support/rank_team.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using namespace test;
using group = rank_team;

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

/// A rank's end that waits in each gather until it is told to go on, as NCCL may.
class waiting_communicator final : public communicator {
public:
  explicit waiting_communicator(std::shared_ptr<communicator> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] int rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_->size(); }
  void all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                  operation_tag tag) override {
    come_.test_and_set();
    come_.notify_all();
    go_on_.wait(false);
    inner_->all_gather(stream, output, shard, tag);
  }
  void abort(const failure& cause) noexcept override { inner_->abort(cause); }
  [[nodiscard]] std::optional<failure> asynchronous_failure() const override {
    return inner_->asynchronous_failure();
  }

  void await_gather() const { come_.wait(false); }
  void go_on() {
    go_on_.test_and_set();
    go_on_.notify_all();
  }

private:
  std::shared_ptr<communicator> inner_;
  std::atomic_flag come_;
  std::atomic_flag go_on_;
};

TEST_CASE("a gather that waits for other ranks holds up no other actor, and a stop ends in time",
          "[actors][ranks]") {
  auto ends = sim_ranks(2, 2s);
  std::vector<std::shared_ptr<waiting_communicator>> waiting;
  std::vector<std::unique_ptr<rank>> ranks;
  for (auto& [gpu, own] : ends) {
    waiting.push_back(std::make_shared<waiting_communicator>(own.gathers));
    own.gathers = waiting.back();
    ranks.push_back(std::make_unique<rank>(gpu, own));
  }
  std::vector<std::thread> models;
  for (auto& own : ranks)
    models.emplace_back([&own] {
      try {
        static_cast<void>(own->subject.start() &&
                          own->subject.enable(own->pipeline, config_of(all_gathered)) &&
                          own->request(1));
      } catch (const ferry_error&) {
        // The stop of a rank ended the run of both.
      }
    });
  waiting[0]->await_gather();

  const auto stopped = ranks[0]->subject.stop(1s);

  for (auto& each : waiting)
    each->go_on();
  for (auto& model : models)
    model.join();
  REQUIRE_FALSE(stopped);
  CHECK_THAT(stopped.error().detail, Catch::StartsWith("late to stop: "));
  const auto again = ranks[0]->subject.stop(10s);
  INFO((again ? std::string() : again.error().detail));
  CHECK(again);
}

TEST_CASE("a rank that stops does not wait for one that never comes to a gather",
          "[actors][ranks]") {
  const auto what = GENERATE(kind::sim, kind::host);
  CAPTURE(what == kind::sim);
  group ranks(2, what);
  std::latch over{1};
  std::chrono::steady_clock::duration took{};

  CHECK(ranks.all([&](rank& own, std::size_t i) {
    if (!own.subject.start() || !own.subject.enable(own.pipeline, config_of(all_gathered)) ||
        !own.begin(1))
      return false;
    if (i == 1) {
      over.wait();
      return true;
    }
    // Both ranks have come to the first two. On the simulated device nothing runs there by itself.
    if (what == kind::host) {
      CHECK(own.run_block("text_encoder.block.0", 100));
      while (own.subject.state()->collectives < 3)
        std::this_thread::yield();
    }
    const auto from = std::chrono::steady_clock::now();
    const auto stopped = own.subject.stop(1s);
    took = std::chrono::steady_clock::now() - from;
    over.count_down();
    INFO((stopped ? std::string() : stopped.error().detail));
    CHECK(stopped);
    return has_own_bytes(*own.pipeline);
  }));

  CHECK(took < 1s);
}

/// A rank's end that gets no further in its first gather until the group has failed, as NCCL may.
class stuck_communicator final : public communicator {
public:
  explicit stuck_communicator(std::shared_ptr<communicator> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] int rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_->size(); }
  void all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                  operation_tag tag) override {
    come_.count_down();
    failed_.wait();
    inner_->all_gather(stream, output, shard, tag); // Which is refused.
  }
  void abort(const failure& cause) noexcept override {
    inner_->abort(cause);
    if (!said_.test_and_set())
      failed_.count_down();
  }
  [[nodiscard]] std::optional<failure> asynchronous_failure() const override {
    return inner_->asynchronous_failure();
  }

  void await_gather() const { come_.wait(); }

private:
  std::shared_ptr<communicator> inner_;
  std::atomic_flag said_;
  std::latch come_{1};
  std::latch failed_{1};
};

/// Two ranks in a wave, of which rank 0 is stuck in its first gather.
class stuck_pair {
public:
  stuck_pair() {
    ends_[0].group.gathers = stuck_;
    for (auto& [gpu, group] : ends_)
      ranks_.push_back(std::make_unique<rank>(gpu, std::move(group)));
    std::thread peer{[this] { CHECK(begin(*ranks_[1])); }};
    CHECK(begin(*ranks_[0]));
    peer.join();
    stuck_->await_gather();
  }

  [[nodiscard]] rank& operator[](std::size_t i) { return *ranks_[i]; }

private:
  static bool begin(rank& own) {
    return own.subject.start() && own.subject.enable(own.pipeline, config_of(all_gathered)) &&
           own.begin(1);
  }

  std::vector<rank_ends> ends_ = sim_ranks(2);
  std::shared_ptr<stuck_communicator> stuck_ =
      std::make_shared<stuck_communicator>(ends_[0].group.gathers);
  std::vector<std::unique_ptr<rank>> ranks_;
};

TEST_CASE("a rank that stops ends its wait in the call of a gather", "[actors][ranks]") {
  stuck_pair ranks;

  const auto from = std::chrono::steady_clock::now();
  const auto stopped = ranks[0].subject.stop(1s);

  INFO((stopped ? std::string() : stopped.error().detail));
  CHECK(stopped);
  CHECK(std::chrono::steady_clock::now() - from < 1s);
  CHECK(has_own_bytes(*ranks[0].pipeline));
}

TEST_CASE("a rank that goes no further ends its wait in the call of a gather, and that of the "
          "others",
          "[actors][ranks][waves]") {
  stuck_pair ranks;
  const failure broke{.code = errc::internal, .detail = "no such luck", .rank = 0};

  const auto from = std::chrono::steady_clock::now();
  CHECK(ranks[0].subject.leave_ranks(broke) == broke);

  try {
    static_cast<void>(ranks[1].run_encoder());
    FAIL("rank 1 went on");
  } catch (const ferry_error& told) {
    CHECK(told.reason().rank == 0);
    CHECK_THAT(told.reason().detail, Catch::Contains("no such luck"));
  }
  CHECK(std::chrono::steady_clock::now() - from < 5s);
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
    return !refused && refused.error().code == errc::unsupported &&
           refused.error().detail.find("change them on every rank") != std::string::npos && read &&
           read->values.front().bytes.front() == std::byte{11} && own.request(1);
  }));
}

TEST_CASE("together, ranks pin one copy of what they gather, and the alignment of each part",
          "[actors][ranks][B68]") {
  constexpr std::size_t model = (dit_blocks * 700 + encoder_blocks * 300) * sizeof(float);
  constexpr std::size_t alignment = 256;
  const auto size = GENERATE(2, 3, 4);
  group ranks(size, kind::sim);

  REQUIRE(ranks.all([&](rank& own, std::size_t) {
    return own.subject.start() && own.subject.enable(own.pipeline, config_of(all_gathered)) &&
           own.request(2);
  }));

  std::uint64_t pinned = 0;
  for (std::size_t i = 0; i != ranks.size(); ++i)
    pinned += ranks.sim(i).counters().peak_pinned_bytes;
  CHECK(pinned >= model);
  CHECK(pinned <= model + (dit_blocks + encoder_blocks) * ranks.size() * alignment);
}

TEST_CASE("empty tensors are neither sharded nor gathered, and their blocks are right",
          "[actors][ranks][B73]") {
  group ranks(3, GENERATE(kind::sim, kind::host));

  CHECK(ranks.all([&](rank& own, std::size_t) {
    for (const auto* path : {"transformer.blocks.0", "text_encoder.block.1"})
      own.pipeline->tree()
          ->at(path)
          ->parameter("none", tensor({0, 16}, dtype::f32))
          ->buffer("nothing", tensor({0}, dtype::f32));
    return own.subject.start() && own.subject.enable(own.pipeline, config_of(all_gathered)) &&
           own.request(2) && own.subject.disable() && own.run_encoder() && own.run_step();
  }));
  CHECK(ranks.races() == 0);
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

TEST_CASE("a denoiser with resident layers goes with an encoder that ranks gather",
          "[actors][ranks]") {
  const auto what = GENERATE(kind::sim, kind::host);
  group ranks(2, what);

  CHECK(ranks.all([&](rank& own, std::size_t) {
    auto right = own.subject.start() &&
                 own.subject.enable(own.pipeline, config_of(resident_head, 1024)) &&
                 own.request(3) && own.request(1);
    const auto state = own.subject.state().value();
    right =
        right && state.components.at("transformer").resident_blocks == 2 && state.collectives > 0;
    return own.subject.disable() && has_own_bytes(*own.pipeline) && right;
  }));
  CHECK(ranks.races() == 0);
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
    CHECK_THAT(each.detail,
               Catch::Contains("rank 2 has configuration with chunk_bytes 2048 (rank 0: 3072)"));
  }
}

/// Enables every rank, which all refuse. Returns why.
std::vector<failure> refusals_of(group& ranks) {
  std::vector<failure> reasons(ranks.size());
  CHECK(ranks.all([&](rank& own, std::size_t i) {
    if (!own.subject.start())
      return false;
    const auto refused = own.subject.enable(own.pipeline, config_of(all_gathered));
    reasons[i] = refused ? failure{} : refused.error();
    return !refused && own.pipeline->hook_count() == 0;
  }));
  return reasons;
}

fake_tensor& weight_of(rank& own, const std::string& block) {
  return *own.pipeline->tree()->at(block)->own_tensors().at("weight");
}

TEST_CASE("ranks with other weights all refuse to start, naming who differs and in which block",
          "[actors][ranks]") {
  group ranks(3, GENERATE(kind::sim, kind::host));
  ranks[1].pipeline = rank_model(11);

  for (const auto& each : refusals_of(ranks)) {
    CHECK(each.code == errc::invalid_config);
    CHECK(each.rank == 1);
    CHECK_THAT(each.detail, Catch::Contains("rank 1 has other weights in transformer.blocks.0"));
    CHECK_THAT(each.detail, !Catch::Contains("rank 2"));
  }
}

TEST_CASE("ranks with equal bytes of another type or shape all refuse to start",
          "[actors][ranks]") {
  group ranks(2, kind::sim);
  const auto is_type = GENERATE(true, false);
  for (std::size_t i = 0; i != 2; ++i) {
    auto& weight = weight_of(ranks[i], "transformer.blocks.2");
    weight.type = i == 1 && is_type ? dtype::f16 : dtype::bf16;
    weight.shape = i == 1 && !is_type ? std::vector<std::int64_t>{14, 100}
                                      : std::vector<std::int64_t>{100, 14};
    weight.strides = {weight.shape[1], 1};
  }

  for (const auto& each : refusals_of(ranks)) {
    CHECK(each.rank == 1);
    CHECK_THAT(each.detail, Catch::Contains("rank 1 has other weights in transformer.blocks.2"));
  }
}

TEST_CASE("ranks that differ in a tensor beside gathered blocks all refuse to start, naming it",
          "[actors][ranks]") {
  group ranks(2, kind::sim);
  for (std::size_t i = 0; i != 2; ++i)
    ranks[i]
        .pipeline->tree()
        ->at("transformer")
        ->parameter("norm", tensor({16}, dtype::f32, static_cast<unsigned char>(i)));

  for (const auto& each : refusals_of(ranks)) {
    CHECK(each.code == errc::invalid_config);
    CHECK(each.rank == 1);
    CHECK_THAT(each.detail, Catch::Contains("rank 1 has other weights in transformer.norm"));
  }
}

TEST_CASE("ranks may differ in weights that they do not gather", "[actors][ranks]") {
  group ranks(2, kind::sim);
  weight_of(ranks[1], "text_encoder.block.1").storage->bytes[0] = std::byte{1};

  CHECK(ranks.all([&](rank& own, std::size_t) {
    return own.subject.start() && own.subject.enable(own.pipeline, config_of(gathered)) &&
           own.subject.disable();
  }));
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

TEST_CASE("a rank that stops while it waits for the vote ends its start and that of all at once",
          "[actors][ranks]") {
  group ranks(2, kind::host);
  const auto begun = std::chrono::steady_clock::now();

  CHECK(ranks.all([&](rank& own, std::size_t i) {
    if (!own.subject.start())
      return false;
    if (i == 1) // Comes late.
      std::this_thread::sleep_for(500ms);
    std::thread stopper{[&] {
      std::this_thread::sleep_for(200ms);
      if (i == 0)
        CHECK(own.subject.stop(10s));
    }};
    const auto refused = own.subject.enable(own.pipeline, config_of(gathered));
    stopper.join();
    return !refused && own.pipeline->hook_count() == 0;
  }));

  CHECK(std::chrono::steady_clock::now() - begun < 10s);
}

TEST_CASE("a rank that has nothing to offload fails all ranks at once, naming it",
          "[actors][ranks]") {
  const auto without = GENERATE(0, 1, 2);
  const auto by_itself = GENERATE(false, true);
  CAPTURE(without, by_itself);
  group ranks(3, kind::sim);
  std::vector<failure> reasons(3);
  fake_model_offload own_offload;
  const auto begun = std::chrono::steady_clock::now();

  CHECK(ranks.all([&](rank& own, std::size_t i) {
    auto config = config_of(gathered);
    if (static_cast<int>(i) == without) {
      config =
          by_itself ? config_of(R"({"mode":"module","components":["dit"]})") : offload_config{};
      if (by_itself)
        own.pipeline->offloads_itself(own_offload);
    }
    const auto refused =
        own.subject.start() ? own.subject.enable(own.pipeline, config) : result<void>{};
    reasons[i] = refused ? failure{} : refused.error();
    return !refused && own.pipeline->hook_count() == 0 && own.run_step();
  }));

  CHECK(std::chrono::steady_clock::now() - begun < 10s);
  for (const auto& each : reasons) {
    CHECK(each == reasons[0]);
    CHECK(each.code == errc::invalid_config);
    CHECK(each.rank == std::max(without, 1)); // Rank 0 counts as right.
    CHECK_THAT(each.detail, Catch::Contains("rank " + std::to_string(std::max(without, 1)) +
                                            " has configuration"));
  }
  const auto calls = std::vector<std::string>{"enable", "disable"};
  CHECK(own_offload.calls == (by_itself ? calls : std::vector<std::string>{}));
}

TEST_CASE("ranks that all have nothing to offload agree on that", "[actors][ranks]") {
  group ranks(2, kind::sim);

  CHECK(ranks.all([&](rank& own, std::size_t) {
    return own.subject.start() && own.subject.enable(own.pipeline, offload_config{}) &&
           !own.subject.state()->enabled && own.run_step() &&
           own.subject.enable(own.pipeline, config_of(gathered)) && own.request(1);
  }));
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

/// What came of a life in which every rank makes the same calls, whatever bytes it sees.
struct life {
  bool right = false; ///< Every rank saw the right bytes all the time, and nothing raced.
  std::vector<std::optional<failure>> failed;
  std::set<std::string> edges_seen;
};

/// Lets two ranks live without `forgotten`: two requests, one of which leaves blocks out, and a
/// disable while blocks are on their way.
life life_without(std::string_view forgotten) {
  group ranks(2, kind::sim);
  for (std::size_t i = 0; i != ranks.size() && !forgotten.empty(); ++i)
    ranks.sim(i).forget(forgotten);
  const auto must = [](const auto& outcome) {
    if (!outcome)
      throw ferry_error{outcome.error()};
  };
  life lived;
  lived.failed.resize(ranks.size());
  lived.right = ranks.all([&](rank& own, std::size_t i) {
    auto right = true;
    const auto see = [&right](bool good) { right = right && good; };
    try {
      must(own.subject.start());
      must(own.subject.enable(own.pipeline, config_of(gathered, 1024)));
      must(own.begin(3));
      see(own.run_encoder());
      for (int step = 0; step != 3; ++step)
        see(own.run_step());
      must(own.subject.end_request());
      must(own.begin(3));
      see(own.run_step());
      see(own.run_block("transformer.blocks.3", 13));
      see(own.run_encoder());
      must(own.subject.end_request());
      must(own.subject.disable());
    } catch (const ferry_error& e) {
      lived.failed[i] = e.reason();
    }
    return right;
  });
  lived.right = lived.right && ranks.races() == 0;
  for (std::size_t i = 0; i != ranks.size(); ++i)
    for (const auto& edge : ranks.sim(i).edges_seen())
      lived.edges_seen.insert(edge);
  return lived;
}

/// Checks that every rank got to the end.
void check_unfailed(const life& lived) {
  for (const auto& each : lived.failed) {
    INFO((each ? describe(*each) : "done"));
    CHECK_FALSE(each);
  }
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
  const auto whole = life_without("");
  REQUIRE(whole.right);
  check_unfailed(whole);
  for (const auto& edge : gather_wait_edges)
    CHECK(whole.edges_seen.contains(edge.name));

  for (const auto& edge : gather_wait_edges) {
    INFO("without the edge '" << edge.name << "' nothing goes wrong");
    const auto lived = life_without(edge.name);
    check_unfailed(lived);
    auto wrong = !lived.right;
    for (std::uint64_t nth = 0; nth != 12 && !wrong; ++nth) {
      CHECK(races_after_failure("", nth) == 0);
      wrong = races_after_failure(edge.name, nth) > 0;
    }
    CHECK(wrong);
  }
}

TEST_CASE("ranks gather in groups that are no neighbours", "[actors][ranks][B93]") {
  // Four ranks as two by two: 0 with 2, 1 with 3.
  auto even = sim_ranks(2);
  auto odd = sim_ranks(2);
  std::vector<std::unique_ptr<rank>> ranks;
  for (auto* const pair : {&even, &odd})
    for (auto& each : *pair)
      ranks.push_back(std::make_unique<rank>(each.gpu, std::move(each.group)));
  std::swap(ranks[1], ranks[2]);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (auto& each : ranks)
    threads.emplace_back([&right, &own = *each] {
      right += own.subject.start() && own.subject.enable(own.pipeline, config_of(all_gathered)) &&
                       own.request(2) && own.subject.disable()
                   ? 1
                   : 0;
    });
  for (auto& each : threads)
    each.join();

  CHECK(right == 4);
  for (const auto& each : {std::cref(even), std::cref(odd)})
    for (const auto& own : each.get())
      CHECK(own.gpu->race_count() == 0);
}

/// How enabling ended on a rank.
struct enabled_end {
  result<void> outcome;
  device_counters then; ///< Of its device, while the runtime still runs.
};

/// Returns how enabling ended on each of `size` ranks, of which rank 1 may pin nothing.
std::vector<enabled_end> enabled_without_pins(int size, pin_failure_policy policy) {
  auto ends = sim_ranks(size);
  std::vector<std::unique_ptr<rank>> ranks;
  for (std::size_t i = 0; i != ends.size(); ++i)
    ranks.push_back(
        std::make_unique<rank>(ends[i].gpu, std::move(ends[i].group), nullptr,
                               i == 1 ? std::optional<std::uint64_t>{1} : std::nullopt));
  std::vector<enabled_end> outcomes(ends.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i != ends.size(); ++i)
    threads.emplace_back([&, i] {
      auto& own = *ranks[i];
      auto config = config_of(all_gathered);
      config.on_pin_failure = policy;
      outcomes[i].outcome =
          own.subject.start().and_then([&] { return own.subject.enable(own.pipeline, config); });
      outcomes[i].then = own.gpu->counters();
      if (outcomes[i].outcome)
        CHECK((own.request(2) &&
               own.subject.state()->pageable_stores == (i == 1 ? dit_blocks + encoder_blocks : 0)));
      CHECK(own.subject.stop(10s));
      CHECK(has_own_bytes(*own.pipeline));
    });
  for (auto& each : threads)
    each.join();
  return outcomes;
}

TEST_CASE("a block that is staged behind a gather waits for a slow rank as long as the gather does",
          "[actors][ranks]") {
  auto ends = sim_ranks(2);
  auto config = config_of(gathered, 512);
  config.pin_budget_bytes = 4 * config.chunk_bytes;
  config.on_pin_failure = pin_failure_policy::whole_block_fallback;
  std::array<std::optional<failure>, 2> failed;
  std::array<std::size_t, 2> staged{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i != 2; ++i)
    threads.emplace_back([&, i] {
      const auto pipeline = rank_model();
      runtime subject{ends[i].gpu,
                      {.ranks = ends[i].group, .acquire_deadline = 2s, .request_deadline = 2s}};
      const auto run = [&](const char* block) { pipeline->call(block, [](fake_module&) {}); };
      const auto begun =
          subject.start().and_then([&] { return subject.enable(pipeline, config); }).and_then([&] {
            return subject.begin_request({.steps = 1});
          });
      if (!begun) {
        failed.at(i) = begun.error();
        return;
      }
      staged.at(i) = subject.state()->staged_stores;
      if (i == 1) // Longer than a question may take.
        std::this_thread::sleep_for(3s);
      try {
        for (const auto* each : {"text_encoder.block.0", "transformer.blocks.0",
                                 "transformer.blocks.1", "text_encoder.block.1"})
          run(each);
      } catch (const ferry_error& e) {
        failed.at(i) = e.reason();
      }
    });
  for (auto& each : threads)
    each.join();

  for (std::size_t i = 0; i != 2; ++i) {
    INFO((failed.at(i) ? describe(*failed.at(i)) : "done"));
    CHECK_FALSE(failed.at(i));
    CHECK(staged.at(i) == encoder_blocks);
  }
}

TEST_CASE("a request that ends early ends although what it stages is behind the gathers of a slow "
          "rank",
          "[actors][ranks]") {
  auto ends = sim_ranks(2);
  auto config = config_of(gathered, 512);
  config.pin_budget_bytes = 4 * config.chunk_bytes;
  config.on_pin_failure = pin_failure_policy::whole_block_fallback;
  std::array<bool, 2> right{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i != 2; ++i)
    threads.emplace_back([&, i] {
      rank own{ends[i].gpu, std::move(ends[i].group), nullptr, std::nullopt, 2s};
      if (!own.subject.start() || !own.subject.enable(own.pipeline, config))
        return;
      auto terms = terms_of(own, 1);
      std::ranges::rotate(terms.blocks, terms.blocks.begin() + encoder_blocks);
      if (!own.subject.begin_request(terms))
        return;
      auto good = true;
      if (i == 1) { // Longer than a question may take.
        std::this_thread::sleep_for(3s);
        good = own.run_step() && own.run_encoder();
      }
      const auto ended = own.subject.end_request();
      INFO((ended ? "ended" : describe(ended.error())));
      CHECK(ended);
      right.at(i) = good && own.subject.disable();
    });
  for (auto& each : threads)
    each.join();

  CHECK(right == std::array<bool, 2>{true, true});
}

TEST_CASE("a rank that may not pin its parts sends them from where they are, and the others keep "
          "theirs pinned",
          "[actors][ranks]") {
  const auto ends = enabled_without_pins(3, pin_failure_policy::whole_block_fallback);

  for (const auto& each : ends)
    CHECK(each.outcome);
  CHECK(ends[1].then.peak_pinned_bytes == 0);
  CHECK(ends[0].then.pinned_bytes > 0);
  CHECK(ends[2].then.pinned_bytes == ends[0].then.pinned_bytes);
}

TEST_CASE("a rank that may not pin its parts, and must, allocates nothing and fails all ranks "
          "before a gather, and none keeps what it allocated",
          "[actors][ranks]") {
  const auto ends = enabled_without_pins(3, pin_failure_policy::fail);

  for (const auto& each : ends) {
    REQUIRE_FALSE(each.outcome);
    CHECK(each.outcome.error().code == errc::out_of_host_memory);
    CHECK(each.then.device_bytes == 0);
    CHECK(each.then.pinned_bytes == 0);
    CHECK(each.then.registered_bytes == 0);
  }
  CHECK(ends[0].outcome.error().rank == 1);
  CHECK(ends[2].outcome.error().rank == 1);
  CHECK(ends[0].then.allocations > 0);
  CHECK(ends[1].then.allocations == 0);
}

} // namespace
} // namespace ferry
