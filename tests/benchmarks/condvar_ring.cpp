// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "condvar_ring.hpp"

namespace ferry::bench {

condvar_ring::condvar_ring(std::size_t slots)
    : slots_(slots), board_(slots, 0), worker_([this] { work(); }) {
  const std::lock_guard lock(mailbox_mutex_);
  for (std::uint64_t n = 0; n < slots; ++n)
    mailbox_.push_back(n);
  mailbox_filled_.notify_one();
}

condvar_ring::~condvar_ring() {
  {
    const std::lock_guard lock(mailbox_mutex_);
    closed_ = true;
  }
  mailbox_filled_.notify_one();
  worker_.join();
}

void condvar_ring::acquire(std::uint64_t n) {
  std::unique_lock lock(board_mutex_);
  submitted_.wait(lock, [&] { return board_[n % slots_] == n + 1; });
}

void condvar_ring::release(std::uint64_t n) {
  {
    const std::lock_guard lock(mailbox_mutex_);
    mailbox_.push_back(n + slots_);
  }
  mailbox_filled_.notify_one();
}

void condvar_ring::work() {
  for (;;) {
    std::uint64_t next = 0;
    {
      std::unique_lock lock(mailbox_mutex_);
      mailbox_filled_.wait(lock, [&] { return closed_ || !mailbox_.empty(); });
      if (closed_)
        return;
      next = mailbox_.front();
      mailbox_.pop_front();
    }
    {
      const std::lock_guard lock(board_mutex_);
      board_[next % slots_] = next + 1;
    }
    submitted_.notify_one();
  }
}

} // namespace ferry::bench
