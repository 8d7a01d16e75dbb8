// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/calls.hpp"

#include "ferry/platform/log.hpp"
#include "host/sticky_fault.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace ferry::cuda {
namespace {

std::atomic<std::uint64_t> forks = 0; // Cheaper to look at than the process id.

std::uint64_t count_forks() {
  static const auto counting =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(counting);
  return forks.load(std::memory_order_relaxed);
}

errc code_of(cudaError_t status) noexcept {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return errc::out_of_device_memory;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorHostMemoryAlreadyRegistered:
    case cudaErrorHostMemoryNotRegistered:
      return errc::invalid_argument;
    case cudaErrorInvalidResourceHandle:
      return errc::stale_handle;
    case cudaErrorNotSupported:
    case cudaErrorNotPermitted:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread:
      return errc::unsupported;
    default:
      return errc::device_failure;
  }
}

bool is_shutting_down(cudaError_t status) noexcept {
  return status == cudaErrorCudartUnloading || status == cudaErrorContextIsDestroyed;
}

std::string in_words(const runtime_api& api, cudaError_t status) {
  return std::string(api.cudaGetErrorName(status)) + ": " + api.cudaGetErrorString(status);
}

} // namespace

device_error error_of(const runtime_api& api, int index, const char* call, cudaError_t status) {
  auto reason = in_words(api, status) + " (cuda:" + std::to_string(index) + ")";
  const auto pending = api.cudaGetLastError();
  if (pending != cudaSuccess && pending != status)
    reason += "; also pending was " + in_words(api, pending);
  return {code_of(status), call, reason, static_cast<int>(status)};
}

bool is_fatal(cudaError_t status) noexcept {
  switch (static_cast<int>(status)) {
    // Their names are newer than the oldest headers that will do.
    case 226: // cudaErrorContained
    case 721: // cudaErrorTensorMemoryLeak
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

cudaError_t make_current(const runtime_api& api, int index, int before) {
  const auto status = api.cudaSetDevice(index);
  // Also a call that fails may have changed what is current.
  if (status != cudaSuccess && restore_device(api, before) != cudaSuccess)
    static_cast<void>(api.cudaGetLastError());
  return status;
}

cudaError_t restore_device(const runtime_api& api, int before) {
  auto flags = 0U;
  auto active = 1;
  if (api.cuDevicePrimaryCtxGetState != nullptr &&
      api.cuDevicePrimaryCtxGetState(before, &flags, &active) == CUDA_SUCCESS && active == 0)
    return cudaSuccess;
  return api.cudaSetDevice(before);
}

calls::calls(const runtime_api& api, int index, sticky_fault& fault)
    : api_(api), index_(index), device_("cuda:" + std::to_string(index)), fault_(&fault),
      opened_by_(::getpid()), forks_(count_forks()) {}

bool calls::forked() const noexcept {
  return forks.load(std::memory_order_relaxed) != forks_;
}

void calls::require_usable(const char* operation) const {
  if (forked())
    throw device_error(errc::device_poisoned, operation,
                       device_ + " was opened by process " + std::to_string(opened_by_) +
                           "; this one, " + std::to_string(::getpid()) +
                           ", was forked from it and cannot use CUDA; start workers as processes "
                           "of their own (exec or spawn)");
  fault_->refuse(operation);
}

device_error calls::error(const char* call, cudaError_t status) const {
  auto told = error_of(api_, index_, call, status);
  if (is_fatal(status))
    fault_->raise(told.reason().detail);
  return told;
}

void calls::check(const char* call, cudaError_t status) const {
  if (status != cudaSuccess)
    throw error(call, status);
}

bool calls::clean(const char* call, cudaError_t status) const noexcept {
  if (status == cudaSuccess || is_shutting_down(status))
    return true;
  // What was lost with the device was told when it was lost.
  const auto told = fault_->raised() && is_fatal(status);
  const auto failed = error(call, status);
  if (!told)
    log(log_level::error, "ferry.platform", std::string("clean up ") + failed.what());
  return false;
}

bool calls::finished(const char* call, cudaError_t status) const {
  if (status == cudaErrorNotReady) {
    static_cast<void>(api_.cudaGetLastError());
    return false;
  }
  check(call, status);
  return true;
}

device_scope::device_scope(const calls& on, const char* operation) : on_(&on), before_(on.index()) {
  on.require_usable(operation);
  on.check("cudaGetDevice", on->cudaGetDevice(&before_));
  if (before_ != on.index())
    on.check("cudaSetDevice", make_current(on.api(), on.index(), before_));
}

device_scope::device_scope(const calls& on) noexcept : on_(&on), before_(on.index()) {
  if (on.clean("cudaGetDevice", on->cudaGetDevice(&before_)) && before_ != on.index())
    on.clean("cudaSetDevice", on->cudaSetDevice(on.index()));
}

device_scope::~device_scope() {
  if (before_ != on_->index())
    on_->clean("cudaSetDevice", restore_device(on_->api(), before_));
}

beside_captures::beside_captures(const calls& on) noexcept
    : on_(&on), relaxed_(on.clean("cudaThreadExchangeStreamCaptureMode",
                                  on->cudaThreadExchangeStreamCaptureMode(&mode_))) {}

beside_captures::~beside_captures() {
  if (relaxed_)
    on_->clean("cudaThreadExchangeStreamCaptureMode",
               (*on_)->cudaThreadExchangeStreamCaptureMode(&mode_));
}

} // namespace ferry::cuda
