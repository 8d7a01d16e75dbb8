// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace ferry {

struct host_device_options {
  std::size_t memory; ///< Ceiling of device memory in bytes.
  /// Bytes of mapped files that may stay in the page cache behind their use, those that come first;
  /// nothing: as many as the system keeps.
  std::optional<std::uint64_t> page_cache = {};
};

/// A machine without a GPU: device memory is RAM up to a ceiling, copies are real, compute runs on
/// the calling thread.
///
/// - *Streams* are queues. A copy or collective runs on the stream's own thread, which starts with
///   it; anything else completes at once if nothing is queued before it. Destroying a stream runs
///   what is queued and joins its thread.
/// - *Mapped sources* are read from their file, ahead of the copies, and do not become resident, so
///   that a model larger than the machine's memory passes through.
/// - *Spans* are measured. A compute lasts until the next operation or record on its stream,
///   because its body runs on the caller in between.
/// - *Failure* of an operation, such as a copy from a file that was cut short under it, stays with
///   its stream and with each that waits for what was recorded behind it: nothing moves there any
///   more until it is drained, and `synchronize` and `settle` throw the cause. Others go on.
/// - *An observer that throws* breaks the device: later copies throw `device_poisoned`, and every
///   `synchronize` and `settle` throws `device_failure`. Draining still waits for the end of work.
///
/// `synchronize` and `settle` sleep until the work is done. Thread-safe.
class host_device final : public device {
public:
  explicit host_device(const host_device_options& options);
  ~host_device() override;

  [[nodiscard]] const device_traits& traits() const noexcept override;
  [[nodiscard]] mutable_bytes allocate(memory_kind kind, std::size_t bytes) override;
  void release(memory_kind kind, mutable_bytes block) noexcept override;
  [[nodiscard]] device_memory memory() const override;
  void register_pages(const_bytes pages) override;
  void unregister_pages(const_bytes pages) override;
  [[nodiscard]] bool pages_registered(const_bytes range) override;
  [[nodiscard]] stream_id create_stream(std::string_view name) override;
  void destroy_stream(stream_id stream) noexcept override;
  [[nodiscard]] event_id create_event() override;
  void destroy_event(event_id event) noexcept override;
  void copy(stream_id stream, const copy_operation& operation) override;
  void populate(stream_id stream, const_bytes pages, operation_tag tag) override;
  void evict(stream_id stream, const_bytes pages, operation_tag tag) override;
  void compute(stream_id stream, const compute_operation& operation) override;
  void discard(stream_id stream, mutable_bytes range, operation_tag tag) override;
  void mark(stream_id stream, operation_tag tag) override;
  void record(stream_id stream, event_id event) override;
  void wait(stream_id stream, event_id event, wait_edge edge) override;
  [[nodiscard]] bool ready(event_id event) override;
  void synchronize(event_id event, wait_edge edge) override;
  void synchronize(stream_id stream, wait_edge edge) override;
  void drain(event_id event, wait_edge edge) override;
  void drain(stream_id stream, wait_edge edge) override;
  void settle(stream_id stream) override;
  void host_read(const_bytes range, operation_tag tag) override;
  void host_write(mutable_bytes range, operation_tag tag) override;
  [[nodiscard]] host_thread_id create_host_thread(std::string_view name) override;
  void destroy_host_thread(host_thread_id thread) noexcept override;
  host_thread_id enter(host_thread_id thread) noexcept override;
  [[nodiscard]] causal_stamp stamp() override;
  void observe(const causal_stamp& stamp) override;
  void spend(nanoseconds span) override;
  [[nodiscard]] nanoseconds now() override;
  [[nodiscard]] device_counters counters() const override;
  void attach(operation_observer& observer) override;
  void detach(operation_observer& observer) noexcept override;

private:
  friend struct host_collective;
  class state;

  /// Enqueues the exchange of a collective, which is told what failed before it, if anything.
  void gather(stream_id stream, operation_tag tag, std::uint64_t bytes,
              std::function<void(const std::optional<failure>& lost)> exchange);

  std::unique_ptr<state> state_;
};

/// Returns the bytes of RAM in this machine.
[[nodiscard]] std::size_t installed_memory() noexcept;

} // namespace ferry
