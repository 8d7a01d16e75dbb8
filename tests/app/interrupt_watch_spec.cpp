// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "interrupt_watch.hpp"

#include "support/catch.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <future>
#include <thread>

namespace ferry {
namespace {

void interrupt() {
  ::kill(::getpid(), SIGINT);
}

/// Forks a process that calls `body` and, if that returns, exits with what it returned.
template <class Body>
pid_t fork_into(const Body& body) {
  const auto child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    ::_exit(body());
  }
  return child;
}

int status_of(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

TEST_CASE("an interrupt acts once and is remembered", "[app][interrupt_watch]") {
  interrupt_watch watch;
  std::promise<void> acted;
  CHECK_FALSE(watch.interrupted());
  {
    const interrupt_watch::during during(watch, [&] { acted.set_value(); });

    interrupt();
    acted.get_future().wait();
  }

  CHECK(watch.interrupted());
}

TEST_CASE("a SIGTERM is an interrupt as well, and ends nothing beside a Ctrl-C, also afterwards",
          "[app][interrupt_watch]") {
  const auto [first, second] = GENERATE(table<int, int>({{SIGTERM, SIGINT}, {SIGINT, SIGTERM}}));
  const auto afterwards = GENERATE(false, true);
  const auto child = fork_into([one = first, other = second, afterwards] {
    {
      const interrupt_watch watch;
      std::raise(one);
      while (!watch.interrupted())
        std::this_thread::yield();
      if (!afterwards)
        std::raise(other);
    }
    if (afterwards)
      std::raise(other);
    return 0;
  });

  const auto status = status_of(child);
  CHECK(WIFEXITED(status));
}

TEST_CASE("what begins after the interrupt is acted on at once", "[app][interrupt_watch]") {
  interrupt_watch watch;
  {
    std::promise<void> acted;
    const interrupt_watch::during during(watch, [&] { acted.set_value(); });
    interrupt();
    acted.get_future().wait();
  }
  int acts = 0;

  const interrupt_watch::during late(watch, [&] { ++acts; });

  CHECK(acts == 1);
}

TEST_CASE("a second interrupt ends the process, whatever the first one does",
          "[app][interrupt_watch]") {
  std::array<int, 2> acting{};
  REQUIRE(::pipe(acting.data()) == 0);
  const auto child = fork_into([&] {
    interrupt_watch watch;
    const interrupt_watch::during during(watch, [&] {
      static_cast<void>(::write(acting[1], "x", 1) == 1);
      while (true)
        ::pause();
    });
    static_cast<void>(::write(acting[1], "r", 1) == 1);
    while (true)
      ::pause();
    return 0;
  });
  ::close(acting[1]);
  char seen = 0;
  REQUIRE(::read(acting[0], &seen, 1) == 1);
  ::kill(child, SIGINT);
  REQUIRE(::read(acting[0], &seen, 1) == 1);
  CHECK(seen == 'x');

  ::kill(child, SIGINT);

  const auto status = status_of(child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
  ::close(acting[0]);
}

TEST_CASE("an interrupt that the process ignores stays ignored", "[app][interrupt_watch]") {
  const auto child = fork_into([] {
    std::signal(SIGINT, SIG_IGN);
    const interrupt_watch watch;
    interrupt();
    return watch.interrupted() ? 1 : 0;
  });

  const auto status = status_of(child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("interrupts act as before once the watch is over", "[app][interrupt_watch]") {
  const auto child = fork_into([] {
    {
      const interrupt_watch watch;
    }
    interrupt();
    return 0;
  });

  const auto status = status_of(child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
}

} // namespace
} // namespace ferry
