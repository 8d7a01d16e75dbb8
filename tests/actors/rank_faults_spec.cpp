// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/catch.hpp"
#include "support/leased_model.hpp"
#include "support/life_plans.hpp"
#include "support/rank_team.hpp"
#include "support/supervised_life.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using namespace test;

/// What the ranks of a sweep offload.
struct way {
  std::string name;
  offload_config config;
  bool leased = false; ///< The denoiser's blocks lie in files of a lease.
};

way everything_gathered(std::size_t chunk = 2048) {
  return {"all gathered", config_of(all_gathered, chunk)};
}

/// Nothing but the staging buffers is pinned.
offload_config unpinned(offload_config config) {
  config.chunk_bytes = 512;
  config.pin_budget_bytes = 4 * config.chunk_bytes;
  config.on_pin_failure = pin_failure_policy::whole_block_fallback;
  return config;
}

/// Gathered blocks beside others.
std::vector<way> mixed_ways() {
  return {
      {"blocks of each rank beside them", config_of(gathered, 2048)},
      {"a resident head beside them", config_of(resident_head, 2048)},
      {"staged blocks beside them", unpinned(config_of(gathered))},
      {"leased", config_of(gathered, 8192), true},
  };
}

/// What became of one rank.
struct rank_end {
  std::optional<failure> cause; ///< The first thing that failed.
  bool ordinary = false;        ///< The pipeline is, with its weights.
};

std::vector<std::string> blocks_of(const fake_pipeline& pipeline) {
  std::vector<std::string> paths;
  for (const std::string list : {"text_encoder.block", "transformer.blocks"})
    for (const auto& [name, block] : pipeline.tree()->at(list)->own_children())
      paths.push_back(list + "." + name);
  return paths;
}

/// Starts, enables, runs a request and goes.
rank_end live(rank_ends own, const way& how) {
  rank_end end;
  std::optional<leased_model> leased;
  if (how.leased)
    leased.emplace(own.gpu);
  const auto pipeline = leased ? leased->pipeline() : rank_model();
  runtime subject{own.gpu, {.ranks = std::move(own.group), .acquire_deadline = rank_patience}};
  const auto succeeds = [&end](const auto& outcome) {
    if (!outcome && !end.cause)
      end.cause = outcome.error();
    return outcome.has_value();
  };
  try {
    if (succeeds(subject.start()) &&
        succeeds(subject.enable(pipeline, how.config, leased ? leased->lease() : nullptr)) &&
        succeeds(subject.begin_request({.steps = 1}))) {
      for (const auto& each : blocks_of(*pipeline))
        pipeline->call(each, [](fake_module&) {});
      static_cast<void>(succeeds(subject.end_request()));
    }
  } catch (const ferry_error& e) {
    if (!end.cause)
      end.cause = e.reason();
  }
  auto stopped = subject.stop(10s);
  for (int tries = 0; !stopped && tries != 2; ++tries)
    stopped = subject.stop(10s);
  end.ordinary = stopped && pipeline->hook_count() == 0 &&
                 (leased ? leased->is_whole() : has_own_bytes(*pipeline));
  return end;
}

/// One fault that all ranks of a group live with.
struct ordeal {
  int size = 2;
  std::size_t whose = 0;
  nanoseconds patience = 20s; ///< Of gathers.
  way how = everything_gathered();
};

struct outcome {
  std::vector<rank_end> ends;
  std::chrono::steady_clock::duration took{};
  std::string became; ///< Of each.
};

/// Runs a life of each rank. Checks that all end soon, and nothing is left of any.
outcome live_all(std::vector<rank_ends>& ranks, const way& how) {
  outcome all{.ends = std::vector<rank_end>(ranks.size()), .took = {}, .became = {}};
  std::vector<std::shared_ptr<sim_device>> devices;
  for (const auto& each : ranks)
    devices.push_back(each.gpu);
  const auto begun = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i != ranks.size(); ++i)
    threads.emplace_back([&, i] { all.ends[i] = live(std::move(ranks[i]), how); });
  for (auto& each : threads)
    each.join();
  all.took = std::chrono::steady_clock::now() - begun;
  for (const auto& each : all.ends)
    all.became += (each.cause ? describe(*each.cause) : "done") + "; ";

  INFO(all.became);
  CHECK(all.took < 5s);
  for (std::size_t i = 0; i != devices.size(); ++i) {
    CAPTURE(i);
    CHECK(all.ends[i].ordinary);
    const auto left = devices[i]->counters();
    CHECK(left.device_bytes == 0);
    CHECK(left.pinned_bytes == 0);
    CHECK(left.registered_bytes == 0);
    CHECK(left.streams == 0);
    CHECK(left.events == 0);
  }
  return all;
}

/// Checks that whoever did not do its work says that it was rank `whose`, that one itself also. It
/// may have done its own before.
void check_blame(const std::vector<rank_end>& ends, std::size_t whose) {
  for (std::size_t i = 0; i != ends.size(); ++i) {
    if (!ends[i].cause)
      continue;
    const auto blamed = ends[i].cause->rank;
    CAPTURE(i);
    CHECK((blamed == static_cast<int>(whose) || (i == whose && !blamed)));
  }
}

/// Makes every call of a kind of one rank's device fail in turn. Returns how many of them made the
/// rank fail before it went.
std::uint64_t at_every_call(const ordeal& what, sim_fault fault) {
  std::uint64_t failed = 0;
  for (;; ++fault.after) {
    auto ranks = sim_ranks(what.size, what.patience);
    std::vector<std::shared_ptr<sim_device>> devices;
    for (const auto& each : ranks)
      devices.push_back(each.gpu);
    devices[what.whose]->inject(fault);
    INFO("device call " << fault.after << " of rank " << what.whose << " fails, effect "
                        << static_cast<int>(fault.effect) << ", " << what.how.name);

    const auto all = live_all(ranks, what.how);

    INFO(all.became);
    const auto struck = devices[what.whose]->cancel_failure();
    if (fault.effect == fault_effect::once)
      for (const auto& each : devices)
        CHECK(each->race_count() == 0);
    if (!struck) {
      for (const auto& each : all.ends)
        REQUIRE_FALSE(each.cause);
      return failed;
    }
    check_blame(all.ends, what.whose);
    const auto& own = all.ends[what.whose].cause;
    if (own && fault.call == device_call::any) {
      // Another thread of the rank may be the first to meet a device that has failed for good.
      const auto is_consequence =
          fault.effect != fault_effect::once && own->code == errc::device_poisoned;
      CHECK((own->code == fault.error || is_consequence));
      CHECK((own->detail.find("injected failure") != std::string::npos || is_consequence));
    }
    failed += own ? 1U : 0U;
  }
}

TEST_CASE("whatever device call fails on one of several ranks, all end with its cause",
          "[actors][ranks][faults]") {
  const auto whose = GENERATE(std::size_t{0}, std::size_t{1});
  const auto effect = GENERATE(fault_effect::once, fault_effect::sticky, fault_effect::deferred);

  const auto points = at_every_call({.whose = whose}, {.effect = effect});

  // What is deferred comes up when the device is waited for, at the end.
  CHECK((effect == fault_effect::deferred || points > 60));
}

TEST_CASE("whatever device call fails while ranks gather some blocks and not others, all end with "
          "its cause",
          "[actors][ranks][faults]") {
  for (const auto& how : mixed_ways()) {
    INFO(how.name);
    CHECK(at_every_call({.whose = 1, .how = how}, {}) > 60);
  }
}

TEST_CASE("whatever device call fails on one of three ranks, all end with its cause",
          "[actors][ranks][faults]") {
  const auto whose = GENERATE(std::size_t{0}, std::size_t{2});

  CHECK(at_every_call({.size = 3, .whose = whose, .how = everything_gathered(1 << 20)}, {}) > 60);
}

TEST_CASE("whatever gather a rank dies in or never comes to, all end with its cause",
          "[actors][ranks][faults]") {
  std::uint64_t points = 0;
  for (const std::size_t whose : {0U, 1U, 2U}) {
    points += at_every_call({.size = 3, .whose = whose},
                            {.call = device_call::gather, .effect = fault_effect::death});
    points += at_every_call(
        {.size = 3, .whose = whose, .patience = 300ms, .how = everything_gathered(1 << 20)},
        {.call = device_call::gather, .effect = fault_effect::absence});
  }

  CHECK(points > 25);
}

/// A rank's end of a group that ends at one of its meetings, as that of a process that is killed.
class mortal_meeting final : public rendezvous {
public:
  mortal_meeting(std::shared_ptr<rendezvous> end, int meetings)
      : end_(std::move(end)), left_(meetings), rank_(end_->rank()), size_(end_->size()) {}

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return size_; }
  [[nodiscard]] result<contributions> meet(std::string_view key, const_bytes own,
                                           nanoseconds patience) override {
    if (left_-- == 0)
      end_.reset();
    if (end_ == nullptr)
      return tl::unexpected(failure{.code = errc::cancelled, .detail = "killed", .rank = rank_});
    return end_->meet(key, own, patience);
  }
  void poison(const failure& cause) noexcept override {
    if (end_ != nullptr)
      end_->poison(cause);
  }
  [[nodiscard]] std::optional<failure> failed() noexcept override {
    return end_ == nullptr ? std::nullopt : end_->failed();
  }
  [[nodiscard]] std::vector<int> lost() noexcept override { return {}; }
  [[nodiscard]] bool died() const noexcept { return end_ == nullptr; }

private:
  std::shared_ptr<rendezvous> end_;
  int left_;
  int rank_;
  int size_;
};

TEST_CASE("whatever meeting a rank dies in, the vote among them, all end with its cause",
          "[actors][ranks][faults]") {
  const auto whose = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{2});
  for (int meetings = 0;; ++meetings) {
    CAPTURE(whose, meetings);
    auto ranks = sim_ranks(3);
    const auto mortal =
        std::make_shared<mortal_meeting>(std::move(ranks[whose].group.meeting), meetings);
    ranks[whose].group.meeting = mortal;

    const auto all = live_all(ranks, everything_gathered());

    INFO(all.became);
    check_blame(all.ends, whose);
    if (!mortal->died()) {
      CHECK(meetings == 2); // The vote, and the wave of the request.
      break;
    }
    for (const auto& each : all.ends)
      CHECK(each.cause);
    CHECK(all.ends[whose].cause->code == errc::cancelled);
  }
}

/// What became of a rank of which, or of another of which, a message failed.
struct life_end {
  bool succeeded = false;
  std::optional<failure> cause;
  std::string struck; ///< Which message, if it was one of this rank.
  std::vector<std::string> harm;
};

struct failing_message {
  std::size_t whose = 0;
  message_fault kind{};
  int size = 2; ///< Ranks.
  std::string_view config = all_gathered;
  std::uint64_t after = 0;
};

life_end life_of(std::size_t number, rank_ends own, const failing_message& fault) {
  const life_plan what{.pipeline = nullptr, // Each rank has its own.
                       .config = config_of(fault.config, 2048),
                       .calls = blocks_of(*rank_model()),
                       .stages = {},
                       .updated = "transformer"};
  supervised_life life{rank_model(), own.gpu, what, std::move(own.group)};
  if (number == fault.whose)
    life.faults().fail_after(fault.after, fault.kind);
  life_end end;
  end.succeeded = life.live();
  end.cause = life.first_failure();
  end.struck = life.faults().what();
  end.harm = life.recover();
  for (auto& each : life.leftovers())
    end.harm.push_back(std::move(each));
  return end;
}

/// Returns whether a rank may say that of a message of its own that failed.
bool is_own_cause(const failure& cause, const failing_message& fault) {
  if (cause.rank && cause.rank != static_cast<int>(fault.whose))
    return false;
  if (cause.code == errc::incomplete) // Of a disable, which says who was not heard.
    return fault.kind != message_fault::killed;
  switch (fault.kind) {
    case message_fault::refused:
      return cause.detail.find("the message was refused on its way") != std::string::npos;
    case message_fault::killed:
      return cause.code == errc::internal || cause.code == errc::transfer_aborted;
    default:
      // A prefetcher that was not told of a release gathers other blocks than the others.
      return cause.code == errc::deadline_exceeded || cause.code == errc::invalid_argument;
  }
}

/// Makes every message of one rank's life fail in turn. Returns how many did.
std::uint64_t at_every_message(failing_message fault) {
  for (;; ++fault.after) {
    auto ranks = sim_ranks(fault.size);
    std::vector<life_end> ends(ranks.size());
    const auto begun = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i != ranks.size(); ++i)
      threads.emplace_back([&, i] { ends[i] = life_of(i, std::move(ranks[i]), fault); });
    for (auto& each : threads)
      each.join();
    const auto took = std::chrono::steady_clock::now() - begun;

    const auto& struck = ends[fault.whose];
    INFO("message " << fault.after << " of rank " << fault.whose << " (" << struck.struck << ") is "
                    << describe(fault.kind));
    CHECK(took < 5s);
    for (std::size_t i = 0; i != ends.size(); ++i) {
      const auto& end = ends[i];
      INFO("rank " << i << ": " << (end.cause ? describe(*end.cause) : "done"));
      CHECK(joined(end.harm) == "");
      CHECK(end.succeeded == !end.cause);
      if (struck.struck.empty())
        REQUIRE(end.succeeded);
      if (end.cause && i == fault.whose)
        CHECK(is_own_cause(*end.cause, fault));
      else if (end.cause)
        CHECK(end.cause->rank == static_cast<int>(fault.whose));
    }
    if (struck.struck.empty())
      return fault.after;
  }
}

TEST_CASE("whatever message of a rank fails, no rank waits for ever, and its cause is the first",
          "[actors][ranks][faults]") {
  const auto kind = GENERATE(message_fault::lost, message_fault::slow, message_fault::late,
                             message_fault::refused, message_fault::killed);
  std::uint64_t points = 0;
  for (const std::size_t whose : {0U, 1U})
    points += at_every_message({.whose = whose, .kind = kind});

  WARN(points << " messages were " << describe(kind) << ", one in each life of two ranks");
  CHECK(points > 200);
}

TEST_CASE("whatever message of one of three ranks fails that gather some blocks and not others, no "
          "rank waits for ever, and its cause is the first",
          "[actors][ranks][faults]") {
  const auto kind = GENERATE(message_fault::lost, message_fault::slow, message_fault::late,
                             message_fault::refused, message_fault::killed);

  const auto points = at_every_message({.whose = 2, .kind = kind, .size = 3, .config = gathered});

  WARN(points << " messages were " << describe(kind) << ", one in each life of three ranks");
  CHECK(points > 100);
}

} // namespace
} // namespace ferry
