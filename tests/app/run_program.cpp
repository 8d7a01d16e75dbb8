// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_program.hpp"

#include "support/scratch_directory.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

namespace ferry::test {

program_outcome run(std::vector<std::string> words) {
  const scratch_directory scratch;
  const auto out = scratch.path() / "out";
  const auto err = scratch.path() / "err";
  std::vector<char*> argv;
  for (auto& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  const auto spawned = ::posix_spawn(&child, argv[0], &files, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  int status = 0;
  if (spawned != 0 || ::waitpid(child, &status, 0) != child)
    throw std::runtime_error("cannot run " + words[0]);
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = read_text(out),
          .err = read_text(err)};
}

program_outcome run_program(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {FERRY_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run(std::move(words));
}

} // namespace ferry::test
