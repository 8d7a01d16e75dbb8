// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/trace_analysis.hpp"

#include <ferry/platform/quantity.hpp>

#include "fetch_history.hpp"
#include "step_model.hpp"
#include "trace_ranks.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <utility>

namespace ferry {
namespace {

std::string milliseconds(nanoseconds time) {
  std::array<char, 48> text;
  const auto length =
      std::snprintf(text.data(), text.size(), "%.3f ms", static_cast<double>(time.count()) / 1e6);
  return {text.data(), static_cast<std::size_t>(length)};
}

double ratio(nanoseconds part, nanoseconds whole) {
  return whole.count() == 0
             ? 0
             : static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

/// Finds what kept one block. Every fetch begins when the link is free, its slot is, and somebody
/// has asked for it: the last of the three explains the wait, unless the copy itself took unusually
/// long.
class detective {
public:
  detective(const trace& run, const std::map<std::uint32_t, rank_history>& ranks)
      : run_(&run), ranks_(&ranks) {
    for (const auto& [rank, history] : ranks)
      rates_[rank] = history.usual_rate();
  }

  [[nodiscard]] late_block explain(std::uint32_t rank, std::size_t use);

  /// Returns when the last rank came to a gather of `rank`, and which one that was.
  [[nodiscard]] std::pair<nanoseconds, std::uint32_t> last_to(std::uint32_t rank,
                                                              const device_span& gather) const;

private:
  /// The beginning of a copy or gather, and what it had to wait for.
  struct start {
    const device_span* first = nullptr;
    nanoseconds needed{}; ///< Had it begun then, nobody would have waited.
    nanoseconds link_free = nanoseconds::min();
    const device_span* before = nullptr;
    nanoseconds slot_free = nanoseconds::min();
    const block_span* holder = nullptr;
  };

  [[nodiscard]] bool blame_source(late_block& of, const fetch_record& fetch) const;
  [[nodiscard]] bool blame_rank(late_block& of, const fetch_record& fetch) const;
  void blame_start(late_block& of, const start& at) const;
  void blame_request(late_block& of, const start& at) const;
  [[nodiscard]] start start_of(const late_block& of, const fetch_record& fetch) const;
  [[nodiscard]] const device_span* counterpart(const rank_history& other, const rank_history& self,
                                               const device_span& gather) const;
  [[nodiscard]] nanoseconds arrival(const rank_history& at, const device_span& gather) const;
  [[nodiscard]] std::string name(std::uint32_t block) const {
    return "'" + run_->block_name(block) + "'";
  }

  const trace* run_;
  const std::map<std::uint32_t, rank_history>* ranks_;
  std::map<std::uint32_t, double> rates_;
  const rank_history* self_ = nullptr;
  std::size_t use_ = 0;
};

late_block detective::explain(std::uint32_t rank, std::size_t use) {
  self_ = &ranks_->at(rank);
  use_ = use;
  const auto& waited = *self_->uses()[use];
  late_block found{.rank = rank,
                   .block = waited.block,
                   .ticket = waited.ticket,
                   .asked = waited.asked,
                   .wait = waited.wait(),
                   .cause = wait_cause::not_recorded,
                   .by_block = {},
                   .by_rank = {},
                   .why = "the trace does not have its copy",
                   .advice = {}};
  const auto fetch = self_->fetch_of(use);
  if (fetch.empty() || blame_rank(found, fetch) || blame_source(found, fetch))
    return found;
  const auto at = start_of(found, fetch);
  const auto held = std::max(at.link_free, at.slot_free);
  const auto unasked = at.first->enqueued - std::max(held, at.needed);
  const auto* const asked = self_->request_of(waited).fetch;
  if (unasked * 2 > found.wait || (asked != nullptr && asked->demanded))
    blame_request(found, at);
  else
    blame_start(found, at);
  return found;
}

/// All ranks gather the same pieces in the same order. Where spans were dropped their number tells
/// nothing, and only what overlaps can be the same gather.
const device_span* detective::counterpart(const rank_history& other, const rank_history& self,
                                          const device_span& gather) const {
  const auto& theirs = other.gathers();
  if (run_->dropped == 0) {
    const auto number = self.number_of(gather);
    return number < theirs.size() && theirs[number]->block == gather.block ? theirs[number]
                                                                           : nullptr;
  }
  const device_span* best = nullptr;
  nanoseconds most{};
  for (auto it = std::ranges::lower_bound(theirs, gather.start, {}, &device_span::end);
       it != theirs.end() && (*it)->start < gather.end; ++it) {
    const auto both = std::min((*it)->end, gather.end) - std::max((*it)->start, gather.start);
    if ((*it)->block != gather.block || both <= most)
      continue;
    best = *it;
    most = both;
  }
  return best;
}

std::pair<nanoseconds, std::uint32_t> detective::last_to(std::uint32_t rank,
                                                         const device_span& gather) const {
  const auto& self = ranks_->at(rank);
  std::pair last{arrival(self, gather), rank};
  for (const auto& [number, other] : *ranks_)
    if (number != rank)
      if (const auto* const theirs = counterpart(other, self, gather))
        last = std::max(last, {arrival(other, *theirs), number});
  return last;
}

bool detective::blame_rank(late_block& of, const fetch_record& fetch) const {
  std::map<std::uint32_t, nanoseconds> lost;
  for (const auto* own : fetch.gathers) {
    const auto last = last_to(of.rank, *own);
    if (last.second != of.rank)
      lost[last.second] += last.first - arrival(*self_, *own);
  }
  for (const auto& [rank, time] : lost) {
    if (time * 2 <= of.wait)
      continue;
    of.cause = wait_cause::rank_late;
    of.by_rank = rank;
    of.why = "its gather waited " + milliseconds(time) + " for rank " + std::to_string(rank);
    return true;
  }
  return false;
}

nanoseconds detective::arrival(const rank_history& at, const device_span& gather) const {
  auto arrived = gather.enqueued;
  if (const auto* const before = at.before(gather))
    arrived = std::max(arrived, before->end);
  if (const auto landed = at.landed(gather))
    arrived = std::max(arrived, *landed);
  return arrived;
}

bool detective::blame_source(late_block& of, const fetch_record& fetch) const {
  if (fetch.copies.empty())
    return false;
  const auto from = fetch.copies.front()->start;
  const auto packed = self_->packing(of.block, from, fetch.copies.back()->end);
  const auto gaps = fetch.copies.back()->end - from - fetch.copying;
  if (packed > nanoseconds::zero() && gaps * 2 > of.wait) {
    of.cause = wait_cause::source_cold;
    of.why = "packing it on the host left the link idle for " + milliseconds(gaps);
    return true;
  }
  const auto rate = rates_.at(of.rank);
  if (rate == 0)
    return false;
  const nanoseconds usual{static_cast<std::int64_t>(static_cast<double>(fetch.bytes) / rate * 1e9)};
  const auto excess = fetch.copying - usual;
  if (excess * 2 <= of.wait || excess * 2 <= usual)
    return false;
  const auto read = self_->disk_bytes(from, fetch.copies.back()->end);
  of.cause = read == 0 ? wait_cause::copy_slow : wait_cause::source_cold;
  of.why = "its copy took " + milliseconds(fetch.copying) + ", where its bytes usually take " +
           milliseconds(usual);
  if (read == 0)
    of.why += ", and no read of a disk was counted meanwhile";
  else if (read)
    of.why += ", and up to " + size_text(*read) + " were read from a disk meanwhile";
  return true;
}

detective::start detective::start_of(const late_block& of, const fetch_record& fetch) const {
  start found;
  // What came last brings the block, unless it only waited for its shard.
  const auto by_gather = !fetch.gathers.empty() &&
                         (fetch.copies.empty() || self_->landed(*fetch.gathers.front()) <
                                                      arrival(*self_, *fetch.gathers.front()));
  const auto& spans = by_gather ? fetch.gathers : fetch.copies;
  found.first = spans.front();
  found.needed = found.first->start - of.wait;
  if (const auto* const before = self_->before(*found.first)) {
    found.before = before;
    found.link_free = std::min(before->end, found.first->start);
  }
  if (const auto* const holder = self_->released_before(use_, found.first->start)) {
    found.holder = holder;
    found.slot_free = std::min(holder->ended, found.first->start);
  }
  return found;
}

void detective::blame_start(late_block& of, const start& at) const {
  if (at.holder != nullptr && at.slot_free > at.link_free && at.slot_free > at.needed) {
    of.cause = wait_cause::slot_held;
    of.by_block = at.holder->block;
    of.why = "its slot was held by " + name(at.holder->block) + " until " +
             milliseconds(at.slot_free - at.needed) + " after it was needed";
    return;
  }
  if (at.before != nullptr && at.link_free > at.needed) {
    of.cause = wait_cause::link_busy;
    const bool of_block = at.before->block != operation_tag::no_block;
    if (of_block)
      of.by_block = at.before->block;
    const auto whose = of_block ? name(at.before->block) : "'" + std::string(at.before->what) + "'";
    of.why = (at.first->kind == operation_kind::gather ? "ranks were gathering "
                                                       : "the link was busy with ") +
             whose + " until " + milliseconds(at.link_free - at.needed) + " after it was needed";
    return;
  }
  blame_request(of, at);
}

void detective::blame_request(late_block& of, const start& at) const {
  const auto [fetch, trigger] = self_->request_of(*self_->uses()[use_]);
  const auto lag = [](const message_span* of_message) {
    return of_message == nullptr ? nanoseconds::zero() : of_message->started - of_message->sent;
  };
  of.cause = wait_cause::demanded_late;
  if (fetch != nullptr && fetch->demanded) {
    of.why = "nothing had been submitted ahead: it was fetched when the model asked for it";
    return;
  }
  const auto* const slow = lag(trigger) > lag(fetch) ? trigger : fetch;
  if ((lag(fetch) + lag(trigger)) * 2 > of.wait) {
    of.cause = wait_cause::message_late;
    of.why =
        "'" + std::string(slow->what) + "' waited " + milliseconds(lag(slow)) + " for its actor";
    return;
  }
  if (at.before == nullptr && at.holder == nullptr) {
    of.why = "it is the first: nothing ran before it that its copy could hide behind";
    return;
  }
  const auto late_by = at.first->enqueued - at.needed;
  if (late_by > nanoseconds::zero()) {
    of.why = "its copy was enqueued " + milliseconds(late_by) + " after it was needed";
    return;
  }
  of.cause = wait_cause::not_recorded;
  of.why =
      "its copy was enqueued in time, and began " +
      milliseconds(at.first->start - std::max({at.link_free, at.slot_free, at.first->enqueued})) +
      " after it could";
}

nanoseconds busy_time(const std::vector<const device_span*>& copies, nanoseconds from,
                      nanoseconds until) {
  nanoseconds busy{};
  auto covered = from;
  for (const auto* each : copies) {
    const auto start = std::max(each->start, covered);
    const auto end = std::min(each->end, until);
    if (end <= start)
      continue;
    busy += end - start;
    covered = end;
  }
  return busy;
}

bool is_late(const block_span& use) {
  return use.wait() > least_wait && use.wait() * 100 > use.ended - use.begun;
}

/// Puts the uses, and what ran between them, into the meter in the order of time.
void add_compute(overlap_meter& to, const rank_history& history) {
  auto other = history.other_work().begin();
  const auto add_others = [&](nanoseconds until) {
    for (; other != history.other_work().end() && other->until <= until; ++other)
      to.add_other(other->from, other->until);
  };
  for (const auto* each : history.uses()) {
    if (history.warms_up(each->asked))
      continue;
    add_others(each->asked);
    to.add_use(*each);
  }
  add_others(nanoseconds::max());
}

bool counts(const device_span& span, const rank_history& history) {
  return span.block != operation_tag::no_block && !history.warms_up(span.start);
}

rank_part sums_of(std::uint32_t rank, const rank_history& history, const detective& who) {
  rank_part sums;
  sums.rank = rank;
  overlap_meter meter;
  add_compute(meter, history);
  for (const auto* each : history.copies())
    if (counts(*each, history))
      meter.add_copy(each->start, each->end);
  for (const auto* each : history.gathers())
    if (counts(*each, history)) {
      const auto last = who.last_to(rank, *each).first;
      meter.add_gather(std::clamp(last, each->start, std::max(each->start, each->end)), each->end);
    }
  sums.overlap = meter.summary();
  auto from = nanoseconds::max();
  auto until = nanoseconds::min();
  for (const auto* each : history.uses()) {
    if (history.warms_up(each->asked))
      continue;
    from = std::min(from, each->asked);
    until = std::max(until, each->ended);
  }
  if (sums.overlap.blocks != 0) {
    sums.elapsed = until - from;
    sums.link_busy = busy_time(history.copies(), from, until);
  }
  sums.steps = history.ended_steps();
  return sums;
}

/// What to do about late blocks of one rank: each is asked about the last step that it is in, which
/// is of its own denoiser.
class adviser {
public:
  adviser(const trace& run, const rank_history& history, std::size_t ranks)
      : run_(&run), history_(&history), ranks_(ranks), steps_(history.steps()) {
    if (history.open_step())
      steps_.push_back(*history.open_step());
    if (steps_.empty())
      steps_.push_back({nanoseconds::min(), nanoseconds::max()});
    const auto ended = history.steps().size();
    for (const auto* use : history.uses()) {
      const auto after =
          std::ranges::upper_bound(steps_, use->begun, {}, &rank_history::stretch::from);
      if (after == steps_.begin() || use->ended > std::prev(after)->until)
        continue;
      const auto number = static_cast<std::size_t>(std::prev(after) - steps_.begin());
      if (number < ended || !step_of_.contains(use->block))
        step_of_[use->block] = number; // Of one that has not ended only where there is no other.
    }
  }

  [[nodiscard]] std::string on(const late_block& late);

private:
  const trace* run_;
  const rank_history* history_;
  std::size_t ranks_;
  std::vector<rank_history::stretch> steps_;
  std::map<std::uint32_t, std::size_t> step_of_; ///< By block.
  std::map<std::size_t, step_model> models_;
  std::map<std::pair<wait_cause, std::size_t>, std::string> known_; ///< Models take their time.
};

std::string adviser::on(const late_block& late) {
  if (late.cause == wait_cause::not_recorded && run_->dropped != 0)
    return "record fewer steps: spans are missing";
  if (late.cause == wait_cause::link_busy && !late.by_block)
    return "nothing: what the link was busy with is no block's and comes once, not in every step";
  const auto step = step_of_.find(late.block);
  // Of other components than denoisers all blocks may stay, or none.
  const std::string keep_all =
      "keep its component on the device: leave it out of the configuration's components";
  if (step == step_of_.end() && late.cause == wait_cause::link_busy)
    return keep_all;
  if (step == step_of_.end() && late.cause == wait_cause::demanded_late)
    return "begin the request earlier, announce the order of its blocks, or " + keep_all;
  if (step == step_of_.end() && late.cause == wait_cause::slot_held)
    return "use one slot more";
  const auto number = step == step_of_.end() ? steps_.size() : step->second;
  auto& what = known_[{late.cause, number}];
  if (what.empty()) {
    const auto model = models_.find(number);
    const auto stretch = number == steps_.size() ? rank_history::stretch{} : steps_[number];
    what = (model != models_.end()
                ? model
                : models_.emplace(number, step_model(*history_, stretch, ranks_)).first)
               ->second.advice(late.cause);
  }
  return what;
}

std::map<std::uint32_t, rank_history> histories_of(const trace& run) {
  std::map<std::uint32_t, rank_history> histories;
  for (const auto rank : ranks_of(run))
    histories.try_emplace(rank, run, rank);
  return histories;
}

} // namespace

std::string_view to_string(wait_cause cause) noexcept {
  switch (cause) {
    case wait_cause::link_busy:
      return "link_busy";
    case wait_cause::slot_held:
      return "slot_held";
    case wait_cause::demanded_late:
      return "demanded_late";
    case wait_cause::message_late:
      return "message_late";
    case wait_cause::rank_late:
      return "rank_late";
    case wait_cause::source_cold:
      return "source_cold";
    case wait_cause::copy_slow:
      return "copy_slow";
    case wait_cause::not_recorded:
      break;
  }
  return "not_recorded";
}

double rank_part::link_use() const noexcept {
  return ratio(link_busy, elapsed);
}

double rank_part::distance_to_bound() const noexcept {
  return ratio(overlap.observed() - overlap.lower_bound(), overlap.lower_bound());
}

trace_report analyse(const trace& run) {
  trace_report report;
  const auto histories = histories_of(run);
  detective who(run, histories);
  for (const auto& [rank, history] : histories) {
    report.ranks.push_back(sums_of(rank, history, who));
    adviser advice(run, history, histories.size());
    std::map<std::uint32_t, block_part> parts;
    for (std::size_t i = 0; i != history.uses().size(); ++i) {
      const auto& use = *history.uses()[i];
      if (history.warms_up(use.asked))
        continue;
      const auto fetch = history.fetch_of(i);
      auto& part = parts[use.block];
      part.rank = rank;
      part.block = use.block;
      ++part.uses;
      part.wait += use.wait();
      part.compute += use.ended - use.begun;
      part.transfer += fetch.copying;
      for (const auto* each : fetch.gathers)
        part.transfer += each->end - each->start;
      if (!is_late(use))
        continue;
      ++part.late;
      auto& late = report.late.emplace_back(who.explain(rank, i));
      late.advice = advice.on(late);
    }
    for (auto& [block, part] : parts) {
      part.compute /= static_cast<std::int64_t>(part.uses);
      part.transfer /= static_cast<std::int64_t>(part.uses);
      report.blocks.push_back(part);
    }
  }
  std::ranges::stable_sort(report.late, {}, &late_block::asked);
  return report;
}

} // namespace ferry
