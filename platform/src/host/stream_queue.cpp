// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/stream_queue.hpp"

#include "ferry/platform/conversion.hpp"
#include "ferry/platform/error.hpp"
#include "ferry/platform/mapped_file.hpp"
#include "host/cache_share.hpp"
#include "host/span_reporter.hpp"
#include "host/sticky_fault.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

namespace ferry {

namespace {

constexpr std::size_t longest_thread_name = 15;

} // namespace

stream_queue::stream_queue(stream_id id, std::string_view name, const span_reporter& reporter,
                           sticky_fault& fault, cache_share& cache)
    : id_(id), name_(name), reporter_(&reporter), fault_(&fault), cache_(&cache),
      progress_(std::make_shared<stream_progress>()) {}

stream_queue::~stream_queue() {
  {
    const auto lock = std::scoped_lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  if (thread_.joinable())
    thread_.join();
  end_compute();
}

void stream_queue::copy(const copy_operation& operation) {
  const auto lock = std::scoped_lock(mutex_);
  push(copy_job{operation, reporter_->now()});
}

void stream_queue::populate(const_bytes pages, operation_tag tag) {
  const auto lock = std::scoped_lock(mutex_);
  push(populate_job{pages, tag, reporter_->now()});
}

void stream_queue::evict(const_bytes pages, operation_tag tag) {
  const auto lock = std::scoped_lock(mutex_);
  push(evict_job{pages, tag, reporter_->now()});
}

void stream_queue::gather(operation_tag tag, std::uint64_t bytes, gather_exchange exchange) {
  const auto lock = std::scoped_lock(mutex_);
  push(gather_job{std::move(exchange), tag, bytes, reporter_->now()});
}

void stream_queue::announce(operation_kind kind, operation_tag tag) {
  const auto work = announcement{kind, tag, reporter_->now()};
  const auto lock = std::scoped_lock(mutex_);
  if (idle())
    begin(work);
  else
    push(work);
}

void stream_queue::wait(const record_point& point) {
  const auto lock = std::scoped_lock(mutex_);
  if (!point.reached() || point.failed())
    push(point);
}

record_point stream_queue::record() {
  const auto lock = std::scoped_lock(mutex_);
  if (idle())
    end_compute();
  return place();
}

record_point stream_queue::tail() {
  const auto lock = std::scoped_lock(mutex_);
  return place();
}

// A place that somebody has drained stays the one of what failed before it.
record_point stream_queue::place() {
  if (progress_->passed_over(progress_->enqueued()))
    push(nothing{});
  return {progress_, progress_->enqueued()};
}

void stream_queue::push(job work) {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      throw device_error(errc::device_failure, "start the thread of stream '" + name_ + "'",
                         error.what());
    }
    ::pthread_setname_np(thread_.native_handle(), name_.substr(0, longest_thread_name).c_str());
  }
  pending_.push_back(std::move(work));
  progress_->enqueue();
  work_.notify_one();
}

void stream_queue::run() {
  auto lock = std::unique_lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
    if (pending_.empty())
      return;
    end_compute();
    const auto next = std::move(pending_.front());
    pending_.pop_front();
    lock.unlock();
    std::visit([this](const auto& work) { run(work); }, next);
    lock.lock();
    if (pending_.empty()) {
      lock.unlock();
      reader_.let_go(); // Before anybody is told, and may end the file.
      lock.lock();
    }
    progress_->advance();
  }
}

void stream_queue::run(const copy_job& work) {
  const auto start = reporter_->now();
  unless_failed([&] { move_bytes(work.operation); });
  reporter_->report({.kind = operation_kind::copy,
                     .stream = id_,
                     .tag = work.operation.tag,
                     .bytes = work.operation.source.size(),
                     .enqueued = work.enqueued,
                     .start = start,
                     .end = reporter_->now()});
}

void stream_queue::run(const populate_job& work) {
  const auto start = reporter_->now();
  unless_failed([&] {
    for (auto rest = work.pages; !rest.empty();) {
      const auto piece = first_piece(rest);
      populate_pages(piece);
      rest = rest.subspan(piece.size());
    }
  });
  reporter_->report({.kind = operation_kind::copy,
                     .stream = id_,
                     .tag = work.tag,
                     .bytes = work.pages.size(),
                     .enqueued = work.enqueued,
                     .start = start,
                     .end = reporter_->now()});
}

void stream_queue::run(const evict_job& work) {
  const auto start = reporter_->now();
  drop_resident_pages(work.pages);
  for (auto rest = work.pages; !rest.empty();) {
    const auto piece = first_piece(rest);
    let_go(piece);
    rest = rest.subspan(piece.size());
  }
  reporter_->report({.kind = operation_kind::discard,
                     .stream = id_,
                     .tag = work.tag,
                     .bytes = 0,
                     .enqueued = work.enqueued,
                     .start = start,
                     .end = reporter_->now()});
}

void stream_queue::run(const announcement& work) {
  const auto lock = std::scoped_lock(mutex_);
  begin(work);
}

void stream_queue::run(const record_point& point) {
  if (!point.reached())
    reader_.let_go();
  point.await();
  if (auto cause = point.failed())
    progress_->fail(std::move(*cause));
}

void stream_queue::run(const gather_job& work) {
  const auto start = reporter_->now();
  work.exchange(lost());
  reporter_->report({.kind = operation_kind::gather,
                     .stream = id_,
                     .tag = work.tag,
                     .bytes = work.bytes,
                     .enqueued = work.enqueued,
                     .start = start,
                     .end = reporter_->now()});
}

std::optional<failure> stream_queue::lost() const {
  return fault_->raised() ? failure{.code = errc::device_poisoned, .detail = fault_->reason()}
                          : progress_->failed();
}

template <class Move>
void stream_queue::unless_failed(const Move& move) {
  try {
    if (!lost())
      move();
  } catch (const ferry_error& error) {
    progress_->fail(error.reason());
  } catch (const std::exception& error) {
    progress_->fail({.code = errc::internal, .detail = error.what()});
  }
}

void stream_queue::move_bytes(const copy_operation& operation) {
  const auto how = operation.convert;
  if (operation.from != memory_kind::mapped) {
    if (how != conversion::none)
      convert(how, operation.source, operation.target);
    else if (!operation.source.empty())
      std::memmove(operation.target.data(), operation.source.data(), operation.source.size());
    return;
  }
  auto target = operation.target;
  auto source = operation.source;
  while (!source.empty()) {
    const auto piece = first_piece(source, how);
    const auto made = converted_bytes(how, piece.size());
    reader_.read(piece, target.first(made), how);
    let_go(piece);
    target = target.subspan(made);
    source = source.subspan(piece.size());
  }
}

void stream_queue::let_go(const_bytes pages) {
  if (cache_->keeps(pages))
    return;
  reader_.let_go(); // The system forgets no page that a process has.
  drop_cached_pages(pages);
}

void stream_queue::begin(const announcement& work) {
  end_compute();
  const auto start = std::max(work.enqueued, reporter_->now());
  const auto span = operation_span{.kind = work.kind,
                                   .stream = id_,
                                   .tag = work.tag,
                                   .bytes = 0,
                                   .enqueued = work.enqueued,
                                   .start = start,
                                   .end = start};
  if (work.kind == operation_kind::compute)
    computing_ = span;
  else
    reporter_->report(span);
}

void stream_queue::end_compute() {
  if (!computing_)
    return;
  computing_->end = reporter_->now();
  reporter_->report(*std::exchange(computing_, std::nullopt));
}

} // namespace ferry
