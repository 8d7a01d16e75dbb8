// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/rotary.hpp"

#include <ATen/ATen.h>

namespace ferry {

at::Tensor axis_turns(const at::Tensor& positions, std::int64_t channels) {
  constexpr double theta = 10000.0;
  const auto exponent =
      at::arange(0, channels, 2, positions.options().dtype(at::kDouble)) / channels;
  const auto frequency = at::pow(theta, exponent).reciprocal_();
  const auto angle = at::outer(positions.to(at::kDouble), frequency);
  return at::complex(angle.cos().to(at::kFloat), angle.sin().to(at::kFloat));
}

at::Tensor rotate(const at::Tensor& heads, const at::Tensor& turns) {
  const auto pairs = at::view_as_complex(heads.to(at::kFloat).unflatten(-1, {-1, 2}));
  return at::view_as_real(pairs * turns).flatten(-2).to(heads.scalar_type());
}

} // namespace ferry
