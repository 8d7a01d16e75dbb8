// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/span_reporter.hpp"

#include "host/sticky_fault.hpp"

#include <exception>
#include <mutex>
#include <string>

namespace ferry {

span_reporter::span_reporter(sticky_fault& fault)
    : fault_(&fault), opened_(std::chrono::steady_clock::now()) {}

nanoseconds span_reporter::now() const {
  return std::chrono::steady_clock::now() - opened_;
}

void span_reporter::attach(operation_observer& observer) {
  const auto lock = std::unique_lock(mutex_);
  observers_.push_back(&observer);
}

void span_reporter::detach(operation_observer& observer) noexcept {
  const auto lock = std::unique_lock(mutex_);
  std::erase(observers_, &observer);
}

void span_reporter::report(stream_id stream, std::string_view name) const {
  tell([&](operation_observer& observer) { observer.on_stream(stream, name); });
}

void span_reporter::report(const operation_span& span) const {
  tell([&](operation_observer& observer) { observer.on_operation(span); });
}

template <class Call>
void span_reporter::tell(const Call& call) const {
  const auto lock = std::shared_lock(mutex_);
  try {
    for (auto* observer : observers_)
      call(*observer);
  } catch (const std::exception& error) {
    fault_->raise(std::string("the observer threw: ") + error.what());
  }
}

} // namespace ferry
