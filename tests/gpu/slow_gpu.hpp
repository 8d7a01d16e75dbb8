// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/cuda_device.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace ferry::test {

/// Which work on a GPU takes a good deal longer than everything else.
struct slowness {
  std::chrono::microseconds copy{};    ///< Before each copy, on its stream.
  std::chrono::microseconds compute{}; ///< Before the body of each block, on its stream.
};

/// A GPU on which kernels that do nothing hold up what they are told to, and that counts what must
/// not be called while blocks run. Thread-safe.
class slow_gpu final : public cuda_device {
public:
  slow_gpu(std::shared_ptr<cuda_device> inner, slowness slow)
      : inner_(std::move(inner)), slow_(slow) {}
  ~slow_gpu() override { dismiss_guests(); }

  /// Counts the calls that hold up a host thread or allocate.
  [[nodiscard]] std::uint64_t forbidden_calls() const noexcept { return forbidden_; }

  [[nodiscard]] int index() const noexcept override { return inner_->index(); }
  [[nodiscard]] void* native_stream(stream_id stream) const override {
    return inner_->native_stream(stream);
  }
  [[nodiscard]] stream_id adopt_stream(void* native, std::string_view name) override {
    return inner_->adopt_stream(native, name);
  }
  [[nodiscard]] std::string bus_id() const override { return inner_->bus_id(); }
  void require_open(stream_id stream) const override { inner_->require_open(stream); }
  void gather(stream_id stream, operation_tag tag, std::uint64_t bytes,
              const std::function<void(void* native)>& enqueue) override {
    inner_->gather(stream, tag, bytes, enqueue);
  }
  [[nodiscard]] const device_traits& traits() const noexcept override { return inner_->traits(); }
  [[nodiscard]] mutable_bytes allocate(memory_kind kind, std::size_t bytes) override {
    ++forbidden_;
    return inner_->allocate(kind, bytes);
  }
  void release(memory_kind kind, mutable_bytes block) noexcept override {
    inner_->release(kind, block);
  }
  [[nodiscard]] device_memory memory() const override { return inner_->memory(); }
  void register_pages(const_bytes pages) override { inner_->register_pages(pages); }
  void unregister_pages(const_bytes pages) override { inner_->unregister_pages(pages); }
  [[nodiscard]] bool pages_registered(const_bytes range) override {
    return inner_->pages_registered(range);
  }
  [[nodiscard]] stream_id create_stream(std::string_view name) override {
    return inner_->create_stream(name);
  }
  void destroy_stream(stream_id stream) noexcept override { inner_->destroy_stream(stream); }
  [[nodiscard]] event_id create_event() override { return inner_->create_event(); }
  void destroy_event(event_id event) noexcept override { inner_->destroy_event(event); }
  void copy(stream_id stream, const copy_operation& operation) override;
  void compute(stream_id stream, const compute_operation& operation) override;
  void discard(stream_id stream, mutable_bytes range, operation_tag tag) override {
    inner_->discard(stream, range, tag);
  }
  void mark(stream_id stream, operation_tag tag) override { inner_->mark(stream, tag); }
  void record(stream_id stream, event_id event) override { inner_->record(stream, event); }
  void wait(stream_id stream, event_id event, wait_edge edge) override {
    inner_->wait(stream, event, edge);
  }
  [[nodiscard]] bool ready(event_id event) override { return inner_->ready(event); }
  void synchronize(event_id event, wait_edge edge) override {
    ++forbidden_;
    inner_->synchronize(event, edge);
  }
  void synchronize(stream_id stream, wait_edge edge) override {
    ++forbidden_;
    inner_->synchronize(stream, edge);
  }
  void settle(stream_id stream) override { inner_->settle(stream); }
  void host_read(const_bytes range, operation_tag tag) override { inner_->host_read(range, tag); }
  void host_write(mutable_bytes range, operation_tag tag) override {
    inner_->host_write(range, tag);
  }
  [[nodiscard]] host_thread_id create_host_thread(std::string_view name) override {
    return inner_->create_host_thread(name);
  }
  void destroy_host_thread(host_thread_id thread) noexcept override {
    inner_->destroy_host_thread(thread);
  }
  host_thread_id enter(host_thread_id thread) noexcept override { return inner_->enter(thread); }
  [[nodiscard]] causal_stamp stamp() override { return inner_->stamp(); }
  void observe(const causal_stamp& stamp) override { inner_->observe(stamp); }
  void spend(nanoseconds span) override { inner_->spend(span); }
  [[nodiscard]] nanoseconds now() override { return inner_->now(); }
  [[nodiscard]] device_counters counters() const override { return inner_->counters(); }
  void attach(operation_observer& observer) override { inner_->attach(observer); }
  void detach(operation_observer& observer) noexcept override { inner_->detach(observer); }

private:
  std::shared_ptr<cuda_device> inner_;
  slowness slow_;
  std::atomic<std::uint64_t> forbidden_{0};
};

} // namespace ferry::test
