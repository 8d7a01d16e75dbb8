// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"
#include "ferry/platform/mapped_file.hpp"
#include "host/stream_progress.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

namespace ferry {

class cache_share;
class span_reporter;
class sticky_fault;

/// One stream: what has been enqueued and has not run, and the thread that runs it. The thread
/// starts with the first operation that cannot complete at once. Behind a failure, its own or one
/// of another stream that it waits for, nothing moves any more. Enqueued to by one thread at a
/// time.
class stream_queue {
public:
  stream_queue(stream_id id, std::string_view name, const span_reporter& reporter,
               sticky_fault& fault, cache_share& cache);
  stream_queue(const stream_queue&) = delete;
  stream_queue& operator=(const stream_queue&) = delete;
  /// Runs what is queued and joins the thread.
  ~stream_queue();

  void copy(const copy_operation& operation);
  void populate(const_bytes pages, operation_tag tag);
  void evict(const_bytes pages, operation_tag tag);
  using gather_exchange = std::function<void(const std::optional<failure>& lost)>;
  /// Runs `exchange` on the stream's thread, telling it what failed before it, if anything.
  void gather(operation_tag tag, std::uint64_t bytes, gather_exchange exchange);
  void announce(operation_kind kind, operation_tag tag);
  void wait(const record_point& point);

  /// Returns the place behind everything enqueued so far. What was announced last has ended.
  [[nodiscard]] record_point record();

  /// Returns the place behind everything enqueued so far.
  [[nodiscard]] record_point tail();

private:
  struct copy_job {
    copy_operation operation;
    nanoseconds enqueued;
  };
  struct populate_job {
    const_bytes pages;
    operation_tag tag;
    nanoseconds enqueued;
  };
  struct evict_job {
    const_bytes pages;
    operation_tag tag;
    nanoseconds enqueued;
  };
  struct gather_job {
    gather_exchange exchange;
    operation_tag tag;
    std::uint64_t bytes;
    nanoseconds enqueued;
  };
  struct announcement {
    operation_kind kind;
    operation_tag tag;
    nanoseconds enqueued;
  };
  struct nothing {};
  using job = std::variant<copy_job, populate_job, evict_job, gather_job, announcement,
                           record_point, nothing>;

  [[nodiscard]] bool idle() const noexcept { return progress_->reached(progress_->enqueued()); }
  void push(job work);
  record_point place();
  void run();
  void run(const copy_job& work);
  void run(const populate_job& work);
  void run(const evict_job& work);
  void run(const announcement& work);
  void run(const record_point& point);
  void run(const gather_job& work);
  void run(nothing) {}
  /// Returns why nothing moves on this stream any more, if so.
  [[nodiscard]] std::optional<failure> lost() const;
  /// Runs `move`, if this still moves. What it throws is the failure of the stream.
  template <class Move>
  void unless_failed(const Move& move);
  void move_bytes(const copy_operation& operation);
  void let_go(const_bytes pages);
  void begin(const announcement& work);
  void end_compute();

  stream_id id_;
  std::string name_;
  const span_reporter* reporter_;
  sticky_fault* fault_;
  cache_share* cache_;
  std::shared_ptr<stream_progress> progress_;

  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::deque<job> pending_;
  bool stopping_ = false;
  std::optional<operation_span> computing_; ///< Announced and not known to have ended.
  mapped_reader reader_;                    ///< Of the thread.
  std::thread thread_;
};

} // namespace ferry
