// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include "models/request.hpp"
#include "models/run_blocks.hpp"
#include "models/run_callbacks.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace ferry {

/// What a request ended in. Both are float32 and in host memory.
struct generated {
  at::Tensor latents; ///< As the last step left them.

  /// `[frames, 3, height, width]`, red, green, blue from -1 to 1. Undefined where the checkpoint
  /// has no decoder.
  at::Tensor pictures;
};

/// One of several requests that run step by step together, and what became of it. Whatever is
/// thrown on its behalf, by `tell` too, ends it alone.
struct grouped_request {
  request asked = {};
  run_callbacks tell = {};
  std::optional<generated> made = std::nullopt;
  std::exception_ptr failed = nullptr; ///< Set: it left the group, and why.
};

/// How a group of requests runs.
struct group_options {
  /// Most passes that use a block while it is on the device, at least 1: those of the branches of
  /// guidance, then those of other requests.
  std::size_t passes_per_fetch = std::numeric_limits<std::size_t>::max();

  /// A step that any request takes begins, and has ended. May be empty. An exception ends the run
  /// of all.
  std::function<void()> step_begins = {};
  std::function<void()> step_ended = {};
};

/// Begins those requests that `check` lets pass, each by itself: one that fails is no member.
template <class Check, class Begin>
auto begin_members(std::span<grouped_request> group, const Check& check, const Begin& begin) {
  std::vector<decltype(begin(group.front()))> members;
  for (auto& each : group) {
    isolate(each, [&] {
      if (auto valid = check(each.asked); !valid) {
        throw ferry_error(valid.error());
      }
      members.push_back(begin(each));
    });
  }
  return members;
}

/// Takes `members` through their steps: in each step all that have it, have not failed and have
/// said that they begin it go through `step(index, members)` together. A `Member` has `of`, its
/// `grouped_request`, and `schedule`, whose `steps()` it takes.
template <class Member, class Step>
void run_steps(std::vector<Member>& members, const group_options& how, const Step& step) {
  for (std::size_t i = 0;; ++i) {
    std::vector<Member*> here;
    for (auto& each : members) {
      if (!each.of->failed && i < each.schedule.steps()) {
        here.push_back(&each);
      }
    }
    if (here.empty()) {
      return;
    }
    if (how.step_begins) {
      how.step_begins();
    }
    for (auto* each : here) {
      isolate(*each->of, [&] {
        if (each->of->tell.step_begins) {
          each->of->tell.step_begins(i, each->schedule.steps());
        }
      });
    }
    std::erase_if(here, [](const Member* each) { return each->of->failed != nullptr; });
    step(i, here);
    for (auto* each : here) {
      isolate(*each->of, [&] {
        if (each->of->tell.step_ended) {
          each->of->tell.step_ended(i, each->schedule.steps());
        }
      });
    }
    if (how.step_ended) {
      how.step_ended();
    }
  }
}

} // namespace ferry
