// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "timed_device.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace ferry::bench {

namespace {

constexpr host_thread_id delayed{1};
constexpr std::chrono::microseconds sleep_overshoot{200}; // More than most on a virtual machine.

} // namespace

void wait_until(timed_device::clock::time_point time) {
  if (timed_device::clock::now() + sleep_overshoot < time)
    std::this_thread::sleep_until(time - sleep_overshoot);
  while (timed_device::clock::now() < time) {
  }
}

timed_device::timed_device(nanoseconds copy, nanoseconds compute, bool on_host, delay_plan delays)
    : traits_{.name = "timed", .computes_on_host = on_host, .wants_pinned_sources = false},
      copy_(copy), compute_(on_host ? nanoseconds::zero() : compute), plan_(std::move(delays)) {}

void timed_device::drain() {
  clock::time_point last{};
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, end] : streams_)
      last = std::max(last, end);
  }
  wait_until(last);
}

std::vector<nanoseconds> timed_device::delays() const {
  const std::lock_guard lock(mutex_);
  return delays_;
}

void timed_device::copy(stream_id stream, const copy_operation& operation) {
  null_device::copy(stream, operation);
  add(stream, copy_);
}

void timed_device::compute(stream_id stream, const compute_operation&) {
  add(stream, compute_);
}

void timed_device::record(stream_id stream, event_id event) {
  const std::lock_guard lock(mutex_);
  events_[event] = streams_[stream];
}

void timed_device::wait(stream_id stream, event_id event, wait_edge) {
  const std::lock_guard lock(mutex_);
  auto& end = streams_[stream];
  end = std::max(end, events_[event]);
}

bool timed_device::ready(event_id event) {
  return end_of(event) <= clock::now();
}

void timed_device::synchronize(event_id event, wait_edge) {
  wait_until(end_of(event));
}

void timed_device::synchronize(stream_id stream, wait_edge) {
  wait_until(end_of(stream));
}

void timed_device::settle(stream_id stream) {
  wait_until(end_of(stream));
}

host_thread_id timed_device::create_host_thread(std::string_view name) {
  return name == plan_.thread ? delayed : host_thread_id{};
}

// A host thread is entered when it begins to handle a message.
host_thread_id timed_device::enter(host_thread_id thread) noexcept {
  if (thread != delayed)
    return {};
  const auto begun = clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (++messages_ % plan_.every != 0)
      return {};
  }
  std::this_thread::sleep_until(begun + plan_.length);
  const std::lock_guard lock(mutex_);
  delays_.emplace_back(clock::now() - begun);
  return {};
}

void timed_device::add(stream_id stream, nanoseconds length) {
  const auto now = clock::now();
  const std::lock_guard lock(mutex_);
  auto& end = streams_[stream];
  end = std::max(end, now) + length;
}

timed_device::clock::time_point timed_device::end_of(stream_id stream) const {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  return found == streams_.end() ? clock::time_point{} : found->second;
}

timed_device::clock::time_point timed_device::end_of(event_id event) const {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(event);
  return found == events_.end() ? clock::time_point{} : found->second;
}

} // namespace ferry::bench
