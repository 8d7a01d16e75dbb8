// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "contract/device_rig.hpp"

#include <filesystem>
#include <iterator>

namespace ferry::test {

void recording_observer::on_operation(const operation_span& span) {
  const auto lock = std::scoped_lock(mutex_);
  spans_.push_back(span);
}

void recording_observer::on_stream(stream_id, std::string_view name) {
  const auto lock = std::scoped_lock(mutex_);
  streams_.emplace_back(name);
}

std::vector<operation_span> recording_observer::spans() const {
  const auto lock = std::scoped_lock(mutex_);
  return spans_;
}

std::vector<std::string> recording_observer::streams() const {
  const auto lock = std::scoped_lock(mutex_);
  return streams_;
}

std::vector<operation_span> recording_observer::spans_of(operation_kind kind) const {
  auto all = spans();
  std::erase_if(all, [=](const operation_span& span) { return span.kind != kind; });
  return all;
}

std::size_t thread_count() {
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

} // namespace ferry::test
