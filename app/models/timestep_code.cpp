// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/timestep_code.hpp"

#include <ATen/ATen.h>

#include <cmath>

namespace ferry {

at::Tensor timestep_code(double timestep, std::int64_t frequencies, at::Device where) {
  const auto half = frequencies / 2;
  const auto exponent =
      at::arange(half, at::TensorOptions(at::kFloat).device(where)) * -std::log(10000.0) / half;
  const auto angle = (exponent.exp() * timestep).unsqueeze(0);
  return at::cat({angle.cos(), angle.sin()}, -1);
}

} // namespace ferry
