// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/platform/error.hpp>

#include <cstdint>
#include <string_view>

namespace ferry {

/// Packs a failure into CAF's error: the code, and as data the detail, block, rank and vendor code.
[[nodiscard]] caf::error to_error(const failure& reason);

/// Reads back what `to_error` packed. CAF's own errors become the nearest code: an answer that came
/// too late is `deadline_exceeded`, a receiver that is gone `transfer_aborted`, the rest
/// `internal`.
[[nodiscard]] failure to_failure(const caf::error& reason);

/// Tells the actor system how to print `errc`. Needed before 0.18 only.
void add_error_category(caf::actor_system_config& config);

#if FERRY_CAF_GENERATION >= 18
[[nodiscard]] bool from_string(std::string_view text, errc& code) noexcept;
[[nodiscard]] bool from_integer(std::uint8_t value, errc& code) noexcept;
template <class Inspector>
bool inspect(Inspector& f, errc& code) {
  return caf::default_enum_inspect(f, code);
}
#endif

} // namespace ferry

FERRY_ERROR_ENUM(ferry::errc, "ferry")
