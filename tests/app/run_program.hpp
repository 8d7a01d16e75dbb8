// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

namespace ferry::test {

/// What a run of the program left.
struct program_outcome {
  int code = -1; ///< The exit code; -1 if a signal ended it.
  std::string out;
  std::string err;
};

/// Runs a program without a terminal and with empty standard input. The first word is its path.
[[nodiscard]] program_outcome run(std::vector<std::string> words);

/// Runs `ferry` with these arguments.
[[nodiscard]] program_outcome run_program(const std::vector<std::string>& arguments);

} // namespace ferry::test
