// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/stream_progress.hpp"

#include <limits>
#include <utility>

namespace ferry {

namespace {

constexpr auto never = std::numeric_limits<std::uint64_t>::max();

} // namespace

void stream_progress::await(std::uint64_t count) const {
  if (reached(count))
    return;
  auto lock = std::unique_lock(mutex_);
  moved_.wait(lock, [&] { return reached(count); });
}

void stream_progress::advance() {
  {
    const auto lock = std::scoped_lock(mutex_);
    ++done_;
  }
  moved_.notify_all();
}

void stream_progress::fail(failure cause) {
  const auto lock = std::scoped_lock(mutex_);
  if (failures_.empty() || failures_.back().until != never)
    failures_.push_back({.cause = std::move(cause), .from = done_, .until = never});
}

void stream_progress::pass_over(std::uint64_t count) {
  const auto lock = std::scoped_lock(mutex_);
  if (!failures_.empty() && failures_.back().until == never && failures_.back().from < count)
    failures_.back().until = enqueued_;
}

bool stream_progress::passed_over(std::uint64_t count) const {
  const auto lock = std::scoped_lock(mutex_);
  return !failures_.empty() && failures_.back().until == count;
}

std::optional<failure> stream_progress::failed() const {
  return failed(done_ + 1);
}

std::optional<failure> stream_progress::failed(std::uint64_t count) const {
  const auto lock = std::scoped_lock(mutex_);
  for (const auto& each : failures_)
    if (each.from < count && count <= each.until)
      return each.cause;
  return std::nullopt;
}

void record_point::await() const {
  if (stream)
    stream->await(count);
}

void record_point::drain() const {
  await();
  if (stream)
    stream->pass_over(count);
}

std::optional<failure> record_point::failed() const {
  return stream ? stream->failed(count) : std::nullopt;
}

} // namespace ferry
