// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "sim/clock.hpp"
#include "sim/operation.hpp"
#include "sim/random.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace ferry::sim {

/// What a stream has enqueued and nobody has settled. Outlives the stream until it is empty.
struct byte_queue {
  std::deque<operation_ref> waiting;
  bool closed = false; ///< The stream is gone.
};

/// Runs the bytes of operations when they must be seen, and no sooner. Not thread-safe.
class byte_runner {
public:
  byte_runner(std::uint64_t seed, std::size_t limit);
  byte_runner(const byte_runner&) = delete;
  byte_runner& operator=(const byte_runner&) = delete;
  ~byte_runner();

  [[nodiscard]] std::shared_ptr<byte_queue> open();
  void add(byte_queue& queue, const operation_ref& added);

  /// Runs exactly what `known` knows, in an order drawn from the seed among those allowed.
  void run_known(const vector_clock& known);
  void run_all();
  /// Runs the next operation of `queue` if it has not to wait. Waits and records go with it.
  bool step(byte_queue& queue);

  /// Tells operations that have not run that `[begin, end)` is no memory any more: they read poison
  /// from it and write nothing to it.
  void memory_gone(std::uintptr_t begin, std::uintptr_t end);

  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_; }

private:
  [[nodiscard]] static bool may_run(const operation& next);
  void run_front(byte_queue& queue);
  void run_oldest();
  void drop_closed();

  std::vector<std::shared_ptr<byte_queue>> queues_;
  random_sequence order_;
  std::size_t limit_;
  std::size_t waiting_ = 0;
};

/// Fills memory with what reads as NaN in every floating-point format.
void poison(mutable_bytes range) noexcept;

} // namespace ferry::sim
