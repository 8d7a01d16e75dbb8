// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/cuda_device.hpp>
#include <ferry/platform/host_device.hpp>

#include "support/fake_nccl.hpp"

#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace ferry::test {

/// A host device in the place of a GPU, for the fake NCCL to enqueue its work on. Thread-safe.
class host_gpu final : public cuda_device {
public:
  /// Keeps the fake, whose communicators it has.
  host_gpu(int index, std::size_t memory, std::shared_ptr<fake_nccl> library);
  ~host_gpu() override;

  /// As if the address on the bus could not be found out.
  void hide_bus_id() noexcept { bus_known_ = false; }
  /// As if only that many events were ever reached.
  void reach_only(int events) noexcept { events_left_ = events; }

  [[nodiscard]] int index() const noexcept override { return index_; }
  [[nodiscard]] std::string bus_id() const override;
  [[nodiscard]] void* native_stream(stream_id stream) const override;
  [[nodiscard]] stream_id adopt_stream(void* native, std::string_view name) override;
  void gather(stream_id stream, operation_tag tag, std::uint64_t bytes,
              const std::function<void(void* native)>& enqueue) override;

  [[nodiscard]] const device_traits& traits() const noexcept override { return inner_.traits(); }
  [[nodiscard]] mutable_bytes allocate(memory_kind kind, std::size_t bytes) override {
    return inner_.allocate(kind, bytes);
  }
  void release(memory_kind kind, mutable_bytes block) noexcept override {
    inner_.release(kind, block);
  }
  [[nodiscard]] device_memory memory() const override { return inner_.memory(); }
  void register_pages(const_bytes pages) override { inner_.register_pages(pages); }
  void unregister_pages(const_bytes pages) override { inner_.unregister_pages(pages); }
  [[nodiscard]] bool pages_registered(const_bytes range) override {
    return inner_.pages_registered(range);
  }
  [[nodiscard]] stream_id create_stream(std::string_view name) override;
  void destroy_stream(stream_id stream) noexcept override;
  [[nodiscard]] event_id create_event() override { return inner_.create_event(); }
  void destroy_event(event_id event) noexcept override { inner_.destroy_event(event); }
  void copy(stream_id stream, const copy_operation& operation) override {
    inner_.copy(stream, operation);
  }
  void compute(stream_id stream, const compute_operation& operation) override {
    inner_.compute(stream, operation);
  }
  void discard(stream_id stream, mutable_bytes range, operation_tag tag) override {
    inner_.discard(stream, range, tag);
  }
  void mark(stream_id stream, operation_tag tag) override { inner_.mark(stream, tag); }
  void record(stream_id stream, event_id event) override { inner_.record(stream, event); }
  void wait(stream_id stream, event_id event, wait_edge edge) override {
    inner_.wait(stream, event, edge);
  }
  [[nodiscard]] bool ready(event_id event) override;
  void synchronize(event_id event, wait_edge edge) override { inner_.synchronize(event, edge); }
  void synchronize(stream_id stream, wait_edge edge) override { inner_.synchronize(stream, edge); }
  void settle(stream_id stream) override { inner_.settle(stream); }
  void host_read(const_bytes range, operation_tag tag) override { inner_.host_read(range, tag); }
  void host_write(mutable_bytes range, operation_tag tag) override {
    inner_.host_write(range, tag);
  }
  [[nodiscard]] host_thread_id create_host_thread(std::string_view name) override {
    return inner_.create_host_thread(name);
  }
  void destroy_host_thread(host_thread_id thread) noexcept override {
    inner_.destroy_host_thread(thread);
  }
  host_thread_id enter(host_thread_id thread) noexcept override;
  [[nodiscard]] causal_stamp stamp() override { return inner_.stamp(); }
  void observe(const causal_stamp& stamp) override { inner_.observe(stamp); }
  void spend(nanoseconds span) override { inner_.spend(span); }
  [[nodiscard]] nanoseconds now() override { return inner_.now(); }
  [[nodiscard]] device_counters counters() const override { return inner_.counters(); }
  void attach(operation_observer& observer) override { inner_.attach(observer); }
  void detach(operation_observer& observer) noexcept override { inner_.detach(observer); }

private:
  int index_;
  bool bus_known_ = true;
  std::atomic<int> events_left_ = std::numeric_limits<int>::max();
  std::shared_ptr<fake_nccl> library_;
  host_device inner_;
  mutable std::mutex mutex_;
  std::map<stream_id, std::unique_ptr<fake_nccl::native_stream>> streams_;
};

} // namespace ferry::test
