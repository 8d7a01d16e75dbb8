// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "step_model.hpp"

#include <ferry/offload/overlap.hpp>
#include <ferry/offload/residency.hpp>
#include <ferry/offload/slot_depth.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <utility>

namespace ferry {
namespace {

/// As much of a step as tells everything.
constexpr std::size_t most_uses = 2048;

std::string milliseconds(nanoseconds time) {
  std::array<char, 48> text;
  const auto length =
      std::snprintf(text.data(), text.size(), "%.2f", static_cast<double>(time.count()) / 1e6);
  return {text.data(), static_cast<std::size_t>(length)};
}

block_cost cost_of(const block_span& use, const fetch_record& fetch) {
  block_cost cost{.compute = use.ended - use.begun, .pieces = {}};
  piece_cost piece{.copy = fetch.copying, .gather = {}};
  for (const auto* each : fetch.gathers)
    piece.gather = piece.gather.value_or(nanoseconds::zero()) + (each->end - each->start);
  if (!fetch.empty())
    cost.pieces.push_back(piece);
  return cost;
}

} // namespace

step_model::step_model(const rank_history& history, const rank_history::stretch& step,
                       std::size_t ranks)
    : ranks_(ranks) {
  take(history, step);
  if (const auto slots = history.slots(); slots != 0)
    how_.slots = slots;
  blocks_.insert(order_.begin(), order_.end());
  blocks_.erase(operation_tag::no_block);
  for (const auto& each : costs_)
    compute_ += each.compute;
  if (!costs_.empty())
    step_ = steady_pass(costs_, how_);
}

void step_model::take(const rank_history& history, const rank_history::stretch& step) {
  const auto& uses = history.uses();
  const auto& others = history.other_work();
  auto other = std::ranges::lower_bound(others, step.from, {}, &rank_history::stretch::from);
  const auto put = [this](std::uint32_t block, block_cost cost, std::size_t bytes) {
    order_.push_back(block);
    costs_.push_back(std::move(cost));
    bytes_.push_back(bytes);
  };
  const auto put_others = [&](nanoseconds until) {
    for (; other != others.end() && other->until <= until; ++other)
      put(operation_tag::no_block, {.compute = other->until - other->from, .pieces = {}}, 0);
  };
  const auto first = std::ranges::lower_bound(uses, step.from, {}, &block_span::begun);
  for (auto i = static_cast<std::size_t>(first - uses.begin());
       i != uses.size() && uses[i]->ended <= step.until && order_.size() < most_uses; ++i) {
    put_others(uses[i]->asked);
    const auto fetch = history.fetch_of(i);
    put(uses[i]->block, cost_of(*uses[i], fetch), fetch.bytes);
  }
  if (order_.size() < most_uses)
    put_others(step.until);
}

std::string step_model::advice(wait_cause cause) const {
  switch (cause) {
    case wait_cause::link_busy:
      return first_that_helps({shared_pass(), more_residents(), rank_local()});
    case wait_cause::slot_held:
      return first_that_helps({more_slots(), more_residents()});
    case wait_cause::demanded_late:
      return gathers() ? "begin the request earlier, or announce the order of its blocks"
                       : "begin the request earlier, announce the order of its blocks, or keep the "
                         "block resident";
    case wait_cause::message_late:
      return "leave a processor core to the actors, or use one slot more so that they may be late";
    case wait_cause::rank_late:
      return "look at what that rank waited for at the time";
    case wait_cause::source_cold:
      return "have its bytes in memory: read them once before the request, keep the block "
             "resident, or pin its host memory for a device with a link";
    case wait_cause::copy_slow:
      return "leave a processor core, and the bandwidth of its memory, to the copies; the first "
             "copy into a slot takes longer, and so does memory that is not pinned for a device "
             "with a link";
    case wait_cause::not_recorded:
      break;
  }
  return "look what else the machine did at the time";
}

std::string step_model::first_that_helps(std::initializer_list<change> changes) const {
  for (const auto& each : changes)
    if (helps(each))
      return told(each);
  if (step_ * 100 <= compute_ * 101)
    return "nothing: by the model a step takes " + milliseconds(step_) +
           " ms, which its compute takes; the wait is of its beginning";
  return "fewer bytes or a faster link: by the model nothing in the configuration makes a step "
         "of " +
         milliseconds(step_) + " ms shorter";
}

bool step_model::gathers() const {
  return std::ranges::any_of(costs_, [](const block_cost& cost) {
    return std::ranges::any_of(cost.pieces,
                               [](const piece_cost& piece) { return piece.gather.has_value(); });
  });
}

step_model::change step_model::more_slots() const {
  auto how = how_;
  change best{.step = step_, .what = {}};
  for (auto slots = how_.slots + 1; slots <= std::max(how_.slots + 1, most_useful_slots); ++slots) {
    how.slots = slots;
    const auto step = steady_pass(costs_, how);
    if (!best.what.empty() && (best.step - step) * 100 < best.step)
      break;
    best = {.step = step,
            .what = std::to_string(slots) + " slots instead of " + std::to_string(how_.slots)};
  }
  return best;
}

nanoseconds step_model::step_with(std::size_t residents) const {
  std::map<std::uint32_t, std::size_t> numbers; // Of the blocks, as the first pass runs them.
  std::vector<block_cost> costs;
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i != order_.size(); ++i) {
    if (order_[i] == operation_tag::no_block) {
      if (!costs.empty() && numbers.size() == costs.size())
        costs.back().compute += costs_[i].compute; // The choice takes it for the block's.
    } else if (numbers.emplace(order_[i], costs.size()).second) {
      costs.push_back(costs_[i]);
      bytes.push_back(bytes_[i]);
    }
  }
  const auto kept = choose_residents({.costs = costs, .bytes = bytes, .how = how_},
                                     {.bytes = {}, .count = residents}, residency::spread);
  auto changed = costs_;
  for (std::size_t i = 0; i != order_.size(); ++i)
    if (const auto number = numbers.find(order_[i]);
        number != numbers.end() && kept[number->second])
      changed[i].pieces.clear();
  return steady_pass(changed, how_);
}

step_model::change step_model::more_residents() const {
  change best{.step = step_, .what = {}};
  if (gathers())
    return best;
  // The fewest with which compute is all that is left; with all of them it is.
  const auto hides = [&](std::size_t count) {
    best.step = step_with(count);
    return best.step * 1000 <= compute_ * 1005;
  };
  std::size_t too_few = 0;
  auto enough = blocks_.size();
  while (enough - too_few > 1) {
    const auto middle = too_few + (enough - too_few) / 2;
    (hides(middle) ? enough : too_few) = middle;
  }
  if (enough == 0)
    return best;
  best.step = step_with(enough);
  best.what = "resident: " + std::to_string(enough) +
              (enough == 1 ? " more block" : " more blocks, spread");
  return best;
}

step_model::change step_model::rank_local() const {
  if (!gathers() || ranks_ < 2)
    return {.step = step_, .what = {}};
  auto alone = costs_;
  for (auto& cost : alone)
    for (auto& piece : cost.pieces) {
      if (piece.gather)
        piece.copy *= static_cast<std::int64_t>(ranks_);
      piece.gather.reset();
    }
  return {.step = steady_pass(alone, how_),
          .what = "take weight_transfer rank-local if each rank has a link of its own"};
}

step_model::change step_model::shared_pass() const {
  std::map<std::uint32_t, std::size_t> times;
  auto first_pass = order_.size(); // What runs before any block comes a second time.
  for (std::size_t i = 0; i != order_.size(); ++i)
    if (order_[i] != operation_tag::no_block && ++times[order_[i]] > 1)
      first_pass = std::min(first_pass, i);
  const auto passes = times.empty() ? 0 : times.begin()->second;
  const auto even =
      std::ranges::all_of(times, [&](const auto& each) { return each.second == passes; });
  if (!even || passes < 2)
    return {.step = step_, .what = {}};
  const std::vector<block_cost> once(costs_.begin(),
                                     costs_.begin() + static_cast<std::ptrdiff_t>(first_pass));
  auto how = how_;
  how.passes = passes;
  return {.step = steady_pass(once, how),
          .what = (passes == 2 ? "share one weight pass between the two guidance branches"
                               : "share one weight pass between the " + std::to_string(passes) +
                                     " passes of a step") +
                  ": --passes-per-fetch " + std::to_string(passes)};
}

bool step_model::helps(const change& made) const noexcept {
  return !made.what.empty() && made.step * 100 < step_ * 99;
}

std::string step_model::told(const change& made) const {
  return made.what + " (by the model a step takes " + milliseconds(made.step) + " ms instead of " +
         milliseconds(step_) + " ms)";
}

} // namespace ferry
