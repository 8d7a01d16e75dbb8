// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/child_processes.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace ferry::test {

child_processes::~child_processes() {
  for (std::size_t position = 0; position < children_.size(); ++position) {
    if (children_[position].ended)
      continue;
    kill(position);
    ::waitpid(children_[position].id, nullptr, 0);
  }
}

void child_processes::start(std::vector<std::string> words) {
  const auto out = scratch_.path() / std::to_string(children_.size());
  std::vector<char*> argv;
  for (auto& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  ::pid_t id = 0;
  const auto spawned = ::posix_spawn(&id, argv[0], &files, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (spawned != 0)
    throw std::runtime_error("cannot run " + words[0]);
  children_.push_back({id, false});
}

process_end child_processes::wait(std::size_t position) {
  auto& awaited = children_.at(position);
  int status = 0;
  if (awaited.ended || ::waitpid(awaited.id, &status, 0) != awaited.id)
    throw std::runtime_error("cannot wait for a child process");
  awaited.ended = true;
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .out = read_text(scratch_.path() / std::to_string(position))};
}

void child_processes::kill(std::size_t position) {
  ::kill(children_.at(position).id, SIGKILL);
}

} // namespace ferry::test
