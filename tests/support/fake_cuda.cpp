// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/fake_cuda.hpp"

#include <ferry/platform/error.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

namespace ferry::test {
namespace {

fake_cuda* current = nullptr;
std::atomic<std::uint64_t> all_calls = 0;

thread_local auto pending_error = cudaSuccess;
thread_local auto current_device_of_thread = 0;
thread_local auto capture_mode = cudaStreamCaptureModeGlobal;

/// Tells at the end of the process how much the fake has checked.
struct call_counter {
  ~call_counter() {
    if (all_calls != 0)
      std::printf("fake CUDA: %llu calls\n", static_cast<unsigned long long>(all_calls.load()));
  }
};
[[maybe_unused]] const call_counter told_at_the_end;

template <class Handle>
std::uintptr_t key(Handle handle) noexcept {
  return reinterpret_cast<std::uintptr_t>(handle);
}

template <class Handle>
Handle handle(std::uintptr_t number) noexcept {
  return reinterpret_cast<Handle>(number);
}

const std::byte* bytes_at(const void* data) noexcept {
  return static_cast<const std::byte*>(data);
}

bool overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  return a != nullptr && b != nullptr && a < b + b_bytes && b < a + a_bytes;
}

template <class Ranges>
auto containing(Ranges& ranges, const void* data, std::size_t bytes) {
  const auto after = ranges.upper_bound(bytes_at(data));
  if (after == ranges.begin())
    return ranges.end();
  const auto found = std::prev(after);
  return bytes_at(data) + bytes <= found->first + found->second.bytes ? found : ranges.end();
}

const char* kind_text(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return "h2d";
    case cudaMemcpyDeviceToHost:
      return "d2h";
    case cudaMemcpyDeviceToDevice:
      return "d2d";
    default:
      return "other";
  }
}

std::string text(std::uint64_t number) {
  return std::to_string(number);
}

} // namespace

/// The functions in the table.
struct fake_calls {
  using fake = fake_cuda;

  // Each takes the lock, writes itself down, and goes on unless it is made to fail.
#define FERRY_FAKE_CALL(name, arguments)                                                           \
  auto& f = *current;                                                                              \
  const auto lock = std::scoped_lock(f.mutex_);                                                    \
  if (const auto refused = f.begin(#name, arguments); refused != cudaSuccess)                      \
  return f.end(refused)

  static cudaError_t driver_version(int* version) {
    FERRY_FAKE_CALL(cudaDriverGetVersion, "");
    *version = f.options_.driver_version;
    return cudaSuccess;
  }
  static cudaError_t runtime_version(int* version) {
    FERRY_FAKE_CALL(cudaRuntimeGetVersion, "");
    *version = f.options_.runtime_version;
    return cudaSuccess;
  }
  static cudaError_t device_count(int* count) {
    FERRY_FAKE_CALL(cudaGetDeviceCount, "");
    *count = 0;
    if (f.options_.driver_version < f.options_.runtime_version)
      return f.end(cudaErrorInsufficientDriver);
    *count = f.options_.devices;
    return f.end(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
  }
  static cudaError_t properties(cudaDeviceProp* properties, int device) {
    FERRY_FAKE_CALL(cudaGetDeviceProperties, "device=" + std::to_string(device));
    std::strcpy(properties->name, "Fake GPU");
    properties->totalGlobalMem = f.options_.memory;
    return cudaSuccess;
  }
  static cudaError_t attribute(int* value, cudaDeviceAttr attribute, int device) {
    FERRY_FAKE_CALL(cudaDeviceGetAttribute,
                    "attribute=" + std::to_string(attribute) + " device=" + std::to_string(device));
    *value =
        attribute == cudaDevAttrHostRegisterReadOnlySupported && f.options_.read_only_registration;
    return cudaSuccess;
  }
  static cudaError_t pci_address(char* address, int bytes, int device) {
    FERRY_FAKE_CALL(cudaDeviceGetPCIBusId, "device=" + std::to_string(device));
    std::snprintf(address, static_cast<std::size_t>(bytes), "0000:%02X:00.0", 0x3B + device);
    return cudaSuccess;
  }
  static cudaError_t get_device(int* device) {
    FERRY_FAKE_CALL(cudaGetDevice, "");
    *device = current_device_of_thread;
    return cudaSuccess;
  }
  static cudaError_t set_device(int device) {
    auto& f = *current;
    const auto lock = std::scoped_lock(f.mutex_);
    const auto there = device >= 0 && device < f.options_.devices;
    if (const auto refused = f.begin("cudaSetDevice", "device=" + std::to_string(device));
        refused != cudaSuccess) {
      if (there)
        current_device_of_thread = device;
      return f.end(refused);
    }
    if (!there)
      return f.end(cudaErrorInvalidDevice);
    current_device_of_thread = device;
    f.contexts_.insert(device);
    return cudaSuccess;
  }
  static CUresult context_state(CUdevice device, unsigned* flags, int* active) {
    const auto lock = std::scoped_lock(current->mutex_);
    *flags = 0;
    *active = current->contexts_.contains(device);
    return CUDA_SUCCESS;
  }
  static const char* error_name(cudaError_t status) {
    switch (status) {
      case cudaSuccess:
        return "cudaSuccess";
      case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
      case cudaErrorIllegalAddress:
        return "cudaErrorIllegalAddress";
      case cudaErrorHostMemoryAlreadyRegistered:
        return "cudaErrorHostMemoryAlreadyRegistered";
      case cudaErrorNotPermitted:
        return "cudaErrorNotPermitted";
      default:
        return "cudaErrorOfTheFake";
    }
  }
  static const char* error_string(cudaError_t status) {
    return status == cudaSuccess ? "no error" : "as the test wants it";
  }
  static cudaError_t last_error() {
    const auto lock = std::scoped_lock(current->mutex_);
    const auto pending = current->lost_ != cudaSuccess ? current->lost_ : pending_error;
    pending_error = cudaSuccess;
    return pending;
  }
  static cudaError_t exchange_mode(cudaStreamCaptureMode* mode) {
    FERRY_FAKE_CALL(cudaThreadExchangeStreamCaptureMode, "mode=" + std::to_string(*mode));
    std::swap(*mode, capture_mode);
    return cudaSuccess;
  }

  static cudaError_t allocate(void** data, std::size_t bytes) {
    FERRY_FAKE_CALL(cudaMalloc, "bytes=" + text(bytes));
    if (const auto refused = f.unsafe(); refused != cudaSuccess)
      return f.end(refused);
    if (bytes > f.options_.memory - f.used_)
      return f.end(cudaErrorMemoryAllocation);
    *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    f.used_ += bytes;
    f.allocations_.emplace(bytes_at(*data), fake::range{bytes, current_device_of_thread});
    return cudaSuccess;
  }
  static cudaError_t free(void* data) {
    FERRY_FAKE_CALL(cudaFree, data == nullptr ? "null" : "block");
    if (const auto refused = f.unsafe(); refused != cudaSuccess)
      return f.end(refused);
    if (data == nullptr)
      return cudaSuccess;
    const auto found = f.allocations_.find(bytes_at(data));
    if (found == f.allocations_.end())
      return f.wrong("cudaFree of memory that is not allocated", cudaErrorInvalidValue);
    if (!f.require_current(found->second.device, "cudaFree"))
      return f.end(cudaErrorInvalidValue);
    if (f.touched_by_work(data, found->second.bytes))
      static_cast<void>(f.wrong("cudaFree under work that has not run", cudaSuccess));
    f.used_ -= found->second.bytes;
    f.allocations_.erase(found);
    std::free(data);
    return cudaSuccess;
  }
  static cudaError_t memory_info(std::size_t* free, std::size_t* total) {
    FERRY_FAKE_CALL(cudaMemGetInfo, "");
    *free = f.options_.memory - f.used_;
    *total = f.options_.memory;
    return cudaSuccess;
  }
  static cudaError_t host_register(void* data, std::size_t bytes, unsigned flags) {
    FERRY_FAKE_CALL(cudaHostRegister, "bytes=" + text(bytes) + " flags=" + text(flags));
    if (const auto refused = f.unsafe(); refused != cudaSuccess)
      return f.end(refused);
    if (bytes == 0)
      return f.end(cudaErrorInvalidValue);
    if (flags == cudaHostRegisterReadOnly && !f.options_.read_only_registration)
      return f.end(cudaErrorNotSupported);
    for (const auto& [begin, each] : f.registrations_)
      if (overlap(begin, each.bytes, bytes_at(data), bytes))
        return f.end(cudaErrorHostMemoryAlreadyRegistered);
    if (bytes > f.options_.pinnable - std::min(f.options_.pinnable, f.pinned_))
      return f.end(cudaErrorMemoryAllocation);
    f.registrations_.emplace(bytes_at(data), fake::range{bytes, current_device_of_thread});
    f.pinned_ += bytes;
    return cudaSuccess;
  }
  static cudaError_t host_unregister(void* data) {
    FERRY_FAKE_CALL(cudaHostUnregister, "");
    if (const auto refused = f.unsafe(); refused != cudaSuccess)
      return f.end(refused);
    const auto found = f.registrations_.find(bytes_at(data));
    if (found == f.registrations_.end())
      return f.wrong("cudaHostUnregister of what is not registered",
                     cudaErrorHostMemoryNotRegistered);
    if (f.touched_by_work(data, found->second.bytes))
      static_cast<void>(f.wrong("cudaHostUnregister under work that has not run", cudaSuccess));
    if (!f.require_current(found->second.device, "cudaHostUnregister"))
      return f.end(cudaErrorInvalidValue);
    f.pinned_ -= found->second.bytes;
    f.registrations_.erase(found);
    return cudaSuccess;
  }

  static cudaError_t pointer_attributes(cudaPointerAttributes* told, const void* data) {
    FERRY_FAKE_CALL(cudaPointerGetAttributes, "");
    const auto on_device = containing(f.allocations_, data, 1) != f.allocations_.end();
    told->type = on_device               ? cudaMemoryTypeDevice
                 : f.registered(data, 1) ? cudaMemoryTypeHost
                                         : cudaMemoryTypeUnregistered;
    return cudaSuccess;
  }

  static cudaError_t create_stream(cudaStream_t* stream, unsigned flags) {
    FERRY_FAKE_CALL(cudaStreamCreateWithFlags, "flags=" + text(flags));
    f.streams_[++f.last_handle_].device = current_device_of_thread;
    *stream = handle<cudaStream_t>(f.last_handle_);
    return cudaSuccess;
  }
  static cudaError_t destroy_stream(cudaStream_t stream) {
    FERRY_FAKE_CALL(cudaStreamDestroy, "stream=" + f.number_of(stream));
    auto* const found = f.find(stream, "cudaStreamDestroy");
    if (found == nullptr)
      return f.end(cudaErrorInvalidResourceHandle);
    if (found->callers)
      return f.wrong("cudaStreamDestroy of the caller's stream", cudaSuccess);
    found->destroyed = true;
    return cudaSuccess;
  }
  static cudaError_t is_capturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    FERRY_FAKE_CALL(cudaStreamIsCapturing, "stream=" + f.number_of(stream));
    if (f.find(stream, "cudaStreamIsCapturing") == nullptr)
      return f.end(cudaErrorInvalidResourceHandle);
    const auto found = f.captures_.find(key(stream));
    *status = found == f.captures_.end() ? cudaStreamCaptureStatusNone
              : found->second            ? cudaStreamCaptureStatusActive
                                         : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
  }
  static cudaError_t synchronize_stream(cudaStream_t stream) {
    FERRY_FAKE_CALL(cudaStreamSynchronize, "stream=" + f.number_of(stream));
    if (const auto refused = f.unsafe(); refused != cudaSuccess)
      return f.end(refused);
    auto* const found = f.find(stream, "cudaStreamSynchronize");
    if (found == nullptr)
      return f.end(cudaErrorInvalidResourceHandle);
    f.run_all(*found);
    return f.end(f.lost_);
  }
  static cudaError_t wait_event(cudaStream_t stream, cudaEvent_t event, unsigned) {
    FERRY_FAKE_CALL(cudaStreamWaitEvent,
                    "stream=" + f.number_of(stream) + " event=" + text(key(event)));
    auto* const on = f.find(stream, "cudaStreamWaitEvent");
    auto* const waited = f.find(event, "cudaStreamWaitEvent");
    if (on == nullptr || waited == nullptr)
      return f.end(cudaErrorInvalidResourceHandle);
    f.note_capture(stream, "cudaStreamWaitEvent");
    if (waited->record != nullptr)
      on->jobs.push_back({[] {}, waited->record});
    return cudaSuccess;
  }

  static cudaError_t create_event(cudaEvent_t* event, unsigned flags) {
    FERRY_FAKE_CALL(cudaEventCreateWithFlags, "flags=" + text(flags));
    f.events_[++f.last_handle_] = {current_device_of_thread, (flags & cudaEventDisableTiming) == 0,
                                   nullptr, 0};
    *event = handle<cudaEvent_t>(f.last_handle_);
    return cudaSuccess;
  }
  static cudaError_t destroy_event(cudaEvent_t event) {
    FERRY_FAKE_CALL(cudaEventDestroy, "event=" + text(key(event)));
    if (f.find(event, "cudaEventDestroy") == nullptr)
      return f.end(cudaErrorInvalidResourceHandle);
    f.events_.erase(key(event));
    return cudaSuccess;
  }
  static cudaError_t record_event(cudaEvent_t event, cudaStream_t stream) {
    FERRY_FAKE_CALL(cudaEventRecord,
                    "event=" + text(key(event)) + " stream=" + f.number_of(stream));
    auto* const recorded = f.find(event, "cudaEventRecord");
    auto* const on = f.find(stream, "cudaEventRecord");
    if (recorded == nullptr || on == nullptr)
      return f.end(cudaErrorInvalidResourceHandle);
    if (recorded->device != on->device)
      return f.wrong("cudaEventRecord on a stream of another device",
                     cudaErrorInvalidResourceHandle);
    f.note_capture(stream, "cudaEventRecord");
    recorded->record = std::make_shared<fake::record_state>();
    recorded->stream = key(stream);
    on->jobs.push_back({[&f, state = recorded->record] {
                          state->reached = true;
                          state->tick = ++f.tick_;
                        },
                        nullptr});
    return cudaSuccess;
  }
  /// Asking makes progress, so that whoever asks until it is done comes to an end.
  static cudaError_t query_event(cudaEvent_t event) {
    FERRY_FAKE_CALL(cudaEventQuery, "event=" + text(key(event)));
    if (const auto refused = f.unsafe(); refused != cudaSuccess)
      return f.end(refused);
    auto* const asked = f.find(event, "cudaEventQuery");
    if (asked == nullptr)
      return f.end(cudaErrorInvalidResourceHandle);
    if (asked->record == nullptr || asked->record->reached)
      return cudaSuccess;
    static_cast<void>(f.step(f.streams_.at(asked->stream)));
    return f.end(cudaErrorNotReady);
  }
  static cudaError_t synchronize_event(cudaEvent_t event) {
    FERRY_FAKE_CALL(cudaEventSynchronize, "event=" + text(key(event)));
    if (const auto refused = f.unsafe(); refused != cudaSuccess)
      return f.end(refused);
    auto* const awaited = f.find(event, "cudaEventSynchronize");
    if (awaited == nullptr)
      return f.end(cudaErrorInvalidResourceHandle);
    if (const auto record = awaited->record; record != nullptr)
      f.run_until([&] { return record->reached; }, f.streams_.at(awaited->stream));
    return f.end(f.lost_);
  }
  static cudaError_t elapsed(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
    FERRY_FAKE_CALL(cudaEventElapsedTime, "from=" + text(key(from)) + " to=" + text(key(to)));
    const auto* const first = f.find(from, "cudaEventElapsedTime");
    const auto* const last = f.find(to, "cudaEventElapsedTime");
    if (first == nullptr || last == nullptr)
      return f.end(cudaErrorInvalidResourceHandle);
    if (!first->timed || !last->timed)
      return f.wrong("cudaEventElapsedTime of events without times",
                     cudaErrorInvalidResourceHandle);
    if (!first->record->reached || !last->record->reached)
      return f.end(cudaErrorNotReady);
    *milliseconds = static_cast<float>(static_cast<std::int64_t>(last->record->tick) -
                                       static_cast<std::int64_t>(first->record->tick)) *
                    0.001F;
    return cudaSuccess;
  }

  static cudaError_t copy(void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                          cudaStream_t stream) {
    FERRY_FAKE_CALL(cudaMemcpyAsync, std::string(kind_text(kind)) + " bytes=" + text(bytes) +
                                         " stream=" + f.number_of(stream));
    auto* const on = f.find(stream, "cudaMemcpyAsync");
    if (on == nullptr)
      return f.end(cudaErrorInvalidResourceHandle);
    f.note_capture(stream, "cudaMemcpyAsync");
    const auto to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const auto from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    const auto on_device = [&](const void* data) {
      return containing(f.allocations_, data, bytes) != f.allocations_.end();
    };
    if (to_device != on_device(target) || from_device != on_device(source))
      return f.wrong("cudaMemcpyAsync in another direction than its memory", cudaErrorInvalidValue);
    if (!from_device && !f.registered(source, bytes)) {
      f.run_all(*on);
      auto staged =
          std::make_shared<std::vector<std::byte>>(bytes_at(source), bytes_at(source) + bytes);
      on->jobs.push_back({[=] { std::memcpy(target, staged->data(), bytes); }, nullptr,
                          bytes_at(target), nullptr, bytes});
    } else {
      on->jobs.push_back({[=] { std::memcpy(target, source, bytes); }, nullptr, bytes_at(target),
                          bytes_at(source), bytes});
    }
    if (!to_device && !f.registered(target, bytes))
      f.run_all(*on);
    return f.end(f.lost_);
  }
#undef FERRY_FAKE_CALL

  static cuda::runtime_api table() {
    cuda::runtime_api made;
    made.cudaDriverGetVersion = driver_version;
    made.cudaRuntimeGetVersion = runtime_version;
    made.cudaGetDeviceCount = device_count;
    made.cudaGetDeviceProperties = properties;
    made.cudaDeviceGetAttribute = attribute;
    made.cudaDeviceGetPCIBusId = pci_address;
    made.cudaGetDevice = get_device;
    made.cudaSetDevice = set_device;
    made.cuDevicePrimaryCtxGetState = context_state;
    made.cudaGetErrorName = error_name;
    made.cudaGetErrorString = error_string;
    made.cudaGetLastError = last_error;
    made.cudaThreadExchangeStreamCaptureMode = exchange_mode;
    made.cudaMalloc = allocate;
    made.cudaFree = free;
    made.cudaMemGetInfo = memory_info;
    made.cudaHostRegister = host_register;
    made.cudaHostUnregister = host_unregister;
    made.cudaPointerGetAttributes = pointer_attributes;
    made.cudaStreamCreateWithFlags = create_stream;
    made.cudaStreamDestroy = destroy_stream;
    made.cudaStreamIsCapturing = is_capturing;
    made.cudaStreamSynchronize = synchronize_stream;
    made.cudaStreamWaitEvent = wait_event;
    made.cudaEventCreateWithFlags = create_event;
    made.cudaEventDestroy = destroy_event;
    made.cudaEventRecord = record_event;
    made.cudaEventQuery = query_event;
    made.cudaEventSynchronize = synchronize_event;
    made.cudaEventElapsedTime = elapsed;
    made.cudaMemcpyAsync = copy;
    return made;
  }
};

fake_cuda::fake_cuda(const fake_cuda_options& options)
    : options_(options), api_(fake_calls::table()), before_(std::exchange(current, this)) {
  pending_error = cudaSuccess;
  current_device_of_thread = 0;
  capture_mode = cudaStreamCaptureModeGlobal;
}

fake_cuda::~fake_cuda() {
  for (const auto& [data, each] : allocations_)
    std::free(const_cast<std::byte*>(data));
  auto** made = &current;
  while (*made != this)
    made = &(*made)->before_;
  *made = before_;
}

void fake_cuda::fail(std::string_view name, cudaError_t status, std::size_t n) {
  const auto lock = std::scoped_lock(mutex_);
  failing_[std::string(name)] = {n, status};
}

void fake_cuda::fail_any(std::size_t n, cudaError_t status) {
  const auto lock = std::scoped_lock(mutex_);
  failing_any_ = {n, status};
}

void fake_cuda::lose_at(std::size_t n, cudaError_t status) {
  const auto lock = std::scoped_lock(mutex_);
  losing_ = {n, status};
}

void fake_cuda::poison(cudaError_t status) {
  const auto lock = std::scoped_lock(mutex_);
  lost_ = status;
}

void fake_cuda::shut_down() {
  const auto lock = std::scoped_lock(mutex_);
  unloading_ = true;
}

cudaStream_t fake_cuda::make_stream() {
  const auto lock = std::scoped_lock(mutex_);
  auto& made = streams_[++last_handle_];
  made.device = current_device_of_thread;
  made.callers = true;
  return handle<cudaStream_t>(last_handle_);
}

void fake_cuda::drop_stream(cudaStream_t stream) {
  const auto lock = std::scoped_lock(mutex_);
  streams_.at(key(stream)).destroyed = true;
}

void fake_cuda::begin_capture(cudaStream_t stream) {
  const auto lock = std::scoped_lock(mutex_);
  captures_[key(stream)] = true;
}

bool fake_cuda::end_capture(cudaStream_t stream) {
  const auto lock = std::scoped_lock(mutex_);
  const auto valid = captures_.at(key(stream));
  captures_.erase(key(stream));
  return valid;
}

void fake_cuda::launch(cudaStream_t stream, std::function<void()> kernel) {
  const auto lock = std::scoped_lock(mutex_);
  streams_.at(key(stream)).jobs.push_back({std::move(kernel), nullptr});
}

void fake_cuda::launch(cudaStream_t stream, std::function<void()> begin,
                       std::function<bool()> over) {
  const auto lock = std::scoped_lock(mutex_);
  auto& jobs = streams_.at(key(stream)).jobs;
  jobs.push_back({std::move(begin), nullptr});
  jobs.push_back({.run = [] {}, .after = nullptr, .over = std::move(over)});
}

void fake_cuda::note(std::string_view call) {
  const auto lock = std::scoped_lock(mutex_);
  calls_.emplace_back(call, "");
}

void fake_cuda::meanwhile(std::string_view name, std::function<void()> act) {
  const auto lock = std::scoped_lock(mutex_);
  meanwhile_.insert_or_assign(std::string(name), std::move(act));
}

void fake_cuda::pass(std::chrono::microseconds span) {
  const auto lock = std::scoped_lock(mutex_);
  tick_ += static_cast<std::uint64_t>(span.count());
}

void fake_cuda::finish() {
  const auto lock = std::scoped_lock(mutex_);
  for (auto& [number, each] : streams_)
    run_all(each);
}

void fake_cuda::clear() {
  const auto lock = std::scoped_lock(mutex_);
  for (const auto& [data, each] : allocations_)
    std::free(const_cast<std::byte*>(data));
  allocations_.clear();
  registrations_.clear();
  events_.clear();
  streams_.clear();
}

std::vector<std::string> fake_cuda::calls(const std::set<std::string_view>& without) const {
  const auto lock = std::scoped_lock(mutex_);
  std::vector<std::string> told;
  for (const auto& [name, arguments] : calls_)
    if (!without.contains(name))
      told.push_back(arguments.empty() ? name : name + " " + arguments);
  return told;
}

std::size_t fake_cuda::count(std::string_view name) const {
  const auto lock = std::scoped_lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(calls_, [&](const auto& each) { return each.first == name; }));
}

std::size_t fake_cuda::count() const {
  const auto lock = std::scoped_lock(mutex_);
  return calls_.size();
}

void fake_cuda::forget_calls() {
  const auto lock = std::scoped_lock(mutex_);
  calls_.clear();
}

std::vector<std::string> fake_cuda::misuse() const {
  const auto lock = std::scoped_lock(mutex_);
  return misuse_;
}

std::vector<std::string> fake_cuda::left() const {
  const auto lock = std::scoped_lock(mutex_);
  std::vector<std::string> told;
  for (const auto& [number, each] : streams_)
    if (!each.destroyed && !each.callers)
      told.push_back("stream " + text(number));
  for (const auto& [number, each] : events_)
    told.push_back("event " + text(number));
  for (const auto& [data, each] : allocations_)
    told.push_back("device memory of " + text(each.bytes) + " bytes");
  for (const auto& [data, each] : registrations_)
    told.push_back("registration of " + text(each.bytes) + " bytes");
  return told;
}

std::size_t fake_cuda::operations_waiting() const {
  const auto lock = std::scoped_lock(mutex_);
  std::size_t waiting = 0;
  for (const auto& [number, each] : streams_)
    waiting += each.jobs.size();
  return waiting;
}

cudaError_t fake_cuda::pending() const {
  return pending_error;
}

std::set<int> fake_cuda::contexts() const {
  const auto lock = std::scoped_lock(mutex_);
  return contexts_;
}

bool fake_cuda::capture_mode_is_default() {
  return capture_mode == cudaStreamCaptureModeGlobal;
}

int fake_cuda::current_device() {
  return current_device_of_thread;
}

void fake_cuda::make_current(int device) {
  current_device_of_thread = device;
}

cudaError_t fake_cuda::begin(std::string_view name, const std::string& arguments) {
  ++all_calls;
  calls_.emplace_back(name, arguments);
  if (const auto act = meanwhile_.extract(std::string(name)))
    act.mapped()();
  if (losing_ && losing_->first-- == 0) {
    lost_ = losing_->second;
    losing_.reset();
  }
  if (failing_any_ && failing_any_->first-- == 0) {
    const auto status = failing_any_->second;
    failing_any_.reset();
    return status;
  }
  const auto found = failing_.find(name);
  if (found != failing_.end() && found->second.first-- == 0) {
    const auto status = found->second.second;
    failing_.erase(found);
    return status;
  }
  if (unloading_)
    return cudaErrorCudartUnloading;
  // These ask nothing of the context.
  const auto always = name == "cudaGetDevice" || name == "cudaSetDevice" ||
                      name == "cudaGetDeviceCount" || name == "cudaDriverGetVersion" ||
                      name == "cudaRuntimeGetVersion" ||
                      name == "cudaThreadExchangeStreamCaptureMode";
  if (always || name == "cudaGetDeviceProperties" || name == "cudaDeviceGetAttribute" ||
      name == "cudaDeviceGetPCIBusId")
    return cudaSuccess;
  contexts_.insert(current_device_of_thread);
  return lost_;
}

cudaError_t fake_cuda::end(cudaError_t status) {
  if (status != cudaSuccess)
    pending_error = status;
  return status;
}

cudaError_t fake_cuda::wrong(const std::string& what, cudaError_t status) {
  misuse_.push_back(what);
  return end(status);
}

fake_cuda::fake_stream* fake_cuda::find(cudaStream_t stream, std::string_view name) {
  if (stream == nullptr)
    streams_[0].callers = true; // The default stream of the device.
  const auto found = streams_.find(key(stream));
  if (found == streams_.end() || found->second.destroyed) {
    static_cast<void>(wrong(std::string(name) + " of a stream that is gone", cudaSuccess));
    return nullptr;
  }
  return stream == nullptr || require_current(found->second.device, name) ? &found->second
                                                                          : nullptr;
}

fake_cuda::fake_event* fake_cuda::find(cudaEvent_t event, std::string_view name) {
  const auto found = events_.find(key(event));
  if (found == events_.end()) {
    static_cast<void>(wrong(std::string(name) + " of an event that is gone", cudaSuccess));
    return nullptr;
  }
  return require_current(found->second.device, name) ? &found->second : nullptr;
}

bool fake_cuda::require_current(int device, std::string_view name) {
  if (device == current_device_of_thread)
    return true;
  static_cast<void>(wrong(std::string(name) + " of device " + std::to_string(device) +
                              " while device " + std::to_string(current_device_of_thread) +
                              " is current",
                          cudaSuccess));
  return false;
}

void fake_cuda::note_capture(cudaStream_t stream, std::string_view name) {
  if (captures_.contains(key(stream)))
    static_cast<void>(wrong(std::string(name) + " became part of a capture", cudaSuccess));
}

cudaError_t fake_cuda::unsafe() {
  if (captures_.empty() || capture_mode == cudaStreamCaptureModeRelaxed)
    return cudaSuccess;
  for (auto& [stream, valid] : captures_)
    valid = false;
  return cudaErrorStreamCaptureUnsupported;
}

/// Does the next work of a stream, unless it has to wait. Of the streams that it waits for does
/// one.
bool fake_cuda::step(fake_stream& on) {
  if (on.jobs.empty())
    return false;
  const auto next = on.jobs.front();
  if (next.held_up()) {
    auto moved = false;
    for (auto& [number, each] : streams_)
      if (&each != &on && !each.jobs.empty() && !each.jobs.front().held_up())
        moved = step(each) || moved;
    return moved;
  }
  on.jobs.pop_front();
  ++tick_;
  next.run();
  return true;
}

void fake_cuda::run_until(const std::function<bool()>& done, fake_stream& on) {
  while (!done())
    if (!step(on)) {
      if (!awaits_other_threads()) {
        static_cast<void>(wrong("a wait for what will never happen", cudaSuccess));
        return;
      }
      mutex_.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      mutex_.lock();
    }
}

bool fake_cuda::awaits_other_threads() const {
  return std::ranges::any_of(streams_, [](const auto& each) {
    return !each.second.jobs.empty() && each.second.jobs.front().over != nullptr;
  });
}

void fake_cuda::run_all(fake_stream& on) {
  run_until([&] { return on.jobs.empty(); }, on);
}

bool fake_cuda::registered(const void* data, std::size_t bytes) const {
  return containing(registrations_, data, bytes) != registrations_.end();
}

bool fake_cuda::touched_by_work(const void* data, std::size_t bytes) const {
  return std::ranges::any_of(streams_, [&](const auto& each) {
    return std::ranges::any_of(each.second.jobs, [&](const job& work) {
      return overlap(work.first, work.bytes, bytes_at(data), bytes) ||
             overlap(work.second, work.bytes, bytes_at(data), bytes);
    });
  });
}

std::string fake_cuda::number_of(cudaStream_t stream) const {
  return stream == nullptr ? "default" : text(key(stream));
}

} // namespace ferry::test
