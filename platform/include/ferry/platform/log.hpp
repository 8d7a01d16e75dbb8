// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

namespace ferry {

enum class log_level { trace, debug, info, warn, error, off };

/// Reads `trace`, `debug`, `info`, `warn`, `error` or `off`. Returns false for anything else.
[[nodiscard]] bool parse(std::string_view text, log_level& level) noexcept;

/// Writes one line to standard error if `level` is at least the one in force. `logger` is the
/// component ("ferry.actors"), `line` reads `verb object key=value ...`. Thread-safe.
void log(log_level level, std::string_view logger, std::string_view line);

/// Sets the least level that is written. `warn` until then.
void log_at_least(log_level level) noexcept;

} // namespace ferry
