// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/catch.hpp"
#include "support/rank_team.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ferry {
namespace {

using namespace std::chrono_literals;
using namespace test;
using group = rank_team;

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

TEST_CASE("a request that is cancelled leaves its wave, and the others go on",
          "[actors][ranks][waves]") {
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

TEST_CASE("a rank without a request sends its part to the others", "[actors][ranks][waves]") {
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

TEST_CASE("requests that make no wave begin on no rank, and the next may",
          "[actors][ranks][waves]") {
  group ranks(2, kind::sim);
  std::vector<failure> reasons(2);
  std::vector<failure> others(2);

  CHECK(ranks.all([&](rank& own, std::size_t i) {
    if (!own.subject.start() || !own.subject.enable(own.pipeline, config_of(gathered)))
      return false;
    const auto refused = own.subject.begin_request({.steps = i == 0 ? 4 : 5});
    const auto unsaid = own.subject.begin_request();
    const auto cached = own.subject.begin_request({.steps = 4, .skips_blocks = i == 1});
    const auto guided = own.subject.begin_request({.steps = 4, .passes = i == 1 ? 2U : 1U});
    if (refused || unsaid || cached || guided)
      return false;
    reasons[i] = refused.error();
    others[i] = guided.error();
    return unsaid.error().rank == 0 && cached.error().rank == 1 && take_part(own, 4);
  }));

  CHECK(reasons[0] == reasons[1]);
  CHECK(reasons[0].code == errc::invalid_argument);
  CHECK_THAT(reasons[0].detail, Catch::Contains("rank 1 takes 5 steps, rank 0 4"));
  CHECK(others[0] == others[1]);
  CHECK_THAT(others[0].detail, Catch::Contains("rank 1 takes 2 passes a step, rank 0 1"));
}

TEST_CASE("a request in a wave that did not say what it runs is not cancelled alone",
          "[actors][ranks][waves]") {
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

TEST_CASE("a rank that stops while it waits for a wave ends the wait of all",
          "[actors][ranks][waves]") {
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

/// Two simulated ranks, of which rank 1 is that impatient.
class uneven_pair {
public:
  explicit uneven_pair(std::chrono::milliseconds impatience) {
    for (std::size_t i = 0; i != ends_.size(); ++i)
      ranks_.push_back(std::make_unique<rank>(ends_[i].gpu, std::move(ends_[i].group), nullptr,
                                              std::nullopt, i == 1 ? impatience : 60s));
  }

  /// Starts and enables both, and runs `first` and `second` on a thread each. Returns whether both
  /// are true.
  bool run(const std::function<bool(rank&)>& first, const std::function<bool(rank&)>& second) {
    std::array<bool, 2> right{};
    const auto live = [&](std::size_t i, const std::function<bool(rank&)>& act) {
      auto& own = *ranks_[i];
      right.at(i) = own.subject.start() &&
                    own.subject.enable(own.pipeline, config_of(gathered, 1024)) && act(own);
    };
    std::thread other{[&] { live(1, second); }};
    live(0, first);
    other.join();
    return right[0] && right[1];
  }

  [[nodiscard]] std::size_t races() const {
    return ends_[0].gpu->race_count() + ends_[1].gpu->race_count();
  }

private:
  std::vector<rank_ends> ends_ = sim_ranks(2);
  std::vector<std::unique_ptr<rank>> ranks_;
};

TEST_CASE("a rank that waits in a gather is told at once that another gave up on the next wave",
          "[actors][ranks][waves]") {
  uneven_pair ranks{1s};
  std::array<failure, 2> causes;
  std::array<std::chrono::steady_clock::duration, 2> took{};

  CHECK(ranks.run(
      [&](rank& own) {
        if (!own.begin(1))
          return false;
        const auto from = std::chrono::steady_clock::now();
        try {
          static_cast<void>(own.run_step());
        } catch (const ferry_error& e) {
          causes[0] = e.reason();
        }
        took[0] = std::chrono::steady_clock::now() - from;
        return true;
      },
      [&](rank& own) {
        if (!own.begin(1) || !own.subject.end_request()) // Does without its step.
          return false;
        const auto from = std::chrono::steady_clock::now();
        const auto refused = own.begin(1);
        causes[1] = refused ? failure{} : refused.error();
        took[1] = std::chrono::steady_clock::now() - from;
        return true;
      }));

  for (std::size_t i = 0; i != 2; ++i) {
    CHECK(took.at(i) < 5s);
    CHECK(causes.at(i).code == errc::deadline_exceeded);
    CHECK(causes.at(i).rank == 0);
    CHECK_THAT(causes.at(i).detail, Catch::Contains(causes[1].detail));
  }
}

/// Begins one request while another runs, withdraws it as `act` does, and ends the other. Returns
/// how the wait of the one ended.
failure withdrawn_behind(rank& own, const wave_terms& behind,
                         const std::function<void(request_id)>& act) {
  failure told;
  if (!own.subject.begin_request(terms_of(own, 2)))
    return told;
  const auto id = own.subject.new_request();
  std::thread waiter{[&] {
    const auto begun = own.subject.begin_request(id, behind);
    told = begun ? failure{} : begun.error();
  }};
  while (own.subject.state()->requests_waiting == 0)
    std::this_thread::yield();
  act(id);
  waiter.join();
  if (!own.run_encoder() || !own.run_step() || !own.run_step() || !own.subject.end_request())
    told = {};
  return told;
}

TEST_CASE("a request that is cancelled or too late before its turn still takes part in its wave",
          "[actors][ranks][waves]") {
  const auto cancels = GENERATE(true, false);
  CAPTURE(cancels);
  uneven_pair ranks{cancels ? 60s : 2s};
  std::array<std::uint64_t, 2> collectives{};
  failure told;

  CHECK(ranks.run(
      [&](rank& own) {
        const auto right = take_part(own, 2) && take_part(own, 3) && take_part(own, 1);
        collectives[0] = own.subject.state()->collectives;
        return right && own.subject.disable();
      },
      [&](rank& own) {
        told = withdrawn_behind(own, terms_of(own, 3), [&](request_id id) {
          if (cancels) {
            CHECK(own.subject.cancel_request(id));
            CHECK(own.subject.cancel_request(id).error().code == errc::not_found);
          }
        });
        const auto right = take_part(own, 1);
        collectives[1] = own.subject.state()->collectives;
        return right && own.subject.disable();
      }));

  CHECK(told.code == (cancels ? errc::cancelled : errc::deadline_exceeded));
  CHECK(collectives[0] == collectives[1]);
  CHECK(ranks.races() == 0);
}

TEST_CASE(
    "a request that did not say its blocks is not cancelled before its turn, and if it is too "
    "late its wave begins on no rank",
    "[actors][ranks][waves]") {
  uneven_pair ranks{2s};
  failure told;
  failure refused;

  CHECK(ranks.run(
      [&](rank& own) {
        const auto first = take_part(own, 2);
        const auto second = own.begin(3);
        refused = second ? failure{} : second.error();
        return first && take_part(own, 1);
      },
      [&](rank& own) {
        told = withdrawn_behind(own, {.steps = 3}, [&](request_id id) {
          CHECK(own.subject.cancel_request(id).error().code == errc::unsupported);
        });
        return take_part(own, 1);
      }));

  CHECK(told.code == errc::deadline_exceeded);
  CHECK(refused.code == errc::invalid_argument);
  CHECK(refused.rank == 1);
  CHECK_THAT(refused.detail, Catch::Contains("rank 1 withdrew its request before its turn"));
  CHECK(ranks.races() == 0);
}

/// Runs a step, and the begin of the next request if `then_begins`. Returns how that failed.
failure failure_of_step(rank& own, bool then_begins) {
  try {
    if (!own.run_step() || !then_begins)
      return {};
  } catch (const ferry_error& e) {
    return e.reason();
  }
  if (auto ended = own.subject.end_request(); !ended)
    return ended.error();
  const auto begun = own.begin(1);
  return begun ? failure{} : begun.error();
}

TEST_CASE("a rank that goes no further ends the others with its cause and number, whether they "
          "wait in a gather or for the next wave",
          "[actors][ranks][waves]") {
  const auto what = GENERATE(kind::sim, kind::host);
  const auto behind_its_gathers = GENERATE(false, true);
  CAPTURE(what == kind::sim, behind_its_gathers);
  group ranks(3, what);
  const failure broke{.code = errc::internal, .detail = "no such luck"};
  std::vector<failure> told(3);
  std::vector<std::chrono::steady_clock::duration> took(3);
  std::latch heard{2};

  CHECK(ranks.all([&](rank& own, std::size_t i) {
    if (!own.subject.start() || !own.subject.enable(own.pipeline, config_of(gathered, 1024)) ||
        !own.begin(1))
      return false;
    const auto from = std::chrono::steady_clock::now();
    if (i != 1) {
      told[i] = failure_of_step(own, behind_its_gathers);
      took[i] = std::chrono::steady_clock::now() - from;
      heard.count_down();
      return own.subject.stop(10s).has_value();
    }
    if (behind_its_gathers && !own.run_step())
      return false;
    told[i] = own.subject.leave_ranks(broke);
    heard.wait(); // It is not the end of this rank that the others see.
    while (!own.subject.state()->first_failure)
      std::this_thread::yield();
    const auto next = own.subject.end_request();
    return !next && next.error() == told[i] && own.subject.disable() &&
           has_own_bytes(*own.pipeline);
  }));

  CHECK(told[1] == failure{.code = errc::internal, .detail = "no such luck", .rank = 1});
  for (const auto i : {0U, 2U}) {
    INFO(describe(told[i]));
    CHECK(told[i].code == errc::internal);
    CHECK(told[i].rank == 1);
    CHECK_THAT(told[i].detail, Catch::Contains("no such luck"));
    CHECK(took[i] < 5s);
  }
}

TEST_CASE(
    "a rank that goes no further before it starts ends the start of the others, and the first "
    "cause counts",
    "[actors][ranks][waves]") {
  group ranks(2, kind::sim);
  const failure first{.code = errc::internal, .detail = "the first", .rank = 1};
  const auto begun = std::chrono::steady_clock::now();

  CHECK(ranks[1].subject.leave_ranks(first) == first);
  REQUIRE(ranks[0].subject.start());
  const auto refused = ranks[0].subject.enable(ranks[0].pipeline, config_of(gathered));

  REQUIRE_FALSE(refused);
  CHECK(refused.error() == first);
  CHECK(std::chrono::steady_clock::now() - begun < 5s);
  CHECK(ranks[0].subject.leave_ranks({.code = errc::cancelled, .detail = "the second"}) == first);
}

TEST_CASE("without ranks nobody is left", "[actors][ranks][waves]") {
  runtime alone{std::make_shared<sim_device>(sim_options{}), {}};
  const failure cause{.code = errc::internal, .detail = "no such luck"};

  CHECK(alone.leave_ranks(cause) == cause);
  REQUIRE(alone.start());
  CHECK(alone.leave_ranks(cause) == cause);
  CHECK(alone.enable(rank_model(), config_of(gathered)));
}

} // namespace
} // namespace ferry
