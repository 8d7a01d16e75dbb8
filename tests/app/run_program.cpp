// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <stdexcept>
#include <utility>

namespace ferry::test {

namespace {

/// Where a child's output goes.
struct outputs {
  std::string out; ///< A file.
  int err;         ///< A descriptor.
};

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& text : texts)
    all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

pid_t spawn(std::vector<std::string> words, const outputs& to,
            std::vector<std::string> variables = {}) {
  const auto argv = pointers_to(words);
  for (auto** each = environ; *each != nullptr; ++each)
    variables.emplace_back(*each);
  const auto environment = pointers_to(variables);

  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, to.out.c_str(), O_WRONLY | O_CREAT,
                                     0600);
  ::posix_spawn_file_actions_adddup2(&files, to.err, STDERR_FILENO);
  posix_spawnattr_t attributes;
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const auto spawned =
      ::posix_spawn(&child, argv[0], &files, &attributes, argv.data(), environment.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (spawned != 0)
    throw std::runtime_error("cannot run " + words[0]);
  return child;
}

int exit_code_of(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child)
    throw std::runtime_error("a child is lost");
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::vector<std::string> with_program(const std::vector<std::string>& arguments,
                                      const std::string& program = FERRY_PROGRAM) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

} // namespace

program_outcome run(std::vector<std::string> words) {
  const scratch_directory scratch;
  const auto out = scratch.path() / "out";
  const auto err = scratch.path() / "err";
  const int written = ::open(err.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const auto child = spawn(std::move(words), {out, written});
  ::close(written);
  const auto code = exit_code_of(child);
  return {.code = code, .out = read_text(out), .err = read_text(err)};
}

program_outcome run_program(const std::vector<std::string>& arguments) {
  return run(with_program(arguments));
}

running_program::running_program(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& variables,
                                 const std::string& program) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::runtime_error("no pipe is left");
  err_ = ends[0];
  child_ = spawn(with_program(arguments, program), {scratch_.path() / "out", ends[1]}, variables);
  ::close(ends[1]);
}

running_program::~running_program() {
  if (child_ != 0) {
    send(SIGKILL);
    static_cast<void>(exit_code_of(child_));
  }
  ::close(err_);
}

bool running_program::read_more() {
  std::array<char, 4096> buffer{};
  const auto count = ::read(err_, buffer.data(), buffer.size());
  if (count > 0)
    said_.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0;
}

void running_program::wait_until_it_says(std::string_view text) {
  while (said_.find(text) == std::string::npos)
    if (!read_more())
      throw std::runtime_error("the program only said: " + said_);
}

void running_program::send(int signal) const {
  ::kill(child_, signal);
}

program_outcome running_program::finish() {
  while (read_more()) {
  }
  const auto code = exit_code_of(std::exchange(child_, 0));
  return {.code = code, .out = read_text(scratch_.path() / "out"), .err = said_};
}

} // namespace ferry::test
