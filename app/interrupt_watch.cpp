// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "interrupt_watch.hpp"

#include <ferry/platform/error.hpp>

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace ferry {

namespace {

// What is added to the event counter.
constexpr std::uint64_t an_interrupt = 1;
constexpr std::uint64_t the_end = std::uint64_t{1} << 32U;

constexpr std::array signals{SIGINT, SIGTERM};

/// The event counter of the watch there is. A signal handler reaches nothing else.
std::atomic<int> counter = -1;
static_assert(std::atomic<int>::is_always_lock_free);

void add(int descriptor, std::uint64_t amount) {
  [[maybe_unused]] const auto written = ::write(descriptor, &amount, sizeof(amount));
}

void on_interrupt(int /*signal*/) {
  const int error = errno;
  add(counter, an_interrupt);
  errno = error;
}

} // namespace

interrupt_watch::interrupt_watch() {
  for (std::size_t i = 0; i < signals.size(); ++i)
    sigaction(signals[i], nullptr, &before_[i]);
  wakes_ = ::eventfd(0, EFD_CLOEXEC);
  if (wakes_ < 0)
    throw ferry_error(
        {.code = errc::io_failure, .detail = "the process has no file descriptor left"});
  counter = wakes_;
  watcher_ = std::thread([this] { watch(); });
  struct sigaction once{};
  once.sa_handler = on_interrupt;
  once.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (std::size_t i = 0; i < signals.size(); ++i)
    if (before_[i].sa_handler != SIG_IGN)
      sigaction(signals[i], &once, nullptr);
}

interrupt_watch::~interrupt_watch() {
  struct sigaction ignored{};
  ignored.sa_handler = SIG_IGN;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    struct sigaction now{};
    sigaction(signals[i], nullptr, &now);
    const auto unspent = now.sa_handler == on_interrupt;
    sigaction(signals[i], interrupted_ && unspent ? &ignored : &before_[i], nullptr);
  }
  counter = -1;
  add(wakes_, the_end);
  watcher_.join();
  ::close(wakes_);
}

void interrupt_watch::watch() {
  std::uint64_t added = 0;
  while (added < the_end) {
    if (::read(wakes_, &added, sizeof(added)) != sizeof(added) || added % the_end == 0)
      continue;
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
    for (const auto& act : acts_)
      act();
  }
}

interrupt_watch::during::during(interrupt_watch& watch, std::function<void()> act) : watch_(watch) {
  const std::lock_guard lock(watch_.mutex_);
  if (watch_.interrupted_)
    act();
  act_ = watch_.acts_.insert(watch_.acts_.end(), std::move(act));
}

interrupt_watch::during::~during() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.acts_.erase(act_);
}

} // namespace ferry
