// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_requests.hpp"

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/wave_terms.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/log.hpp>
#include <ferry/platform/mapped_file.hpp>

#include "caught.hpp"
#include "exit_code.hpp"
#include "interrupt_watch.hpp"
#include "progress_bar.hpp"
#include "report.hpp"
#include "request_terms.hpp"
#include "run_output.hpp"
#include "span_recorder.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry {

namespace {

using steady = std::chrono::steady_clock;

double seconds_since(steady::time_point started) {
  return std::chrono::duration<double>(steady::now() - started).count();
}

failure named(const asked_request& asked, failure reason) {
  if (!asked.origin.empty())
    reason.detail = asked.origin + ": " + reason.detail;
  return reason;
}

/// Refuses latents of which no picture can be made.
/// @pre `made` is contiguous
result<generated> finite(generated made) {
  const std::span values(made.latents.const_data_ptr<float>(),
                         static_cast<std::size_t>(made.latents.numel()));
  const auto odd = std::ranges::count_if(values, [](float each) { return !std::isfinite(each); });
  if (odd == 0)
    return made;
  return tl::unexpected(failure{.code = errc::unsupported,
                                .detail = "the latents are not finite: " + std::to_string(odd) +
                                          " of " + std::to_string(values.size()) +
                                          " values; expected a guidance, and weights, that do "
                                          "not leave the range of a float"});
}

failure reason_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception&) {
    return caught();
  }
}

/// A series of requests while it goes on.
class series {
public:
  series(const std::vector<asked_request>& asked, const run_context& where)
      : asked_(asked), where_(where) {}

  [[nodiscard]] const run_tally& tally() const noexcept { return tally_; }

  /// Runs those that follow. Returns whether there were any.
  bool run_next() {
    const auto count = next_group();
    if (count == 0)
      return false;
    std::vector<grouped_request> group(count);
    for (std::size_t i = 0; i < count; ++i) {
      log(log_level::info, "ferry.app",
          "begin request number=" + std::to_string(next_ + i + 1) +
              " of=" + std::to_string(asked_.size()));
      group[i].asked = asked_[next_ + i].what;
      group[i].tell.stage = stage_callback();
    }
    const auto started = steady::now();
    const auto ran = where_.through == nullptr ? compute(group) : compute_through(group);
    tally_.wall_s += seconds_since(started);
    if (first_allocations_)
      tally_.allocations_after_first_step =
          where_.target.counters().allocations - *first_allocations_;
    for (auto& each : group)
      finish(next_++, each, ran);
    return true;
  }

private:
  /// Returns how many requests run together next.
  [[nodiscard]] std::size_t next_group() const {
    std::size_t passes = 0;
    for (auto last = next_; last < asked_.size(); ++last) {
      passes += passes_of(asked_[last].what);
      if (last > next_ && passes > where_.passes_per_fetch.value_or(1))
        return last - next_;
    }
    return asked_.size() - next_;
  }

  /// Returns the passes of a step.
  [[nodiscard]] std::size_t passes_of(const request& asked) const {
    return ferry::terms_of(where_.model, asked).passes;
  }

  result<void> compute_through(std::vector<grouped_request>& group) {
    auto& through = *where_.through;
    const auto begun = through.begin_request(terms_of(group));
    if (!begun)
      throw ferry_error(named(asked_[next_], begun.error()));
    auto ran = [&] {
      const interrupt_watch::during cancelling(
          where_.interrupt, [&] { static_cast<void>(through.cancel_request(*begun)); });
      return compute(group);
    }();
    // The others would wait for what it did not run.
    const auto failed = first_failure(group, ran);
    if (failed && where_.in_waves)
      throw ferry_error(*failed);
    if (auto ended = through.end_request(); !ended)
      throw ferry_error(failed.value_or(named(asked_[next_], ended.error())));
    return ran;
  }

  /// Passes that share fetches are one run through the blocks for other ranks.
  [[nodiscard]] wave_terms terms_of(const std::vector<grouped_request>& group) const {
    std::size_t passes = 0;
    for (const auto& each : group)
      passes += passes_of(each.asked);
    const auto together = where_.passes_per_fetch.value_or(passes);
    return {.steps = static_cast<std::uint32_t>(steps_of(group)),
            .passes = static_cast<std::uint32_t>((passes + together - 1) / together)};
  }

  [[nodiscard]] static std::int64_t steps_of(const std::vector<grouped_request>& group) {
    std::int64_t most = 0;
    for (const auto& each : group)
      most = std::max(most, each.asked.steps);
    return most;
  }

  /// Returns why the group or one of its requests failed, and which.
  [[nodiscard]] std::optional<failure> first_failure(const std::vector<grouped_request>& group,
                                                     const result<void>& ran) const {
    if (!ran)
      return named(asked_[next_], ran.error());
    const auto failed = std::ranges::find_if(group, left);
    if (failed == group.end())
      return std::nullopt;
    const auto place = static_cast<std::size_t>(failed - group.begin());
    return named(asked_[next_ + place], reason_of(failed->failed));
  }

  /// Whether a request has left its group; a step that all have left did not end.
  static bool left(const grouped_request& each) { return each.failed != nullptr; }

  /// Fails where something ends the whole group.
  result<void> compute(std::vector<grouped_request>& group) {
    try {
      std::optional<progress_bar> bar;
      if (!where_.quiet)
        bar.emplace(title(group.size()), static_cast<std::uint64_t>(steps_of(group)));
      group_options how{.step_begins = [this] { begin_step(); },
                        .step_ended =
                            [this, &bar, &group] {
                              if (!std::ranges::all_of(group, left))
                                end_step(bar);
                            }};
      if (where_.passes_per_fetch)
        how.passes_per_fetch = *where_.passes_per_fetch;
      where_.model.run_together(group, how);
      return check_lost_pages();
    } catch (const std::exception&) {
      return tl::unexpected(caught());
    }
  }

  void begin_step() {
    if (where_.interrupt.interrupted())
      throw ferry_error({.code = errc::cancelled, .detail = "the run was interrupted"});
    if (auto there = check_lost_pages(); !there)
      throw ferry_error(std::move(there.error()));
    step_started_ = steady::now();
    mark(mark_step_begins);
  }

  void end_step(std::optional<progress_bar>& bar) {
    if (tally_.step_s.empty())
      tally_.first_step_end_s = seconds_since_process_start();
    tally_.step_s.push_back(seconds_since(step_started_));
    mark(mark_step_ended);
    if (!first_allocations_)
      first_allocations_ = where_.target.counters().allocations;
    if (bar)
      bar->advance(1);
  }

  /// Counts a request that has run, and hands on what it ended in.
  void finish(std::size_t index, grouped_request& ended, const result<void>& ran) {
    auto made = outcome_of(ended, ran);
    if (made)
      made = keep(index, std::move(*made));
    if (made) {
      ++tally_.done;
    } else if (!where_.interrupt.interrupted()) {
      ++tally_.failed;
      if (!where_.quiet)
        report(named(asked_[index], made.error()), exit_code::failed);
    }
  }

  static result<generated> outcome_of(grouped_request& ended, const result<void>& ran) {
    if (ended.failed)
      return tl::unexpected(reason_of(ended.failed));
    if (!ran)
      return tl::unexpected(ran.error());
    try {
      return finite(contiguous(std::move(*ended.made)));
    } catch (const std::exception&) {
      return tl::unexpected(caught());
    }
  }

  result<generated> keep(std::size_t index, generated made) {
    try {
      if (where_.keep)
        where_.keep(index, made);
      return made;
    } catch (const std::exception&) {
      return tl::unexpected(caught());
    }
  }

  [[nodiscard]] std::string title(std::size_t count) const {
    if (asked_.size() == 1)
      return where_.title;
    const auto first = std::to_string(next_ + 1);
    return where_.title +
           (count == 1 ? ", request " + first
                       : ", requests " + first + " to " + std::to_string(next_ + count)) +
           " of " + std::to_string(asked_.size());
  }

  [[nodiscard]] std::function<void(std::string_view, const at::Tensor&)> stage_callback() const {
    if (where_.reference == nullptr)
      return {};
    return [this](std::string_view stage, const at::Tensor& value) {
      where_.reference->compare(stage, value);
    };
  }

  void mark(const char* what) {
    if (where_.through != nullptr)
      where_.through->mark(what);
  }

  const std::vector<asked_request>& asked_;
  const run_context& where_;
  run_tally tally_;
  std::size_t next_ = 0; ///< The first request that has not run.
  steady::time_point step_started_;
  std::optional<std::uint64_t> first_allocations_;
};

} // namespace

run_tally run_requests(const std::vector<asked_request>& asked, const run_context& where) {
  series all(asked, where);
  while (!where.interrupt.interrupted() && all.run_next())
    ;
  return all.tally();
}

} // namespace ferry
