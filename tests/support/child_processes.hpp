// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "support/scratch_directory.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace ferry::test {

/// How a process ended.
struct process_end {
  int code = -1;  ///< The exit code; -1 if a signal ended it.
  int signal = 0; ///< The signal that ended it; 0 if none.
  std::string out;
};

/// Programs that run side by side. Kills and collects what is left of them at the end.
class child_processes {
public:
  child_processes() = default;
  child_processes(const child_processes&) = delete;
  child_processes& operator=(const child_processes&) = delete;
  ~child_processes();

  void start(std::vector<std::string> words);

  /// Waits for the end of the program that was started as number `position`, counted from 0.
  process_end wait(std::size_t position);
  void kill(std::size_t position);

private:
  struct child {
    ::pid_t id;
    bool ended;
  };

  scratch_directory scratch_;
  std::vector<child> children_;
};

} // namespace ferry::test
