// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace ferry::bench {

/// The least that a ring of slots between two threads can be: what P6 compares the actors with. One
/// mutex and one condition variable a direction, the same two hops a block, no policy, no failure
/// path, no events.
class condvar_ring {
public:
  explicit condvar_ring(std::size_t slots);
  condvar_ring(const condvar_ring&) = delete;
  condvar_ring& operator=(const condvar_ring&) = delete;
  ~condvar_ring();

  /// Waits until use `n` has been submitted. @pre uses come in order from 0
  void acquire(std::uint64_t n);

  /// Asks for the use that may follow in the same slot.
  void release(std::uint64_t n);

private:
  void work();

  std::size_t slots_;
  std::mutex mailbox_mutex_;
  std::condition_variable mailbox_filled_;
  std::deque<std::uint64_t> mailbox_;
  bool closed_ = false;
  std::mutex board_mutex_;
  std::condition_variable submitted_;
  std::vector<std::uint64_t> board_; ///< By slot: one past the use submitted.
  std::thread worker_;
};

} // namespace ferry::bench
