// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

namespace ferry {

/// What the program returns to the shell. The numbers are a promise to scripts.
enum class exit_code : int {
  done = 0,
  failed = 1,        ///< While running.
  rejected = 2,      ///< Before anything was touched: usage, configuration, checkpoint.
  differs = 3,       ///< Ran, but a comparison failed.
  interrupted = 130, ///< By Ctrl-C; shells use the same number.
};

/// Writes the reason of `f` to standard error as one line, and returns `code`.
exit_code report(const failure& f, exit_code code);

} // namespace ferry
