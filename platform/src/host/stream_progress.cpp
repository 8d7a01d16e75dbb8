// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/stream_progress.hpp"

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

void record_point::await() const {
  if (stream)
    stream->await(count);
}

} // namespace ferry
