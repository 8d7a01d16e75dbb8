// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <atomic>
#include <cstdint>
#include <memory>

namespace ferry::test {

/// Another device, of which one call can be made to fail with `device_failure`: any that allocates,
/// creates, enqueues or waits. For devices that cannot do so themselves. Thread-safe.
class failing_device final : public device {
public:
  explicit failing_device(std::shared_ptr<device> inner) : inner_(std::move(inner)) {}

  /// Makes the call after `n` more fail once.
  void fail_after(std::uint64_t n) noexcept { failing_ = calls_ + n; }
  /// Takes that back. Returns whether the call has failed.
  bool cancel_failure() noexcept;
  /// Counts the calls that could have failed.
  [[nodiscard]] std::uint64_t fallible_calls() const noexcept { return calls_; }

  [[nodiscard]] const device_traits& traits() const noexcept override { return inner_->traits(); }
  [[nodiscard]] mutable_bytes allocate(memory_kind kind, std::size_t bytes) override;
  void release(memory_kind kind, mutable_bytes block) noexcept override;
  [[nodiscard]] device_memory memory() const override { return inner_->memory(); }
  void register_pages(const_bytes pages) override;
  void unregister_pages(const_bytes pages) override;
  [[nodiscard]] bool pages_registered(const_bytes range) override;
  [[nodiscard]] stream_id create_stream(std::string_view name) override;
  void destroy_stream(stream_id stream) noexcept override { inner_->destroy_stream(stream); }
  [[nodiscard]] event_id create_event() override;
  void destroy_event(event_id event) noexcept override { inner_->destroy_event(event); }
  void copy(stream_id stream, const copy_operation& operation) override;
  void populate(stream_id stream, const_bytes pages, operation_tag tag) override;
  void evict(stream_id stream, const_bytes pages, operation_tag tag) override;
  void compute(stream_id stream, const compute_operation& operation) override;
  void discard(stream_id stream, mutable_bytes range, operation_tag tag) override;
  void mark(stream_id stream, operation_tag tag) override { inner_->mark(stream, tag); }
  void record(stream_id stream, event_id event) override;
  void wait(stream_id stream, event_id event, wait_edge edge) override;
  [[nodiscard]] bool ready(event_id event) override;
  void synchronize(event_id event, wait_edge edge) override;
  void synchronize(stream_id stream, wait_edge edge) override;
  void drain(event_id event, wait_edge edge) override;
  void drain(stream_id stream, wait_edge edge) override;
  void settle(stream_id stream) override { inner_->settle(stream); }
  void host_read(const_bytes range, operation_tag tag) override { inner_->host_read(range, tag); }
  void host_write(mutable_bytes range, operation_tag tag) override;
  [[nodiscard]] host_thread_id create_host_thread(std::string_view name) override;
  void destroy_host_thread(host_thread_id thread) noexcept override;
  host_thread_id enter(host_thread_id thread) noexcept override { return inner_->enter(thread); }
  [[nodiscard]] causal_stamp stamp() override { return inner_->stamp(); }
  void observe(const causal_stamp& stamp) override { inner_->observe(stamp); }
  void spend(nanoseconds span) override { inner_->spend(span); }
  [[nodiscard]] nanoseconds now() override { return inner_->now(); }
  [[nodiscard]] device_counters counters() const override { return inner_->counters(); }
  void attach(operation_observer& observer) override { inner_->attach(observer); }
  void detach(operation_observer& observer) noexcept override { inner_->detach(observer); }

private:
  static constexpr std::uint64_t never = ~std::uint64_t{0};

  void enter_call(std::string_view operation);

  std::shared_ptr<device> inner_;
  std::atomic<std::uint64_t> calls_ = 0;
  std::atomic<std::uint64_t> failing_ = never;
};

} // namespace ferry::test
