// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/gpu.hpp"

#include "copy_checks.hpp"
#include "cuda/acting_thread.hpp"
#include "ferry/platform/log.hpp"

#include <string>
#include <utility>

namespace ferry::cuda {
namespace {

device_error stale(std::string_view operation, std::string_view what, std::uint32_t number) {
  return {errc::stale_handle, operation,
          "no " + std::string(what) + " " + std::to_string(number) +
              " on this device; it has been destroyed or belongs to another"};
}

void warn_stale(std::string_view what, std::uint32_t number) {
  log(log_level::error, "ferry.platform",
      "destroy " + std::string(what) + "=" + std::to_string(number) + " error=stale_handle");
}

bool on_device(memory_kind kind) noexcept {
  return kind == memory_kind::device;
}

cudaMemcpyKind direction(const copy_operation& operation) noexcept {
  if (on_device(operation.to))
    return on_device(operation.from) ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  return on_device(operation.from) ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

bool may_block(memory_kind kind) noexcept {
  return kind == memory_kind::pageable || kind == memory_kind::mapped;
}

} // namespace

gpu::gpu(const runtime_api& api, const gpu_options& options)
    : traits_{.name = "cuda:" + std::to_string(options.index),
              .registers_pages = options.registers_read_only,
              .node = options.node},
      bus_id_(options.bus_id), call_(api, options.index, fault_),
      memory_(call_, options.memory, options.registers_read_only), timer_(call_, fault_) {}

gpu::~gpu() {
  if (call_.forked()) {
    abandon_guests();
    return;
  }
  dismiss_guests();
  const device_scope current(call_);
  for (const auto& [id, event] : events_)
    call_.clean("cudaEventDestroy", call_->cudaEventDestroy(event));
  for (const auto& [id, stream] : streams_)
    if (!stream.adopted)
      call_.clean("cudaStreamDestroy", call_->cudaStreamDestroy(stream.native));
}

void* gpu::native_stream(stream_id stream) const {
  return find("ask for the stream", stream).native;
}

stream_id gpu::adopt_stream(void* native, std::string_view name) {
  call_.require_usable("adopt a stream");
  return add({static_cast<cudaStream_t>(native), true}, name);
}

void gpu::require_open(stream_id stream) const {
  const device_scope current(call_, "use the stream");
  static_cast<void>(find_open("use the stream", stream));
}

void gpu::gather(stream_id stream, operation_tag tag, std::uint64_t bytes,
                 const std::function<void(void* native)>& enqueue) {
  const device_scope current(call_, "all_gather");
  const auto on = find_open("all_gather", stream);
  timer_.time(stream, on.native, operation_kind::gather, tag, bytes, [&] { enqueue(on.native); });
}

mutable_bytes gpu::allocate(memory_kind kind, std::size_t bytes) {
  return memory_.allocate(kind, bytes);
}

void gpu::release(memory_kind kind, mutable_bytes block) noexcept {
  memory_.release(kind, block);
}

device_memory gpu::memory() const {
  return memory_.usage();
}

void gpu::register_pages(const_bytes pages) {
  memory_.register_pages(pages);
}

void gpu::unregister_pages(const_bytes pages) {
  memory_.unregister_pages(pages);
}

bool gpu::pages_registered(const_bytes range) {
  return memory_.registered(range);
}

stream_id gpu::create_stream(std::string_view name) {
  const device_scope current(call_, "create a stream");
  auto native = cudaStream_t{};
  call_.check("cudaStreamCreateWithFlags",
              call_->cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking));
  return add({native, false}, name);
}

stream_id gpu::add(queue made, std::string_view name) {
  auto id = stream_id{};
  {
    const auto lock = std::scoped_lock(mutex_);
    id = stream_id{++last_stream_};
    streams_.emplace(id, made);
  }
  timer_.announce(id, name);
  return id;
}

void gpu::destroy_stream(stream_id stream) noexcept {
  auto lock = std::unique_lock(mutex_);
  const auto ended = streams_.extract(stream);
  lock.unlock();
  if (ended.empty())
    return warn_stale("stream", static_cast<std::uint32_t>(stream));
  if (call_.forked())
    return;
  const device_scope current(call_);
  timer_.end_stream(stream, ended.mapped().native);
  if (ended.mapped().adopted)
    return;
  call_.clean("cudaStreamDestroy", call_->cudaStreamDestroy(ended.mapped().native));
}

event_id gpu::create_event() {
  const device_scope current(call_, "create an event");
  auto native = cudaEvent_t{};
  call_.check("cudaEventCreateWithFlags",
              call_->cudaEventCreateWithFlags(&native, cudaEventDisableTiming));
  const auto lock = std::scoped_lock(mutex_);
  const auto id = event_id{++last_event_};
  events_.emplace(id, native);
  return id;
}

void gpu::destroy_event(event_id event) noexcept {
  auto lock = std::unique_lock(mutex_);
  const auto ended = events_.extract(event);
  lock.unlock();
  if (ended.empty())
    return warn_stale("event", static_cast<std::uint32_t>(event));
  if (call_.forked())
    return;
  const device_scope current(call_);
  call_.clean("cudaEventDestroy", call_->cudaEventDestroy(ended.mapped()));
}

void gpu::copy(stream_id stream, const copy_operation& operation) {
  const device_scope current(call_, "copy");
  const auto on = find_open("copy", stream);
  const auto bytes = operation.source.size();
  require_copyable(operation, traits());
  if (operation.to == memory_kind::registered)
    throw device_error(errc::invalid_argument, "copy", "registered pages are only read");
  require_memory("target", operation.target, operation.to);
  require_memory("source", operation.source, operation.from);
  timer_.time(stream, on.native, operation_kind::copy, operation.tag, bytes, [&] {
    if (bytes != 0)
      call_.check("cudaMemcpyAsync",
                  call_->cudaMemcpyAsync(operation.target.data(), operation.source.data(), bytes,
                                         direction(operation), on.native));
  });
  count(operation);
}

/// A copy from memory that only claims to be pinned would hold up its caller without a word.
void gpu::require_memory(const char* side, const_bytes range, memory_kind kind) const {
  if (range.empty() || may_block(kind) || memory_.holds(kind, range))
    return;
  throw device_error(errc::invalid_argument, "copy",
                     std::string("the ") + side + ", " + std::to_string(range.size()) +
                         " bytes, is not inside one " +
                         (kind == memory_kind::registered ? "registration"
                          : kind == memory_kind::pinned   ? "block of pinned memory"
                                                          : "block of device memory") +
                         " of " + call_.device());
}

void gpu::count(const copy_operation& operation) noexcept {
  const auto bytes = operation.source.size();
  ++copies_;
  if (bytes != 0 && (may_block(operation.from) || may_block(operation.to)))
    ++blocking_copies_;
  if (on_device(operation.to) && !on_device(operation.from))
    h2d_bytes_ += bytes;
  if (on_device(operation.from) && !on_device(operation.to))
    d2h_bytes_ += bytes;
}

void gpu::compute(stream_id stream, const compute_operation& operation) {
  const device_scope current(call_, "compute");
  const auto on = find_open("compute", stream);
  timer_.begin_compute(stream, on.native, operation.tag);
}

void gpu::discard(stream_id stream, mutable_bytes, operation_tag tag) {
  const device_scope current(call_, "discard");
  const auto on = find_open("discard", stream);
  timer_.point(stream, on.native, operation_kind::discard, tag);
}

void gpu::mark(stream_id stream, operation_tag tag) {
  const device_scope current(call_, "mark");
  const auto on = find_open("mark", stream);
  timer_.point(stream, on.native, operation_kind::mark, tag);
}

void gpu::record(stream_id stream, event_id event) {
  const device_scope current(call_, "record");
  const auto on = find_open("record", stream);
  auto* const native = find("record", event);
  timer_.end_compute(stream, on.native);
  call_.check("cudaEventRecord", call_->cudaEventRecord(native, on.native));
}

void gpu::wait(stream_id stream, event_id event, wait_edge) {
  const device_scope current(call_, "wait");
  const auto on = find_open("wait", stream);
  auto* const native = find("wait", event);
  call_.check("cudaStreamWaitEvent",
              call_->cudaStreamWaitEvent(on.native, native, cudaEventWaitDefault));
}

bool gpu::ready(event_id event) {
  const device_scope current(call_, "query");
  const beside_captures beside(call_);
  auto* const native = find("query", event);
  const auto reached = call_.finished("cudaEventQuery", call_->cudaEventQuery(native));
  timer_.collect();
  return reached;
}

void gpu::synchronize(event_id event, wait_edge) {
  const device_scope current(call_, "synchronize");
  const beside_captures beside(call_);
  auto* const native = find("synchronize", event);
  call_.check("cudaEventSynchronize", call_->cudaEventSynchronize(native));
  timer_.collect();
}

void gpu::synchronize(stream_id stream, wait_edge) {
  const device_scope current(call_, "synchronize");
  const beside_captures beside(call_);
  const auto on = find_open("synchronize", stream);
  timer_.end_compute(stream, on.native);
  call_.check("cudaStreamSynchronize", call_->cudaStreamSynchronize(on.native));
  timer_.collect();
}

void gpu::settle(stream_id stream) {
  synchronize(stream, {"settle"});
}

void gpu::host_read(const_bytes, operation_tag) {}

void gpu::host_write(mutable_bytes, operation_tag) {}

host_thread_id gpu::create_host_thread(std::string_view) {
  return host_thread_id{++host_threads_};
}

void gpu::destroy_host_thread(host_thread_id) noexcept {}

host_thread_id gpu::enter(host_thread_id thread) noexcept {
  return act_as(call_, thread);
}

causal_stamp gpu::stamp() {
  return {};
}

void gpu::observe(const causal_stamp&) {}

void gpu::spend(nanoseconds) {}

nanoseconds gpu::now() {
  return timer_.now();
}

device_counters gpu::counters() const {
  auto result = device_counters{};
  memory_.report(result);
  result.copies = copies_;
  result.blocking_copies = blocking_copies_;
  result.h2d_bytes = h2d_bytes_;
  result.d2h_bytes = d2h_bytes_;
  const auto lock = std::scoped_lock(mutex_);
  result.streams = static_cast<std::uint32_t>(streams_.size());
  result.events = static_cast<std::uint32_t>(events_.size());
  return result;
}

void gpu::attach(operation_observer& observer) {
  timer_.attach(observer);
}

void gpu::detach(operation_observer& observer) noexcept {
  timer_.detach(observer);
}

gpu::queue gpu::find(const char* operation, stream_id stream) const {
  const auto lock = std::scoped_lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end())
    throw stale(operation, "stream", static_cast<std::uint32_t>(stream));
  return found->second;
}

cudaEvent_t gpu::find(const char* operation, event_id event) const {
  const auto lock = std::scoped_lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end())
    throw stale(operation, "event", static_cast<std::uint32_t>(event));
  return found->second;
}

gpu::queue gpu::find_open(const char* operation, stream_id stream) const {
  const auto found = find(operation, stream);
  if (!found.adopted)
    return found;
  auto status = cudaStreamCaptureStatusNone;
  call_.check("cudaStreamIsCapturing", call_->cudaStreamIsCapturing(found.native, &status));
  if (status != cudaStreamCaptureStatusNone)
    throw device_error(errc::unsupported, operation,
                       "the caller's stream is being captured into a CUDA graph, and weights that "
                       "are streamed cannot be part of one; run blocks outside of the capture, or "
                       "capture without offloading");
  return found;
}

} // namespace ferry::cuda
