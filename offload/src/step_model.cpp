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

/// Of a step without marks: as much as tells everything.
constexpr std::size_t most_uses = 1024;

std::string milliseconds(nanoseconds time) {
  std::array<char, 48> text;
  const auto length =
      std::snprintf(text.data(), text.size(), "%.2f", static_cast<double>(time.count()) / 1e6);
  return {text.data(), static_cast<std::size_t>(length)};
}

/// Returns the last stretch of time between the beginning of a step and its end.
std::pair<nanoseconds, nanoseconds> last_step(const trace& run, std::uint32_t rank) {
  std::pair<nanoseconds, nanoseconds> found{nanoseconds::min(), nanoseconds::max()};
  auto begun = nanoseconds::min();
  for (const auto& each : run.marks) {
    if (each.rank != rank)
      continue;
    if (each.what == mark_step_begins)
      begun = each.at;
    else if (each.what == mark_step_ended && begun != nanoseconds::min())
      found = {begun, each.at};
  }
  if (found.second == nanoseconds::max())
    found.first = begun; // The trace ends in the first step.
  return found;
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

nanoseconds transfer_of(const block_cost& cost) {
  nanoseconds all{};
  for (const auto& each : cost.pieces)
    all += each.copy + each.gather.value_or(nanoseconds::zero());
  return all;
}

} // namespace

step_model::step_model(const trace& run, std::uint32_t rank, const rank_history& history) {
  const auto [from, until] = last_step(run, rank);
  const auto& uses = history.uses();
  std::size_t first = 0;
  for (std::size_t i = 0; i != uses.size(); ++i) {
    if (uses[i]->begun < from || uses[i]->ended > until)
      continue;
    order_.push_back(uses[i]->block);
    const auto fetch = history.fetch_of(i);
    costs_.push_back(cost_of(*uses[i], fetch));
    bytes_.push_back(fetch.bytes);
  }
  if (order_.size() > most_uses)
    first = order_.size() - most_uses;
  order_.erase(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(first));
  costs_.erase(costs_.begin(), costs_.begin() + static_cast<std::ptrdiff_t>(first));
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(first));
  if (const auto slots = history.slots(); slots != 0)
    how_.slots = slots;
  blocks_.insert(order_.begin(), order_.end());
  for (const auto& each : costs_)
    compute_ += each.compute;
  if (!costs_.empty())
    step_ = steady_pass(costs_, how_);
}

bool step_model::streams(std::uint32_t block) const {
  return blocks_.contains(block);
}

std::string step_model::advice(wait_cause cause, bool in_step) const {
  switch (cause) {
    case wait_cause::link_busy:
      if (const auto shared = shared_pass(); in_step && helps(shared))
        return told(shared);
      if (const auto resident = more_residents(); in_step && helps(resident))
        return told(resident);
      return keep_it(in_step);
    case wait_cause::slot_held:
      if (const auto slots = more_slots(); in_step && helps(slots))
        return told(slots);
      if (const auto resident = more_residents(); in_step && helps(resident))
        return told(resident);
      return "use one slot more";
    case wait_cause::demanded_late:
      return "begin the request earlier, announce the order of its blocks, or " + keep_it(in_step);
    case wait_cause::message_late:
      return "leave a processor core to the actors, or use one slot more so that they may be late";
    case wait_cause::rank_late:
      return "look at what that rank waited for at the time";
    case wait_cause::source_cold:
      return "pin the block's host memory, or read it once before the request";
    case wait_cause::not_recorded:
      break;
  }
  return "record fewer steps if spans are missing, and look what else the machine did at the time";
}

// Of denoisers some blocks may stay, unless ranks gather them; of other components all or none.
std::string step_model::keep_it(bool in_step) const {
  if (!in_step)
    return "keep its component on the device: leave it out of the configuration's components";
  if (gathers())
    return "take weight_transfer rank-local if each rank's link is fast enough: of blocks that "
           "ranks "
           "gather none may stay";
  return "keep the block resident";
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
  for (std::size_t i = 0; i != order_.size(); ++i)
    if (numbers.emplace(order_[i], costs.size()).second) {
      costs.push_back(costs_[i]);
      bytes.push_back(bytes_[i]);
    }
  const auto kept = choose_residents({.costs = costs, .bytes = bytes, .how = how_},
                                     {.bytes = {}, .count = residents}, residency::spread);
  auto changed = costs_;
  for (std::size_t i = 0; i != order_.size(); ++i)
    if (kept[numbers.at(order_[i])])
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

step_model::change step_model::shared_pass() const {
  std::map<std::uint32_t, std::size_t> times;
  for (const auto block : order_)
    ++times[block];
  const auto passes = times.empty() ? 0 : times.begin()->second;
  const auto even =
      std::ranges::all_of(times, [&](const auto& each) { return each.second == passes; });
  if (!even || passes < 2)
    return {.step = step_, .what = {}};
  const std::vector<block_cost> once(costs_.begin(),
                                     costs_.begin() + static_cast<std::ptrdiff_t>(times.size()));
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
