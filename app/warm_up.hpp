// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

namespace ferry {

class diffusion_model;
class runtime;

/// Runs the request that `model` declares for warming up, once, as a request of `through`, which
/// has the model enabled. Whatever is offloaded: rings, learned order and caches are primed before
/// the first request that counts. Without such a request nothing happens.
/// @returns the cause if it fails; the request has ended, and the start of whoever serves fails
[[nodiscard]] result<void> warm_up(runtime& through, const diffusion_model& model);

/// The same with all weights in place.
[[nodiscard]] result<void> warm_up(const diffusion_model& model);

} // namespace ferry
