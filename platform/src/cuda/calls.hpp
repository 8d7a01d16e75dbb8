// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cuda/runtime_api.hpp"
#include "ferry/platform/error.hpp"

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace ferry {
class sticky_fault;
}

namespace ferry::cuda {

/// Returns what a call that failed on device `index` is told as. Also takes the error off the
/// calling thread, so that no later call finds it pending. @pre `status` is not `cudaSuccess`
[[nodiscard]] device_error error_of(const runtime_api& api, int index, const char* call,
                                    cudaError_t status);

/// Returns whether the device is unusable from here on: its context is lost.
[[nodiscard]] bool is_fatal(cudaError_t status) noexcept;

/// Makes `before` current again on the calling thread, if it was in use at all: in a device that
/// this process has not used that would make a context, which takes hundreds of MiB.
[[nodiscard]] cudaError_t restore_device(const runtime_api& api, int before);

/// Makes device `index` current on the calling thread. If that fails, `before` is current as it
/// was.
[[nodiscard]] cudaError_t make_current(const runtime_api& api, int index, int before);

/// The one place through which a device looks at what a call returned. Thread-safe.
class calls {
public:
  /// `fault` outlives it and keeps the first fatal error.
  calls(const runtime_api& api, int index, sticky_fault& fault);

  [[nodiscard]] const runtime_api& api() const noexcept { return api_; }
  [[nodiscard]] const runtime_api* operator->() const noexcept { return &api_; }
  [[nodiscard]] int index() const noexcept { return index_; }
  [[nodiscard]] const std::string& device() const noexcept { return device_; }

  /// Returns whether this is a child of the process that opened the device, which has no CUDA.
  [[nodiscard]] bool forked() const noexcept;

  /// @throws device_error `device_poisoned` in a forked child and after a fatal error
  void require_usable(const char* operation) const;

  /// Returns what a call that failed is told as, and keeps it if it is fatal.
  [[nodiscard]] device_error error(const char* call, cudaError_t status) const;

  /// @throws device_error with the call, CUDA's name and text for `status`, and the device
  void check(const char* call, cudaError_t status) const;

  /// For clean-up: logs a failure and returns false. A driver that is shutting down has cleaned up
  /// by itself, which counts as success.
  bool clean(const char* call, cudaError_t status) const noexcept;

  /// As `check`, of `cudaErrorNotReady` returns false.
  [[nodiscard]] bool finished(const char* call, cudaError_t status) const;

private:
  runtime_api api_;
  int index_;
  std::string device_;
  sticky_fault* fault_;
  ::pid_t opened_by_;
  std::uint64_t forks_;
};

/// As long as it lives, the device is current on the calling thread. Then what was is again, as
/// `restore_device` has it.
class device_scope {
public:
  /// Checks that the device is usable first. @throws device_error
  device_scope(const calls& on, const char* operation);
  /// For clean-up: only tries.
  explicit device_scope(const calls& on) noexcept;
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;
  ~device_scope();

private:
  const calls* on_;
  int before_;
};

/// As long as it lives, calls of this thread that are not allowed while a graph is captured leave
/// the captures of other threads alone.
class beside_captures {
public:
  explicit beside_captures(const calls& on) noexcept;
  beside_captures(const beside_captures&) = delete;
  beside_captures& operator=(const beside_captures&) = delete;
  ~beside_captures();

private:
  const calls* on_;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool relaxed_;
};

} // namespace ferry::cuda
