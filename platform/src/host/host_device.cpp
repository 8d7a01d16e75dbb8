// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/host_device.hpp"

#include "copy_checks.hpp"
#include "ferry/platform/error.hpp"
#include "ferry/platform/log.hpp"
#include "host/bounded_memory.hpp"
#include "host/cache_share.hpp"
#include "host/span_reporter.hpp"
#include "host/sticky_fault.hpp"
#include "host/stream_queue.hpp"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace ferry {

namespace {

thread_local auto acting_as = host_thread_id{0};

device_error stale(std::string_view operation, std::string_view what, std::uint32_t number) {
  return {errc::stale_handle, operation,
          "no " + std::string(what) + " " + std::to_string(number) +
              " on this device; it has been destroyed or belongs to another"};
}

void warn_stale(std::string_view operation, std::string_view what, std::uint32_t number) {
  log(log_level::error, "ferry.platform",
      std::string(operation) + " " + std::string(what) + "=" + std::to_string(number) +
          " error=stale_handle");
}

/// @throws operation_failed
void await(const record_point& point) {
  point.await();
  if (auto cause = point.failed())
    throw operation_failed(std::move(*cause));
}

} // namespace

class host_device::state {
public:
  explicit state(const host_device_options& options)
      : memory(options.memory), cache(options.page_cache), reporter(fault) {}

  [[nodiscard]] std::shared_ptr<stream_queue> find(std::string_view operation, stream_id id) const {
    const auto lock = std::scoped_lock(mutex);
    const auto found = streams.find(id);
    if (found == streams.end())
      throw stale(operation, "stream", static_cast<std::uint32_t>(id));
    return found->second;
  }

  [[nodiscard]] record_point find(std::string_view operation, event_id id) const {
    const auto lock = std::scoped_lock(mutex);
    const auto found = events.find(id);
    if (found == events.end())
      throw stale(operation, "event", static_cast<std::uint32_t>(id));
    return found->second;
  }

  device_traits traits{.name = "host",
                       .computes_on_host = true,
                       .virtual_time = false,
                       .wants_pinned_sources = false,
                       .converts = true,
                       .computes_in_place = true};
  bounded_memory memory;
  cache_share cache;
  sticky_fault fault;
  span_reporter reporter;
  std::atomic<std::uint64_t> copies = 0;
  std::atomic<std::uint64_t> h2d_bytes = 0;
  std::atomic<std::uint64_t> d2h_bytes = 0;
  std::atomic<std::uint32_t> host_threads = 0;

  mutable std::mutex mutex;
  std::uint32_t last_stream = 0;
  std::uint32_t last_event = 0;
  std::unordered_map<event_id, record_point> events;
  std::unordered_map<stream_id, std::shared_ptr<stream_queue>> streams;
};

host_device::host_device(const host_device_options& options)
    : state_(std::make_unique<state>(options)) {}

host_device::~host_device() = default;

const device_traits& host_device::traits() const noexcept {
  return state_->traits;
}

mutable_bytes host_device::allocate(memory_kind kind, std::size_t bytes) {
  return state_->memory.allocate(kind, bytes);
}

void host_device::release(memory_kind kind, mutable_bytes block) noexcept {
  if (!state_->memory.release(kind, block))
    log(log_level::error, "ferry.platform",
        "release bytes=" + std::to_string(block.size()) + " error=not_allocated_here");
}

device_memory host_device::memory() const {
  return state_->memory.usage();
}

// Its streams are threads: they read any memory, and there is nothing to register it with.
void host_device::register_pages(const_bytes) {
  throw device_error(errc::unsupported, "register pages",
                     "the host device reads all memory as it is; expected a device with a link");
}

void host_device::unregister_pages(const_bytes) {
  throw device_error(errc::invalid_argument, "unregister pages", "the range is not registered");
}

bool host_device::pages_registered(const_bytes) {
  return false;
}

stream_id host_device::create_stream(std::string_view name) {
  auto id = stream_id{};
  {
    const auto lock = std::scoped_lock(state_->mutex);
    id = stream_id{++state_->last_stream};
    state_->streams.emplace(id, std::make_shared<stream_queue>(id, name, state_->reporter,
                                                               state_->fault, state_->cache));
  }
  state_->reporter.report(id, name);
  return id;
}

void host_device::destroy_stream(stream_id stream) noexcept {
  auto lock = std::unique_lock(state_->mutex);
  const auto ended = state_->streams.extract(stream);
  lock.unlock();
  if (ended.empty())
    warn_stale("destroy", "stream", static_cast<std::uint32_t>(stream));
}

event_id host_device::create_event() {
  const auto lock = std::scoped_lock(state_->mutex);
  const auto id = event_id{++state_->last_event};
  state_->events.emplace(id, record_point{});
  return id;
}

void host_device::destroy_event(event_id event) noexcept {
  auto lock = std::unique_lock(state_->mutex);
  const auto known = state_->events.erase(event) == 1;
  lock.unlock();
  if (!known)
    warn_stale("destroy", "event", static_cast<std::uint32_t>(event));
}

void host_device::copy(stream_id stream, const copy_operation& operation) {
  const auto queue = state_->find("copy", stream);
  require_copyable(operation, state_->traits);
  state_->fault.refuse("copy");
  queue->copy(operation);

  ++state_->copies;
  const auto to_device = operation.to == memory_kind::device;
  const auto from_device = operation.from == memory_kind::device;
  if (to_device && !from_device)
    state_->h2d_bytes += operation.source.size();
  if (from_device && !to_device)
    state_->d2h_bytes += operation.source.size();
}

void host_device::populate(stream_id stream, const_bytes pages, operation_tag tag) {
  const auto queue = state_->find("populate", stream);
  state_->fault.refuse("populate");
  queue->populate(pages, tag);
  ++state_->copies;
  state_->h2d_bytes += pages.size();
}

void host_device::evict(stream_id stream, const_bytes pages, operation_tag tag) {
  state_->find("evict", stream)->evict(pages, tag);
}

void host_device::gather(stream_id stream, operation_tag tag, std::uint64_t bytes,
                         std::function<void(const std::optional<failure>&)> exchange) {
  const auto queue = state_->find("all_gather", stream);
  state_->fault.refuse("all_gather");
  queue->gather(tag, bytes, std::move(exchange));
}

void host_device::compute(stream_id stream, const compute_operation& operation) {
  state_->find("compute", stream)->announce(operation_kind::compute, operation.tag);
}

void host_device::discard(stream_id stream, mutable_bytes, operation_tag tag) {
  state_->find("discard", stream)->announce(operation_kind::discard, tag);
}

void host_device::mark(stream_id stream, operation_tag tag) {
  state_->find("mark", stream)->announce(operation_kind::mark, tag);
}

void host_device::record(stream_id stream, event_id event) {
  auto point = state_->find("record", stream)->record();
  const auto lock = std::scoped_lock(state_->mutex);
  const auto found = state_->events.find(event);
  if (found == state_->events.end())
    throw stale("record", "event", static_cast<std::uint32_t>(event));
  found->second = std::move(point);
}

void host_device::wait(stream_id stream, event_id event, wait_edge) {
  state_->find("wait", stream)->wait(state_->find("wait", event));
}

bool host_device::ready(event_id event) {
  return state_->find("query", event).reached();
}

void host_device::synchronize(event_id event, wait_edge) {
  await(state_->find("synchronize", event));
  state_->fault.rethrow("synchronize");
}

void host_device::synchronize(stream_id stream, wait_edge) {
  await(state_->find("synchronize", stream)->tail());
  state_->fault.rethrow("synchronize");
}

void host_device::drain(event_id event, wait_edge) {
  state_->find("drain", event).drain();
}

void host_device::drain(stream_id stream, wait_edge) {
  state_->find("drain", stream)->tail().drain();
}

void host_device::settle(stream_id stream) {
  await(state_->find("settle", stream)->tail());
  state_->fault.rethrow("settle");
}

void host_device::host_read(const_bytes, operation_tag) {}

void host_device::host_write(mutable_bytes, operation_tag) {}

host_thread_id host_device::create_host_thread(std::string_view) {
  return host_thread_id{++state_->host_threads};
}

void host_device::destroy_host_thread(host_thread_id) noexcept {}

host_thread_id host_device::enter(host_thread_id thread) noexcept {
  return std::exchange(acting_as, thread);
}

causal_stamp host_device::stamp() {
  return {};
}

void host_device::observe(const causal_stamp&) {}

void host_device::spend(nanoseconds) {}

nanoseconds host_device::now() {
  return state_->reporter.now();
}

device_counters host_device::counters() const {
  auto result = device_counters{};
  state_->memory.report(result);
  result.copies = state_->copies;
  result.h2d_bytes = state_->h2d_bytes;
  result.d2h_bytes = state_->d2h_bytes;
  const auto lock = std::scoped_lock(state_->mutex);
  result.streams = static_cast<std::uint32_t>(state_->streams.size());
  result.events = static_cast<std::uint32_t>(state_->events.size());
  return result;
}

void host_device::attach(operation_observer& observer) {
  state_->reporter.attach(observer);
}

void host_device::detach(operation_observer& observer) noexcept {
  state_->reporter.detach(observer);
}

std::size_t installed_memory() noexcept {
  const auto pages = ::sysconf(_SC_PHYS_PAGES);
  const auto page = ::sysconf(_SC_PAGESIZE);
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page);
}

} // namespace ferry
