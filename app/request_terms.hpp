// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/wave_terms.hpp>

namespace ferry {

class diffusion_model;
struct request;

/// Returns what ranks compare of a request of `model` before it begins. Which blocks it runs is not
/// known.
[[nodiscard]] wave_terms terms_of(const diffusion_model& model, const request& asked);

} // namespace ferry
