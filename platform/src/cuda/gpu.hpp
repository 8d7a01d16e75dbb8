// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cuda/calls.hpp"
#include "cuda/memory.hpp"
#include "cuda/operation_timer.hpp"
#include "ferry/platform/cuda_device.hpp"
#include "host/sticky_fault.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace ferry::cuda {

struct gpu_options {
  int index = 0;
  std::optional<std::size_t> memory = std::nullopt; ///< Ceiling in bytes.
  bool registers_read_only = false;                 ///< The attribute of the device.
  std::string bus_id = {};                          ///< Lower case.
  std::optional<int> node = std::nullopt;           ///< Of the host, nearest to it.
};

/// A device over a table of the CUDA runtime. What is left at its end goes in the order in which
/// CUDA wants it: events, streams, registrations, memory.
class gpu final : public cuda_device {
public:
  /// Makes no call. @pre the device's context exists
  gpu(const runtime_api& api, const gpu_options& options);
  ~gpu() override;

  [[nodiscard]] int index() const noexcept override { return call_.index(); }
  [[nodiscard]] std::string bus_id() const override { return bus_id_; }
  [[nodiscard]] void* native_stream(stream_id stream) const override;
  [[nodiscard]] stream_id adopt_stream(void* native, std::string_view name) override;
  void require_open(stream_id stream) const override;
  void gather(stream_id stream, operation_tag tag, std::uint64_t bytes,
              const std::function<void(void* native)>& enqueue) override;

  [[nodiscard]] const device_traits& traits() const noexcept override { return traits_; }
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
  void compute(stream_id stream, const compute_operation& operation) override;
  void discard(stream_id stream, mutable_bytes range, operation_tag tag) override;
  void mark(stream_id stream, operation_tag tag) override;
  void record(stream_id stream, event_id event) override;
  void wait(stream_id stream, event_id event, wait_edge edge) override;
  [[nodiscard]] bool ready(event_id event) override;
  void synchronize(event_id event, wait_edge edge) override;
  void synchronize(stream_id stream, wait_edge edge) override;
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
  struct queue {
    cudaStream_t native;
    bool adopted; ///< The caller's: may be captured, and is not destroyed.
  };

  [[nodiscard]] queue find(const char* operation, stream_id stream) const;
  [[nodiscard]] cudaEvent_t find(const char* operation, event_id event) const;
  [[nodiscard]] stream_id add(queue made, std::string_view name);
  /// Also refuses a stream that is being captured.
  [[nodiscard]] queue find_open(const char* operation, stream_id stream) const;
  void require_memory(const char* side, const_bytes range, memory_kind kind) const;
  void count(const copy_operation& operation) noexcept;

  device_traits traits_;
  std::string bus_id_;
  sticky_fault fault_;
  calls call_;
  cuda::memory memory_;
  operation_timer timer_;

  std::atomic<std::uint64_t> copies_ = 0;
  std::atomic<std::uint64_t> blocking_copies_ = 0;
  std::atomic<std::uint64_t> h2d_bytes_ = 0;
  std::atomic<std::uint64_t> d2h_bytes_ = 0;
  std::atomic<std::uint32_t> host_threads_ = 0;

  mutable std::mutex mutex_;
  std::uint32_t last_stream_ = 0;
  std::uint32_t last_event_ = 0;
  std::unordered_map<stream_id, queue> streams_;
  std::unordered_map<event_id, cudaEvent_t> events_;
};

} // namespace ferry::cuda
