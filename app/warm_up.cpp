// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "warm_up.hpp"

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/log.hpp>

#include "caught.hpp"
#include "models/diffusion_model.hpp"

#include <exception>
#include <string>
#include <utility>

namespace ferry {

namespace {

tl::unexpected<failure> failed(failure cause) {
  cause.detail = "the warm-up request failed: " + cause.detail;
  return tl::unexpected(std::move(cause));
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
  if (auto begun = through.begin_request({.steps = static_cast<std::uint32_t>(asked->steps)});
      !begun)
    return failed(begun.error());
  auto done = run(model, *asked);
  auto ended = through.end_request();
  if (!done)
    return failed(done.error());
  if (!ended)
    return failed(ended.error());
  return {};
}

result<void> warm_up(const diffusion_model& model) {
  const auto asked = model.warm_up_request();
  if (!asked)
    return {};
  if (auto done = run(model, *asked); !done)
    return failed(done.error());
  return {};
}

} // namespace ferry
