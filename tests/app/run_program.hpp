// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "support/scratch_directory.hpp"

#include <sys/types.h>

#include <string>
#include <string_view>
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

/// `ferry`, or another program, while it runs.
class running_program {
public:
  /// Its environment is that of the test and `variables`, each `NAME=value`.
  explicit running_program(const std::vector<std::string>& arguments,
                           const std::vector<std::string>& variables = {},
                           const std::string& program = FERRY_PROGRAM);
  running_program(const running_program&) = delete;
  running_program& operator=(const running_program&) = delete;
  ~running_program();

  /// Reads standard error until it has said `text`.
  /// @throws std::runtime_error if it ends without
  void wait_until_it_says(std::string_view text);

  void send(int signal) const;

  /// Waits for its end.
  [[nodiscard]] program_outcome finish();

private:
  /// Returns whether there was more.
  bool read_more();

  scratch_directory scratch_;
  int err_ = -1;
  pid_t child_ = 0;
  std::string said_;
};

} // namespace ferry::test
