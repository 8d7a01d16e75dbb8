// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include "nccl/nccl_api.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry::test {

/// NCCL among ranks that are threads, for the code that drives it: a table of the same functions.
/// It records every call, knows which are allowed when, and gathers host memory on the streams that
/// it is given. As in NCCL no call is done when it returns: it is in progress until a poll, and the
/// first gather until all ranks have come to theirs.
/// Calls go to the one of those there are that was made last.
///
/// The ranks are `host_gpu`s, or devices on whatever `backend` leads to.
///
/// Destroying it ends the program, with a line for each, if anything was used wrongly: a call on a
/// communicator that is closed, in progress, not connected or in use by another thread, one that
/// may block, one while the rank's GPU is not current, or one that was never closed.
class fake_nccl {
public:
  /// What a `cudaStream_t` points to.
  struct native_stream {
    /// Enqueues work that may wait for other ranks.
    std::function<void(std::function<void()>)> enqueue;
  };

  /// What stands behind the streams and GPUs of the ranks.
  struct backend {
    /// Enqueues work on a `cudaStream_t`: to begin it, and to ask whether it is over. Both return
    /// at once and may be called under a lock of the backend's.
    std::function<void(void* stream, std::function<void()> begin, std::function<bool()> over)>
        enqueue;
    /// Returns the GPU that is current on the calling thread.
    std::function<std::optional<int>()> current;
    /// Is told of every call but those that only ask.
    std::function<void(std::string_view call)> note;
  };

  /// Makes a GPU current on the calling thread. Returns the one that was, if there was one.
  static std::optional<int> make_current(std::optional<int> gpu) noexcept;

  fake_nccl();
  explicit fake_nccl(backend through);
  fake_nccl(const fake_nccl&) = delete;
  fake_nccl& operator=(const fake_nccl&) = delete;
  ~fake_nccl();

  /// NCCL 2.28.9.
  [[nodiscard]] const nccl::api& library() const noexcept;
  /// The same that says it is 2.21.5, which will do, and 2.13.4, which will not.
  [[nodiscard]] const nccl::api& older_library() const noexcept;
  [[nodiscard]] const nccl::api& oldest_library() const noexcept;

  // What goes wrong. `rank` is the caller's; calls that name no communicator are of rank 0. Calls
  // are counted from 1.

  /// Makes a call return `result` and do nothing else.
  void fail(std::string_view call, int rank, int nth, ncclResult_t result);
  /// Returns whether a call was made to fail.
  [[nodiscard]] bool has_failed() const;
  /// Leaves what a call starts in progress: for that many polls, 1 unless told, or for ever.
  void delay(std::string_view call, int rank, int polls);
  void stall(std::string_view call, int rank);
  /// Makes a call on the rank's communicator of that number, counted from 0, hang until `resume`.
  void hang(std::string_view call, int rank, int number = 0);
  void resume();
  /// Puts a communicator into the state of an error that NCCL found by itself.
  void break_off(int rank, ncclResult_t error);
  /// What NCCL says of the last error. Nothing until then.
  void say(std::string words);

  // What was done.

  /// Returns the calls of all ranks in their order, those that only ask left out.
  [[nodiscard]] std::vector<std::string> calls() const;
  /// Returns how often a rank made a call.
  [[nodiscard]] int count(std::string_view call, int rank) const;
  /// Counts communicators that nobody has closed.
  [[nodiscard]] std::size_t open_comms() const;

  class state;

private:
  std::unique_ptr<state> state_;
};

} // namespace ferry::test
