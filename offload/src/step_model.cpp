// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "step_model.hpp"

#include <ferry/offload/overlap.hpp>
#include <ferry/offload/slot_depth.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
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
    costs_.push_back(cost_of(*uses[i], history.fetch_of(i)));
  }
  if (order_.size() > most_uses)
    first = order_.size() - most_uses;
  order_.erase(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(first));
  costs_.erase(costs_.begin(), costs_.begin() + static_cast<std::ptrdiff_t>(first));
  if (const auto slots = history.slots(); slots != 0)
    how_.slots = slots;
  for (const auto& each : costs_)
    compute_ += each.compute;
  if (!costs_.empty())
    step_ = steady_pass(costs_, how_);
}

std::string step_model::advice(wait_cause cause) const {
  switch (cause) {
    case wait_cause::link_busy:
      if (const auto shared = shared_pass(); helps(shared))
        return told(shared);
      if (const auto resident = more_residents(); helps(resident))
        return told(resident);
      return "keep the block resident: it is not hidden whatever runs before it";
    case wait_cause::slot_held:
      if (const auto slots = more_slots(); helps(slots))
        return told(slots);
      if (const auto resident = more_residents(); helps(resident))
        return told(resident);
      return "use one slot more";
    case wait_cause::demanded_late:
      return "begin the request earlier, announce the order of its blocks, or keep the block "
             "resident";
    case wait_cause::message_late:
      return "leave a processor core to the actors, or use one slot more so that they may be late";
    case wait_cause::rank_late:
      return "look at what that rank waited for at the time";
    case wait_cause::source_cold:
      return "pin the block's host memory, or read it once before the request";
    case wait_cause::not_recorded:
      break;
  }
  return "record fewer steps, so that nothing is dropped";
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

// Blocks are chosen where the transfers of the stack are evenly divided, so that long ones come
// first and none beside another.
step_model::change step_model::more_residents() const {
  std::map<std::uint32_t, nanoseconds> streamed;
  for (std::size_t i = 0; i != order_.size(); ++i)
    if (!costs_[i].resident())
      streamed.emplace(order_[i], transfer_of(costs_[i]));
  nanoseconds all{};
  for (const auto& [block, transfer] : streamed)
    all += transfer;
  change best{.step = step_, .what = {}};
  const auto most = static_cast<std::int64_t>(streamed.size());
  for (std::int64_t count = 1; count <= most; ++count) {
    std::set<std::uint32_t> chosen;
    nanoseconds passed{};
    std::int64_t next = 0;
    for (const auto& [block, transfer] : streamed) {
      passed += transfer;
      if (next != count && passed * 2 * count >= all * (2 * next + 1)) {
        chosen.insert(block);
        ++next;
      }
    }
    auto costs = costs_;
    for (std::size_t i = 0; i != order_.size(); ++i)
      if (chosen.contains(order_[i]))
        costs[i].pieces.clear();
    const auto step = steady_pass(costs, how_);
    if (step * 1000 > best.step * 995 && count != most)
      continue;
    best = {.step = step,
            .what = "resident: " + std::to_string(count) +
                    (count == 1 ? " more block" : " more blocks, spread")};
    if (step * 1000 <= compute_ * 1005)
      break;
  }
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
          .what = passes == 2 ? "share one weight pass between the two guidance branches"
                              : "share one weight pass between the " + std::to_string(passes) +
                                    " passes of a step"};
}

bool step_model::helps(const change& made) const noexcept {
  return !made.what.empty() && made.step * 100 < step_ * 99;
}

std::string step_model::told(const change& made) const {
  return made.what + " (by the model a step takes " + milliseconds(made.step) + " ms instead of " +
         milliseconds(step_) + " ms)";
}

} // namespace ferry
