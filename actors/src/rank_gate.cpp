// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "rank_gate.hpp"

#include "guarded.hpp"

#include <string>
#include <utility>
#include <vector>

namespace ferry {
namespace {

template <class T>
T checked(result<T> outcome) {
  if (!outcome)
    throw ferry_error{std::move(outcome.error())};
  if constexpr (!std::is_void_v<T>)
    return std::move(*outcome);
}

} // namespace

rank_gate::rank_gate(caf::actor_config& config, std::shared_ptr<rendezvous> ranks,
                     nanoseconds patience)
    : rank_gate_actor::base(config), ranks_(std::move(ranks)), patience_(patience) {}

rank_gate::behavior_type rank_gate::make_behavior() {
  return {
      [this](const vote_to_start& m) { return guarded(this, m, [&] { vote(m); }); },
      [this](const join_wave& m) { return guarded(this, m, [&] { join(m); }); },
      [this](const leave_ranks& m) { return guarded(this, m, [&] { ranks_->poison(m.cause); }); },
      [this](const start_child& m) { return guarded(this, m, [] {}); },
      [this](const drain_child& m) {
        return guarded(this, m, [&] {
          if (m.failed)
            ranks_->poison(m.cause);
        });
      },
      [this](const release_child& m) {
        return guarded(this, m, [&] {
          quit();
          return answered{};
        });
      },
  };
}

void rank_gate::vote(const vote_to_start& message) {
  const auto own = to_json(message.ballot);
  const auto said =
      checked(ranks_->meet("start " + std::to_string(votes_++), as_contribution(own), patience_));
  std::vector<rank_ballot> ballots;
  for (const auto& each : said)
    ballots.push_back(checked(rank_ballot_from_json(as_text(each))));
  if (auto agreed = agree(ballots); !agreed) {
    ranks_->poison(agreed.error());
    throw ferry_error{std::move(agreed.error())};
  }
}

void rank_gate::join(const join_wave& message) {
  const auto said = checked(ranks_->meet("wave " + std::to_string(waves_++),
                                         as_contribution(message.ballot), message.patience));
  std::vector<std::string> ballots;
  for (const auto& each : said)
    ballots.push_back(as_text(each));
  checked(admit_wave(ballots));
}

} // namespace ferry
