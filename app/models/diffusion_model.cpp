// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/diffusion_model.hpp"

#include <array>
#include <exception>
#include <utility>

namespace ferry {

result<generated> diffusion_model::run(const request& asked, const run_callbacks& tell) const {
  if (auto valid = check(asked); !valid) {
    return tl::unexpected{valid.error()};
  }
  std::array<grouped_request, 1> alone{{{.asked = asked, .tell = tell}}};
  run_together(alone, {});
  auto& ended = alone.front();
  if (ended.failed) {
    std::rethrow_exception(ended.failed);
  }
  return std::move(*ended.made);
}

} // namespace ferry
