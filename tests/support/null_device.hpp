// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <atomic>

namespace ferry::test {

/// A device on which every operation is free and every event is ready: what is left of a program's
/// time is the cost of its own control. Copies move nothing. Memory is address space that costs
/// nothing until it is touched, without a ceiling. Thread-safe.
class null_device : public device {
public:
  [[nodiscard]] const device_traits& traits() const noexcept override { return traits_; }
  [[nodiscard]] mutable_bytes allocate(memory_kind kind, std::size_t bytes) override;
  void release(memory_kind kind, mutable_bytes block) noexcept override;
  [[nodiscard]] device_memory memory() const override;
  void register_pages(const_bytes pages) override;
  void unregister_pages(const_bytes) override {}
  [[nodiscard]] bool pages_registered(const_bytes) override { return false; }
  [[nodiscard]] stream_id create_stream(std::string_view name) override;
  void destroy_stream(stream_id stream) noexcept override;
  [[nodiscard]] event_id create_event() override;
  void destroy_event(event_id event) noexcept override;
  void copy(stream_id stream, const copy_operation& operation) override;
  void compute(stream_id, const compute_operation&) override {}
  void discard(stream_id, mutable_bytes, operation_tag) override {}
  void mark(stream_id, operation_tag) override {}
  void record(stream_id, event_id) override {}
  void wait(stream_id, event_id, wait_edge) override {}
  [[nodiscard]] bool ready(event_id) override { return true; }
  void synchronize(event_id, wait_edge) override {}
  void synchronize(stream_id, wait_edge) override {}
  void settle(stream_id) override {}
  void host_read(const_bytes, operation_tag) override {}
  void host_write(mutable_bytes, operation_tag) override {}
  [[nodiscard]] host_thread_id create_host_thread(std::string_view) override { return {}; }
  void destroy_host_thread(host_thread_id) noexcept override {}
  host_thread_id enter(host_thread_id) noexcept override { return {}; }
  [[nodiscard]] causal_stamp stamp() override { return {}; }
  void observe(const causal_stamp&) override {}
  void spend(nanoseconds) override {}
  [[nodiscard]] nanoseconds now() override { return {}; }
  [[nodiscard]] device_counters counters() const override;
  void attach(operation_observer&) override {}
  void detach(operation_observer&) noexcept override {}

private:
  [[nodiscard]] std::atomic<std::uint64_t>& bytes_of(memory_kind kind) noexcept;

  device_traits traits_{.name = "null",
                        .computes_on_host = true,
                        .virtual_time = false,
                        .wants_pinned_sources = false};
  std::atomic<std::uint32_t> last_id_ = 0;
  std::atomic<std::uint32_t> streams_ = 0;
  std::atomic<std::uint32_t> events_ = 0;
  std::atomic<std::uint64_t> allocations_ = 0;
  std::atomic<std::uint64_t> device_bytes_ = 0;
  std::atomic<std::uint64_t> pinned_bytes_ = 0;
  std::atomic<std::uint64_t> copies_ = 0;
  std::atomic<std::uint64_t> copied_bytes_ = 0;
};

} // namespace ferry::test
