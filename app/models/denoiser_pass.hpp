// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/call.hpp>
#include <ferry/torch/tensor_visit.hpp>

#include "models/run_blocks.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <exception>
#include <span>
#include <vector>

namespace ferry {

/// One run through a denoiser: what it is asked, and what came of it.
///
/// A `Denoiser` says in `input` what it is asked, in `watch` who is told of its blocks, and does a
/// pass in three parts: `begin` makes a `passing`, `run` sends several of these through the blocks,
/// and `end` makes the velocity of one. Its `forward(input, watch)` is the three for one pass.
template <class Denoiser>
struct denoiser_pass {
  typename Denoiser::input asked;
  typename Denoiser::watch watch;
  at::Tensor velocity = {};
  std::exception_ptr failed = nullptr; ///< Set: there is no velocity, and why.
};

namespace detail {

/// One pass while it runs beside others, inside the denoiser's hooks as a call of its own.
template <class Denoiser>
struct flight {
  flight(const Denoiser& denoiser, denoiser_pass<Denoiser>& made)
      : pass(made), asked(made.asked), scope(denoiser.hooks(), denoiser, "forward") {}

  denoiser_pass<Denoiser>& pass;
  typename Denoiser::input asked; ///< As hooks leave it.
  hook_scope scope;
  typename Denoiser::passing now;
};

template <class Denoiser>
void run_side_by_side(const Denoiser& denoiser, std::span<denoiser_pass<Denoiser>> passes) {
  std::deque<flight<Denoiser>> flights;
  std::vector<typename Denoiser::passing*> all;
  for (auto& each : passes) {
    auto& begun = flights.emplace_back(denoiser, each);
    isolate(each, [&] {
      tensor_list tensors;
      collect(begun.asked, tensors);
      begun.scope.enter(tensors);
      begun.now = denoiser.begin(begun.asked, each.watch);
      all.push_back(&begun.now);
    });
  }
  denoiser.run(all);
  for (auto& each : flights) {
    auto& pass = each.pass;
    if (!pass.failed) {
      pass.failed = each.now.failed;
    }
    isolate(pass, [&] {
      pass.velocity = denoiser.end(each.now);
      const std::array outputs{&pass.velocity};
      each.scope.leave(outputs);
    });
  }
}

} // namespace detail

/// Runs passes of one denoiser, at most `most` side by side: each block's weights come once for so
/// many. A pass has the bytes it would have alone. One that throws fails, the others go on.
///
/// A denoiser whose forward a hook replaces is called pass by pass: the hook has it as a whole.
template <class Denoiser>
void run_passes(const Denoiser& denoiser, std::span<denoiser_pass<Denoiser>> passes,
                std::size_t most) {
  const auto together = denoiser.hooks().replaces_forward() ? 1 : most;
  while (!passes.empty()) {
    const auto some = passes.first(std::min(together, passes.size()));
    passes = passes.subspan(some.size());
    if (some.size() > 1) {
      detail::run_side_by_side(denoiser, some);
    } else {
      auto& alone = some.front();
      isolate(alone, [&] { alone.velocity = call(denoiser, alone.asked, alone.watch); });
    }
  }
}

/// Does one pass of its own: what `forward` of a `Denoiser` does.
/// @throws what a block throws
template <class Denoiser>
at::Tensor run_alone(const Denoiser& denoiser, const typename Denoiser::input& asked,
                     const typename Denoiser::watch& watch) {
  auto now = denoiser.begin(asked, watch);
  const std::array all{&now};
  denoiser.run(all);
  if (now.failed) {
    std::rethrow_exception(now.failed);
  }
  return denoiser.end(now);
}

} // namespace ferry
