// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/memory.hpp"

#include "cuda/touch_pages.hpp"
#include "ferry/platform/log.hpp"
#include "ferry/platform/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

namespace ferry::cuda {
namespace {

constexpr const char* allocating = "allocate device memory";
constexpr const char* pinning = "allocate pinned memory";
constexpr const char* registering = "register pages";
constexpr const char* unregistering = "unregister pages";

std::string text(std::uint64_t number) {
  return std::to_string(number);
}

bool whole_pages(const_bytes pages) noexcept {
  return !pages.empty() && pages.size() % page_bytes() == 0 &&
         reinterpret_cast<std::uintptr_t>(pages.data()) % page_bytes() == 0;
}

void* address_of(const std::byte* data) noexcept {
  return const_cast<std::byte*>(data);
}

/// Fresh, zeroed memory that is unmapped unless it is kept.
class fresh_pages {
public:
  explicit fresh_pages(std::size_t bytes)
      : bytes_(bytes),
        data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED)
      throw device_error(errc::out_of_host_memory, pinning,
                         "asked for " + text(bytes) +
                             " bytes: " + std::generic_category().message(errno));
    // Fewer and larger pages are touched and registered faster. Where there are none: as it was.
    static_cast<void>(::madvise(data_, bytes, MADV_HUGEPAGE));
    touch_pages(bytes_of());
  }
  fresh_pages(const fresh_pages&) = delete;
  fresh_pages& operator=(const fresh_pages&) = delete;
  ~fresh_pages() {
    if (data_ != nullptr)
      ::munmap(data_, bytes_);
  }

  [[nodiscard]] mutable_bytes bytes_of() const noexcept {
    return {static_cast<std::byte*>(data_), bytes_};
  }
  [[nodiscard]] mutable_bytes keep() noexcept {
    return {static_cast<std::byte*>(std::exchange(data_, nullptr)), bytes_};
  }

private:
  std::size_t bytes_;
  void* data_;
};

} // namespace

memory::memory(const calls& through, std::optional<std::size_t> ceiling, bool registers_read_only)
    : call_(&through), ceiling_(ceiling), registers_read_only_(registers_read_only) {}

memory::~memory() {
  if (call_->forked() || entries_.empty())
    return;
  const device_scope current(*call_);
  for (const auto kind : {memory_kind::registered, memory_kind::pinned, memory_kind::device})
    for (const auto& [data, left] : entries_)
      if (left.kind == kind)
        static_cast<void>(give_back(data, left));
}

mutable_bytes memory::allocate(memory_kind kind, std::size_t bytes) {
  if (kind != memory_kind::device && kind != memory_kind::pinned)
    throw device_error(errc::invalid_argument, "allocate",
                       "mapped and pageable memory is not a device's to allocate");
  const auto* const operation = kind == memory_kind::device ? allocating : pinning;
  if (bytes == 0)
    throw device_error(errc::invalid_argument, operation, "asked for 0 bytes, expected at least 1");
  const device_scope current(*call_, operation);
  const beside_captures beside(*call_);
  return kind == memory_kind::device ? allocate_on_device(bytes) : allocate_pinned(bytes);
}

mutable_bytes memory::allocate_on_device(std::size_t bytes) {
  reserve(bytes);
  void* data = nullptr;
  const auto status = (*call_)->cudaMalloc(&data, bytes);
  if (status != cudaSuccess) {
    const auto lock = std::scoped_lock(mutex_);
    reserved_ -= bytes;
  }
  if (status == cudaErrorMemoryAllocation) {
    const auto error = call_->error("cudaMalloc", status);
    auto free = std::size_t{0};
    auto total = std::size_t{0};
    call_->check("cudaMemGetInfo", (*call_)->cudaMemGetInfo(&free, &total));
    const auto lock = std::scoped_lock(mutex_);
    const auto used = total - std::min(free, total);
    const auto others = used - std::min<std::uint64_t>(used, device_.now);
    throw device_error(errc::out_of_device_memory, allocating,
                       "asked for " + text(bytes) + " bytes; " + text(free) + " of " + text(total) +
                           " are free; Ferry holds " + text(device_.now) + " in " +
                           text(device_.blocks) + " blocks, everything else on the device " +
                           text(others) + "; " + error.reason().detail,
                       status);
  }
  call_->check("cudaMalloc", status);
  add(static_cast<std::byte*>(data), memory_kind::device, bytes);
  return {static_cast<std::byte*>(data), bytes};
}

void memory::reserve(std::size_t bytes) {
  const auto lock = std::scoped_lock(mutex_);
  const auto taken = device_.now + reserved_;
  if (!ceiling_ || bytes <= *ceiling_ - std::min<std::uint64_t>(*ceiling_, taken)) {
    reserved_ += bytes;
    return;
  }
  throw device_error(errc::out_of_device_memory, allocating,
                     "asked for " + text(bytes) + " bytes; " + text(*ceiling_ - taken) +
                         " of the " + text(*ceiling_) + " that Ferry may use on " +
                         call_->device() + " are free");
}

mutable_bytes memory::allocate_pinned(std::size_t bytes) {
  fresh_pages fresh(bytes);
  const auto status = (*call_)->cudaHostRegister(fresh.bytes_of().data(), bytes, 0);
  if (status != cudaSuccess) {
    const auto error = call_->error("cudaHostRegister", status);
    if (is_fatal(status))
      throw error;
    // Whatever the driver's reason is, this host has no more memory that can be pinned.
    const auto lock = std::scoped_lock(mutex_);
    throw device_error(errc::out_of_host_memory, pinning,
                       "asked for " + text(bytes) + " bytes; Ferry has pinned " +
                           text(pinned_.now) + " in " + text(pinned_.blocks) + " blocks; " +
                           error.reason().detail,
                       status);
  }
  const auto result = fresh.keep();
  add(result.data(), memory_kind::pinned, bytes);
  return result;
}

void memory::release(memory_kind kind, mutable_bytes block) noexcept {
  auto ended = std::optional<entry>();
  {
    const auto lock = std::scoped_lock(mutex_);
    const auto found = entries_.find(block.data());
    if (found != entries_.end() && found->second.kind == kind && !found->second.ended &&
        found->second.bytes == block.size()) {
      found->second.ended = true;
      ended = found->second;
      auto& used = account_of(kind);
      used.now -= block.size();
      --used.blocks;
    }
  }
  if (!ended) {
    log(log_level::error, "ferry.platform",
        "release bytes=" + text(block.size()) + " error=not_allocated_here");
    return;
  }
  if (call_->forked())
    return;
  const device_scope current(*call_);
  const beside_captures beside(*call_);
  if (give_back(block.data(), *ended))
    forget(block.data());
}

bool memory::give_back(const std::byte* data, const entry& given) const noexcept {
  if (given.kind == memory_kind::device)
    return call_->clean("cudaFree", (*call_)->cudaFree(address_of(data)));
  // Pages that stay registered stay mapped: whatever was mapped in their place could not be used.
  if (!call_->clean("cudaHostUnregister", (*call_)->cudaHostUnregister(address_of(data))))
    return false;
  if (given.kind == memory_kind::pinned)
    ::munmap(address_of(data), given.bytes);
  return true;
}

device_memory memory::usage() const {
  const device_scope current(*call_, "ask for free memory");
  auto free = std::size_t{0};
  auto total = std::size_t{0};
  call_->check("cudaMemGetInfo", (*call_)->cudaMemGetInfo(&free, &total));
  if (!ceiling_)
    return {.free = free, .total = total};
  const auto lock = std::scoped_lock(mutex_);
  return {.free = std::min<std::uint64_t>(
              free, *ceiling_ - std::min<std::uint64_t>(*ceiling_, device_.now)),
          .total = std::min(total, *ceiling_)};
}

void memory::register_pages(const_bytes pages) {
  if (!registers_read_only_)
    throw device_error(errc::unsupported, registering,
                       call_->device() + " reads no read-only pages of the host: its attribute "
                                         "cudaDevAttrHostRegisterReadOnlySupported is 0");
  if (!whole_pages(pages))
    throw device_error(errc::invalid_argument, registering,
                       "expected whole pages of " + text(page_bytes()) + " bytes, got " +
                           text(pages.size()) + " bytes");
  const device_scope current(*call_, registering);
  const beside_captures beside(*call_);
  {
    const auto lock = std::scoped_lock(mutex_);
    if (touched(pages))
      throw device_error(errc::invalid_argument, registering,
                         "some of the range is registered or pinned already");
    entries_.emplace(pages.data(), entry{memory_kind::registered, pages.size(), true});
  }
  const auto status =
      (*call_)->cudaHostRegister(address_of(pages.data()), pages.size(), cudaHostRegisterReadOnly);
  if (status != cudaSuccess) {
    forget(pages.data());
    throw call_->error("cudaHostRegister", status);
  }
  const auto lock = std::scoped_lock(mutex_);
  entries_.at(pages.data()).ended = false;
  registered_ += pages.size();
}

void memory::unregister_pages(const_bytes pages) {
  const device_scope current(*call_, unregistering);
  const beside_captures beside(*call_);
  {
    const auto lock = std::scoped_lock(mutex_);
    const auto found = entries_.find(pages.data());
    if (found == entries_.end() || found->second.kind != memory_kind::registered ||
        found->second.ended || found->second.bytes != pages.size())
      throw device_error(errc::invalid_argument, unregistering, "the range is not registered");
  }
  call_->check("cudaHostUnregister", (*call_)->cudaHostUnregister(address_of(pages.data())));
  forget(pages.data());
  const auto lock = std::scoped_lock(mutex_);
  registered_ -= pages.size();
}

bool memory::registered(const_bytes range) const {
  if (!holds(memory_kind::registered, range))
    return false;
  const device_scope current(*call_, "ask about pages");
  auto told = cudaPointerAttributes{};
  call_->check("cudaPointerGetAttributes", (*call_)->cudaPointerGetAttributes(&told, range.data()));
  return told.type == cudaMemoryTypeHost;
}

bool memory::holds(memory_kind kind, const_bytes range) const {
  const auto lock = std::scoped_lock(mutex_);
  const auto after = entries_.upper_bound(range.data());
  if (after == entries_.begin())
    return false;
  const auto& [data, found] = *std::prev(after);
  return found.kind == kind && !found.ended && range.data() + range.size() <= data + found.bytes;
}

void memory::report(device_counters& counters) const {
  const auto lock = std::scoped_lock(mutex_);
  counters.allocations = allocations_;
  counters.device_bytes = device_.now;
  counters.peak_device_bytes = device_.peak;
  counters.pinned_bytes = pinned_.now;
  counters.peak_pinned_bytes = pinned_.peak;
  counters.registered_bytes = registered_;
}

void memory::add(const std::byte* data, memory_kind kind, std::size_t bytes) {
  const auto lock = std::scoped_lock(mutex_);
  entries_.emplace(data, entry{kind, bytes, false});
  auto& used = account_of(kind);
  ++used.blocks;
  used.now += bytes;
  used.peak = std::max(used.peak, used.now);
  if (kind == memory_kind::device)
    reserved_ -= bytes;
  ++allocations_;
}

void memory::forget(const std::byte* data) {
  const auto lock = std::scoped_lock(mutex_);
  entries_.erase(data);
}

memory::account& memory::account_of(memory_kind kind) noexcept {
  return kind == memory_kind::device ? device_ : pinned_;
}

/// @pre the lock is held
bool memory::touched(const_bytes range) const noexcept {
  const auto after = entries_.lower_bound(range.data() + range.size());
  return after != entries_.begin() &&
         std::prev(after)->first + std::prev(after)->second.bytes > range.data();
}

} // namespace ferry::cuda
