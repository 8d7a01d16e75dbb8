// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace_recorder.hpp"

#include "guarded.hpp"

#include <chrono>
#include <utility>

namespace ferry {
namespace {

/// A buffer lasts ten times as long in a busy runtime.
constexpr std::chrono::milliseconds flush_period{10};

} // namespace

trace_recorder::trace_recorder(caf::actor_config& config, std::shared_ptr<trace_log> log)
    : trace_recorder_actor::base(config), log_(std::move(log)) {}

// What it does itself is no part of the run.
trace_recorder::behavior_type trace_recorder::make_behavior() {
  return {
      [this](const flush_trace&) { return unrecorded([&] { flush_again(); }); },
      [this](const start_child&) { return unrecorded([&] { flush_again(); }); },
      [this](const drain_child&) { return unrecorded([&] { drained_ = true; }); },
      [this](const release_child&) { return unrecorded([&] { return release(); }); },
  };
}

void trace_recorder::flush_again() {
  log_->flush();
  if (!drained_)
    remind<trace_recorder_actor>(this, flush_period, flush_trace{});
}

answered trace_recorder::release() {
  log_->flush();
  quit();
  return {};
}

} // namespace ferry
