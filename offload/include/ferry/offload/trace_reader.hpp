// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/trace.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <string_view>

namespace ferry {

/// Most events of one file; each takes about a hundred bytes of memory.
inline constexpr std::size_t most_trace_events = 20'000'000;

/// Reads what a `trace_writer` wrote. A file that ends early is read up to its last whole event and
/// is not `complete`. Anything else that is no such trace is refused with `invalid_argument`, or
/// `unsupported` if it is one of another format; `subject` begins every refusal.
[[nodiscard]] result<trace> read_trace(std::istream& in, std::string_view subject);

/// @return also `not_found` with what the system says of `path`
[[nodiscard]] result<trace> read_trace(const std::filesystem::path& path);

} // namespace ferry
