// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <string_view>

namespace ferry {

/// What the program returns to the shell. The numbers are a promise to scripts.
enum class exit_code : int {
  done = 0,
  failed = 1,        ///< While running.
  rejected = 2,      ///< Before anything was touched: usage, configuration, checkpoint.
  differs = 3,       ///< Ran, but a comparison failed.
  interrupted = 130, ///< By Ctrl-C or SIGTERM; what shells return for the former.
};

/// Returns `rejected` where `reason` is one that is found before anything is touched, else
/// `failed`.
[[nodiscard]] exit_code exit_code_of(const failure& reason) noexcept;

/// Writes the reason of `f` to standard error as one line that names `program`, and returns `code`.
exit_code report(const failure& f, exit_code code, std::string_view program = "ferry");

} // namespace ferry
