// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/open_device.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// Something that works with a device for a while after its owner has let go of it.
class cuda_guest {
public:
  cuda_guest() = default;
  cuda_guest(const cuda_guest&) = delete;
  cuda_guest& operator=(const cuda_guest&) = delete;
  /// Ends it first, within a few seconds.
  virtual ~cuda_guest() = default;

  /// Whether it has ended by itself.
  [[nodiscard]] virtual bool gone() const noexcept = 0;
};

/// A GPU, driven through the CUDA runtime API. Whoever has a `device` and wants to know whether it
/// is one asks with `dynamic_cast`; that works in every build.
///
/// - *Current device.* Every call makes its device current on the calling thread as long as it
///   lasts, and leaves the thread as it was. Only `enter` leaves it current, until the thread
///   enters what it was before. A device that this process does not use is not made current again.
/// - *Copies* use the copy engines. One from pageable or mapped memory may hold up the caller until
///   its stream gets there, because the driver stages it; `device_counters::blocking_copies` counts
///   them.
/// - *Capture.* Nothing is enqueued on a stream that is being captured into a graph: `unsupported`.
/// - *Failure* of the device itself, such as an illegal access, stays: every later call throws
///   `device_poisoned` with the first cause. Any other leaves nothing pending for later calls.
/// - *Spans* are measured by the device, and only while an observer is attached. They are told once
///   they have ended and somebody uses the device, without waiting for them.
/// - *Processes.* A child that was forked cannot use it: every call throws `device_poisoned`, and
///   destroying it touches nothing.
class cuda_device : public device {
public:
  cuda_device();
  ~cuda_device() override;

  [[nodiscard]] virtual int index() const noexcept = 0;

  /// Returns the GPU's address on the bus of its machine, such as `0000:3b:00.0`: the same in every
  /// process, whatever its index is there.
  [[nodiscard]] virtual std::string bus_id() const = 0;

  /// Returns the `cudaStream_t` behind `stream`: for whoever enqueues work of its own there.
  /// @throws device_error `stale_handle`
  [[nodiscard]] virtual void* native_stream(stream_id stream) const = 0;

  /// Makes a `cudaStream_t` of the caller one of the device's streams. It is the caller's to
  /// destroy, after `destroy_stream` has ended the name. Null is the device's default stream.
  [[nodiscard]] virtual stream_id adopt_stream(void* native, std::string_view name) = 0;

  /// Refuses a stream on which nothing may be enqueued: one that is being captured into a graph.
  /// Enqueues nothing.
  /// @throws device_error `unsupported`, `stale_handle`
  virtual void require_open(stream_id stream) const;

  /// Calls `enqueue` with the `cudaStream_t` behind `stream` and the device current, for what it
  /// enqueues there to be told of as one operation that gathers `bytes`. Passes on what it throws.
  virtual void gather(stream_id stream, operation_tag tag, std::uint64_t bytes,
                      const std::function<void(void* native)>& enqueue) = 0;

  /// Keeps `guest` until it has gone, or until this device goes. Thread-safe.
  void keep(std::unique_ptr<cuda_guest> guest);

protected:
  /// Destroys the guests. Every implementation does so first when it is destroyed.
  void dismiss_guests() noexcept;

  /// Lets go of the guests and touches none, as it has to be in a forked child.
  void abandon_guests() noexcept;

private:
  std::mutex guests_mutex_;
  std::vector<std::unique_ptr<cuda_guest>> guests_;
};

struct cuda_device_options {
  int index = 0;
  std::optional<std::size_t> memory = std::nullopt; ///< Ceiling of device memory in bytes.
};

/// Opens a GPU. The CUDA runtime library is loaded by the first call, and stays.
/// @return `unsupported` with the reason and what to do where it cannot be opened here,
/// `invalid_argument` for an index that no GPU has
[[nodiscard]] result<std::unique_ptr<cuda_device>>
open_cuda_device(const cuda_device_options& options);

/// Lists the GPUs, `cuda:0` first, or `cuda` with the reason why none can be opened.
[[nodiscard]] std::vector<device_listing> list_cuda_devices();

/// Returns the version of CUDA that this build was made for, such as `13.0`. Empty: none.
[[nodiscard]] std::string_view cuda_version() noexcept;

} // namespace ferry
