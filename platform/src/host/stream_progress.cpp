// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/stream_progress.hpp"

#include <utility>

namespace ferry {

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
  if (failure_)
    return;
  failure_ = std::move(cause);
  failed_at_ = done_;
}

std::optional<failure> stream_progress::failed() const {
  const auto lock = std::scoped_lock(mutex_);
  return failure_;
}

std::optional<failure> stream_progress::failed(std::uint64_t count) const {
  const auto lock = std::scoped_lock(mutex_);
  return failed_at_ < count ? failure_ : std::nullopt;
}

void record_point::await() const {
  if (stream)
    stream->await(count);
}

std::optional<failure> record_point::failed() const {
  return stream ? stream->failed(count) : std::nullopt;
}

} // namespace ferry
