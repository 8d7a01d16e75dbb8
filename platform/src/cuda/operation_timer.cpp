// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/operation_timer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ferry::cuda {
namespace {

// CUDA tells milliseconds as a float, which after this long still tells half a microsecond.
constexpr auto longest_count = std::chrono::seconds(4);

} // namespace

operation_timer::operation_timer(const calls& through, sticky_fault& fault)
    : call_(&through), reporter_(fault) {}

operation_timer::~operation_timer() {
  if (call_->forked() || origin_ == nullptr)
    return;
  const device_scope current(*call_);
  close_clock();
}

void operation_timer::attach(operation_observer& observer) {
  const auto lock = std::scoped_lock(mutex_);
  if (observers_.empty())
    open_clock();
  observers_.push_back(&observer);
  reporter_.attach(observer);
  watched_.store(true, std::memory_order_release);
}

void operation_timer::detach(operation_observer& observer) noexcept {
  const auto lock = std::scoped_lock(mutex_);
  if (std::erase(observers_, &observer) == 0)
    return;
  if (observers_.empty())
    watched_.store(false, std::memory_order_release);
  if (call_->forked())
    return reporter_.detach(observer);
  const device_scope current(*call_);
  tell_of_ended();
  reporter_.detach(observer);
  if (observers_.empty())
    close_clock();
}

void operation_timer::time(stream_id stream, cudaStream_t native, operation_kind kind,
                           operation_tag tag, std::uint64_t bytes,
                           const std::function<void()>& enqueue) {
  if (!watched())
    return enqueue();
  auto lock = std::unique_lock(mutex_);
  if (observers_.empty()) {
    lock.unlock();
    return enqueue();
  }
  close_compute(tracks_[stream], native);
  auto measured = timed{enqueued(stream, kind, tag, bytes), record(native), nullptr};
  lock.unlock(); // Others need not wait for a call that may take its time.
  try {
    enqueue();
  } catch (...) {
    lock.lock();
    release(measured.start);
    throw;
  }
  lock.lock();
  // It is enqueued: that its end cannot be measured is no failure of it.
  try {
    if (observers_.empty())
      return release(measured.start);
    measured.end = record(native);
    tracks_[stream].pending.push_back(measured);
  } catch (const device_error&) {
    release(measured.start);
  }
  tell_of_ended();
}

void operation_timer::begin_compute(stream_id stream, cudaStream_t native, operation_tag tag) {
  if (!watched())
    return;
  const auto lock = std::scoped_lock(mutex_);
  if (observers_.empty())
    return;
  auto& on = tracks_[stream];
  close_compute(on, native);
  on.computing = timed{enqueued(stream, operation_kind::compute, tag, 0), record(native), nullptr};
  tell_of_ended();
}

void operation_timer::end_compute(stream_id stream, cudaStream_t native) {
  if (!watched())
    return;
  const auto lock = std::scoped_lock(mutex_);
  if (const auto found = tracks_.find(stream); found != tracks_.end())
    close_compute(found->second, native);
}

void operation_timer::end_stream(stream_id stream, cudaStream_t native) noexcept {
  if (!watched())
    return;
  const auto lock = std::scoped_lock(mutex_);
  const auto found = tracks_.find(stream);
  if (found == tracks_.end())
    return;
  try {
    close_compute(found->second, native);
  } catch (const device_error&) {
    // Its compute is not told.
  }
  found->second.gone = true;
  tell_of_ended();
}

void operation_timer::point(stream_id stream, cudaStream_t native, operation_kind kind,
                            operation_tag tag) {
  if (!watched())
    return;
  const auto lock = std::scoped_lock(mutex_);
  if (observers_.empty())
    return;
  auto& on = tracks_[stream];
  close_compute(on, native);
  const auto reached = record(native);
  on.pending.push_back({enqueued(stream, kind, tag, 0), reached, reached});
  tell_of_ended();
}

void operation_timer::collect() noexcept {
  if (!watched())
    return;
  const auto lock = std::scoped_lock(mutex_);
  tell_of_ended();
}

operation_span operation_timer::enqueued(stream_id stream, operation_kind kind, operation_tag tag,
                                         std::uint64_t bytes) const {
  const auto time = reporter_.now();
  return {.kind = kind,
          .stream = stream,
          .tag = tag,
          .bytes = bytes,
          .enqueued = time,
          .start = time,
          .end = time};
}

cudaEvent_t operation_timer::record(cudaStream_t native) {
  auto event = cudaEvent_t{};
  if (spare_.empty()) {
    call_->check("cudaEventCreateWithFlags",
                 (*call_)->cudaEventCreateWithFlags(&event, cudaEventDefault));
  } else {
    event = spare_.back();
    spare_.pop_back();
  }
  const auto status = (*call_)->cudaEventRecord(event, native);
  if (status != cudaSuccess) {
    release(event);
    throw call_->error("cudaEventRecord", status);
  }
  return event;
}

void operation_timer::close_compute(track& on, cudaStream_t native) {
  if (!on.computing)
    return;
  auto ended = *std::exchange(on.computing, std::nullopt);
  try {
    ended.end = record(native);
    on.pending.push_back(ended);
  } catch (const device_error&) {
    release(ended.start);
    throw;
  }
}

void operation_timer::tell_of_ended() {
  const beside_captures beside(*call_);
  for (auto& [stream, on] : tracks_)
    while (!on.pending.empty()) {
      const auto status = (*call_)->cudaEventQuery(on.pending.front().end);
      if (status == cudaErrorNotReady) {
        static_cast<void>((*call_)->cudaGetLastError());
        break;
      }
      const auto done = on.pending.front();
      on.pending.pop_front();
      if (call_->clean("cudaEventQuery", status))
        tell(on, done);
      release(done.start);
      if (done.end != done.start && done.end != origin_)
        release(done.end);
    }
  std::erase_if(tracks_,
                [](const auto& each) { return each.second.gone && each.second.pending.empty(); });
}

void operation_timer::tell(track& on, timed done) {
  const auto start = time_of(done.start);
  const auto end = done.end == done.start ? start : time_of(done.end);
  if (!start || !end)
    return;
  if (*end - origin_time_ > longest_count && done.end != done.start) {
    release(std::exchange(origin_, done.end));
    origin_time_ = *end;
  }
  done.span.start = std::max({*start, done.span.enqueued, on.last_end});
  done.span.end = std::max(*end, done.span.start);
  on.last_end = done.span.end;
  reporter_.report(done.span);
}

std::optional<nanoseconds> operation_timer::time_of(cudaEvent_t event) const noexcept {
  auto milliseconds = 0.0F;
  if (!call_->clean("cudaEventElapsedTime",
                    (*call_)->cudaEventElapsedTime(&milliseconds, origin_, event)))
    return std::nullopt;
  return origin_time_ + nanoseconds(std::llround(static_cast<double>(milliseconds) * 1e6));
}

/// Keeps an event for the next use: a record replaces one that is still to be reached.
void operation_timer::release(cudaEvent_t event) noexcept {
  if (observers_.empty())
    call_->clean("cudaEventDestroy", (*call_)->cudaEventDestroy(event));
  else
    spare_.push_back(event);
}

void operation_timer::open_clock() {
  const device_scope current(*call_, "attach an observer");
  const beside_captures beside(*call_);
  auto stream = cudaStream_t{};
  call_->check("cudaStreamCreateWithFlags",
               (*call_)->cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto before = reporter_.now();
  try {
    origin_ = record(stream);
    call_->check("cudaEventSynchronize", (*call_)->cudaEventSynchronize(origin_));
  } catch (const device_error&) {
    call_->clean("cudaStreamDestroy", (*call_)->cudaStreamDestroy(stream));
    close_clock();
    throw;
  }
  origin_time_ = (before + reporter_.now()) / 2;
  call_->clean("cudaStreamDestroy", (*call_)->cudaStreamDestroy(stream));
}

/// @pre the device is current
void operation_timer::close_clock() noexcept {
  for (auto& [stream, on] : tracks_) {
    for (const auto& each : on.pending) {
      spare_.push_back(each.start);
      if (each.end != each.start)
        spare_.push_back(each.end);
    }
    if (on.computing)
      spare_.push_back(on.computing->start);
  }
  tracks_.clear();
  if (origin_ != nullptr)
    spare_.push_back(std::exchange(origin_, nullptr));
  for (auto* each : spare_)
    call_->clean("cudaEventDestroy", (*call_)->cudaEventDestroy(each));
  spare_.clear();
}

} // namespace ferry::cuda
