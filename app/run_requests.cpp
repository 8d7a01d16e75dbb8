// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_requests.hpp"

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/log.hpp>
#include <ferry/platform/rendezvous.hpp>

#include "caught.hpp"
#include "exit_code.hpp"
#include "interrupt_watch.hpp"
#include "progress_bar.hpp"
#include "run_output.hpp"
#include "span_recorder.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>

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

/// A series of requests while it goes on.
class series {
public:
  series(const std::vector<asked_request>& asked, const run_context& where)
      : asked_(asked), where_(where) {}

  [[nodiscard]] const run_tally& tally() const noexcept { return tally_; }

  void run(std::size_t index) {
    log(log_level::info, "ferry.app",
        "begin request number=" + std::to_string(index + 1) +
            " of=" + std::to_string(asked_.size()));
    const auto started = steady::now();
    auto made = where_.through == nullptr ? compute(index) : compute_through(index);
    tally_.wall_s += seconds_since(started);
    if (first_allocations_)
      tally_.allocations_after_first_step =
          where_.target.counters().allocations - *first_allocations_;
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

private:
  result<generated> compute_through(std::size_t index) {
    auto& through = *where_.through;
    const auto begun = [&] {
      const interrupt_watch::during waiting(where_.interrupt, leaving(where_.meeting));
      return through.begin_request({.steps = static_cast<std::uint32_t>(asked_[index].what.steps)});
    }();
    if (!begun)
      throw ferry_error(named(asked_[index], begun.error()));
    auto made = [&] {
      const interrupt_watch::during cancelling(
          where_.interrupt, [&] { static_cast<void>(through.cancel_request(*begun)); });
      return compute(index);
    }();
    if (auto ended = through.end_request(); !ended)
      throw ferry_error(named(asked_[index], made ? ended.error() : made.error()));
    return made;
  }

  result<generated> compute(std::size_t index) {
    try {
      const auto& what = asked_[index].what;
      std::optional<progress_bar> bar;
      if (!where_.quiet)
        bar.emplace(title(index), static_cast<std::uint64_t>(what.steps));
      auto made = where_.model.run(what, callbacks(bar));
      if (made)
        return finite(contiguous(std::move(*made)));
      return made;
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

  [[nodiscard]] std::string title(std::size_t index) const {
    if (asked_.size() == 1)
      return where_.title;
    return where_.title + ", request " + std::to_string(index + 1) + " of " +
           std::to_string(asked_.size());
  }

  run_callbacks callbacks(std::optional<progress_bar>& bar) {
    run_callbacks tell;
    tell.step_begins = [this](std::size_t, std::size_t) {
      if (where_.interrupt.interrupted())
        throw ferry_error({.code = errc::cancelled, .detail = "the run was interrupted"});
      step_started_ = steady::now();
      mark(mark_step_begins);
    };
    tell.step_ended = [this, &bar](std::size_t, std::size_t) {
      tally_.step_s.push_back(seconds_since(step_started_));
      mark(mark_step_ended);
      if (!first_allocations_)
        first_allocations_ = where_.target.counters().allocations;
      if (bar)
        bar->advance(1);
    };
    if (where_.reference != nullptr)
      tell.stage = [this](std::string_view stage, const at::Tensor& value) {
        where_.reference->compare(stage, value);
      };
    return tell;
  }

  void mark(const char* what) {
    if (where_.through != nullptr)
      where_.through->mark(what);
  }

  const std::vector<asked_request>& asked_;
  const run_context& where_;
  run_tally tally_;
  steady::time_point step_started_;
  std::optional<std::uint64_t> first_allocations_;
};

} // namespace

std::function<void()> leaving(std::shared_ptr<rendezvous> meeting) {
  return [meeting = std::move(meeting)] {
    if (meeting != nullptr)
      meeting->poison({.code = errc::cancelled, .detail = "the run was interrupted"});
  };
}

run_tally run_requests(const std::vector<asked_request>& asked, const run_context& where) {
  series all(asked, where);
  for (std::size_t i = 0; i < asked.size() && !where.interrupt.interrupted(); ++i)
    all.run(i);
  return all.tally();
}

} // namespace ferry
