// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <optional>
#include <string>

namespace ferry {

/// The type that a run's weights have where it computes.
struct compute_dtype {
  std::optional<dtype> type; ///< Nothing: that of the checkpoint.
  dtype stored = dtype::f32; ///< That of the checkpoint.
  std::string reason;        ///< What made `auto` choose it; empty where nobody chose.
};

/// Refuses what `--compute-dtype` does not know with `invalid_argument`.
[[nodiscard]] result<void> check_compute_dtype(const std::optional<std::string>& asked);

/// Returns the type that most bytes of floating-point weights have; f32 if there are none.
/// @pre loaded as stored
[[nodiscard]] dtype stored_dtype(const pipeline& subject);

/// Follows `--compute-dtype`, nothing if it was not given: `bf16`, `f32`, or `auto`, which computes
/// one small product of matrices in f32 and one in the type of the checkpoint, and takes f32 if
/// that is faster, else the checkpoint's: it never narrows. On a device whose copies do not convert
/// it takes the checkpoint's. @pre checked
/// @return `unsupported` for another type than `stored` on such a device
[[nodiscard]] result<compute_dtype> choose_compute_dtype(const std::optional<std::string>& asked,
                                                         const device_traits& target, dtype stored);

/// Returns "f32" and the like.
[[nodiscard]] std::string to_string(const compute_dtype& chosen);

} // namespace ferry
