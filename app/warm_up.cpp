// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "warm_up.hpp"

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/log.hpp>

#include "caught.hpp"
#include "models/diffusion_model.hpp"
#include "request_terms.hpp"

#include <exception>
#include <string>
#include <utility>

namespace ferry {

namespace {

failure because(failure cause) {
  cause.detail = "the warm-up request failed: " + cause.detail;
  return cause;
}

result<void> run(const diffusion_model& model, const request& asked) {
  log(log_level::info, "ferry.app", "warm up steps=" + std::to_string(asked.steps));
  try {
    if (auto made = model.run(asked, {}); !made)
      return tl::unexpected(made.error());
    return {};
  } catch (const std::exception&) {
    return tl::unexpected(caught());
  }
}

} // namespace

result<void> warm_up(runtime& through, const diffusion_model& model) {
  const auto asked = model.warm_up_request();
  if (!asked)
    return {};
  if (auto begun = through.begin_request(terms_of(model, *asked)); !begun)
    return tl::unexpected(because(begun.error()));
  auto done = run(model, *asked);
  if (!done) // The other ranks, if there are any, would wait for what it did not run.
    done = tl::unexpected(through.leave_ranks(because(done.error())));
  auto ended = through.end_request();
  if (!done)
    return done;
  if (!ended)
    return tl::unexpected(because(ended.error()));
  return {};
}

result<void> warm_up(const diffusion_model& model) {
  const auto asked = model.warm_up_request();
  if (!asked)
    return {};
  if (auto done = run(model, *asked); !done)
    return tl::unexpected(because(done.error()));
  return {};
}

} // namespace ferry
