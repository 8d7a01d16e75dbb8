// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "request_terms.hpp"

#include "models/diffusion_model.hpp"

#include <algorithm>
#include <cstdint>

namespace ferry {

wave_terms terms_of(const diffusion_model& model, const request& asked) {
  wave_terms terms{.steps = static_cast<std::uint32_t>(asked.steps)};
  for (const auto& [path, passes] : model.passes_per_step(asked))
    terms.passes = std::max(terms.passes, static_cast<std::uint32_t>(passes));
  return terms;
}

} // namespace ferry
