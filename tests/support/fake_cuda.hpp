// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cuda/runtime_api.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ferry::test {

struct fake_cuda_options {
  int devices = 1;
  std::size_t memory = std::size_t{256} << 20; ///< Of each device, in bytes.
  int driver_version = 13000;                  ///< 0: there is none.
  int runtime_version = 13000;
  bool read_only_registration = true;
  std::size_t pinnable = ~std::size_t{0}; ///< Bytes of the host that can be registered.
};

/// A CUDA runtime that runs on host memory. It writes down every call, does the work of a stream
/// only when somebody waits for it or asks whether it is done, and reports every use that CUDA
/// forbids.
///
/// - Events are as CUDA's: a wait binds to the record that it saw.
/// - A copy to host memory that is not registered holds up its caller until it is done; one from
///   such memory until all before it is done and the bytes are read, which is not yet all.
/// - A device gets its context when it is made current, or when a call needs one.
/// - A call that is made to fail at making a device current has done it all the same.
/// - A failed call leaves its error pending on its thread until somebody asks for the last error.
/// - A call that is not safe during a capture ends the captures of other threads, unless its thread
///   has the relaxed mode.
///
/// Calls go to the one of those there are that was made last. Thread-safe.
class fake_cuda {
public:
  explicit fake_cuda(const fake_cuda_options& options = {});
  fake_cuda(const fake_cuda&) = delete;
  fake_cuda& operator=(const fake_cuda&) = delete;
  ~fake_cuda();

  [[nodiscard]] const cuda::runtime_api& api() const noexcept { return api_; }

  // What happens.

  /// Fails the n-th call of `name` from now on, counted from 0, without doing it.
  void fail(std::string_view name, cudaError_t status, std::size_t n = 0);
  /// Fails the n-th call of any name, but for those that ask for errors.
  void fail_any(std::size_t n, cudaError_t status);
  /// Loses the context at the n-th call.
  void lose_at(std::size_t n, cudaError_t status);
  /// Loses the context, as an illegal access of a kernel does.
  void poison(cudaError_t status);
  void shut_down();
  /// Returns a stream of the caller's, and destroys it.
  [[nodiscard]] cudaStream_t make_stream();
  void drop_stream(cudaStream_t stream);
  void begin_capture(cudaStream_t stream);
  /// Returns whether the capture is still valid.
  [[nodiscard]] bool end_capture(cudaStream_t stream);
  /// Enqueues work of the caller's.
  void launch(cudaStream_t stream, std::function<void()> kernel);
  /// Enqueues work of another library: `begin` in its turn, and the stream is held up until it is
  /// `over`. Both are called under the lock, and wait for nothing.
  void launch(cudaStream_t stream, std::function<void()> begin, std::function<bool()> over);
  /// Writes down a call of another library.
  void note(std::string_view call);
  /// Runs `act` once, in the next call of `name` before that is done.
  void meanwhile(std::string_view name, std::function<void()> act);
  /// Lets time pass on all devices.
  void pass(std::chrono::microseconds span);
  /// Does all work of all streams.
  void finish();
  /// Forgets what has been made and not been destroyed, as the end of a process does.
  void clear();

  // What is told.

  /// Returns the calls so far with their arguments, but for those of the names `without`.
  [[nodiscard]] std::vector<std::string>
  calls(const std::set<std::string_view>& without = {}) const;
  [[nodiscard]] std::size_t count(std::string_view name) const;
  [[nodiscard]] std::size_t count() const;
  void forget_calls();
  /// Returns what was used in a way that CUDA forbids.
  [[nodiscard]] std::vector<std::string> misuse() const;
  /// Returns what has been made and not been destroyed.
  [[nodiscard]] std::vector<std::string> left() const;
  [[nodiscard]] std::size_t operations_waiting() const;
  /// Returns the error that is pending on this thread, and leaves it.
  [[nodiscard]] cudaError_t pending() const;
  /// Returns the devices on which this process has a context.
  [[nodiscard]] std::set<int> contexts() const;
  [[nodiscard]] static bool capture_mode_is_default();
  [[nodiscard]] static int current_device();
  static void make_current(int device);

private:
  friend struct fake_calls;

  struct record_state {
    bool reached = false;
    std::uint64_t tick = 0;
  };
  struct job {
    std::function<void()> run;
    std::shared_ptr<const record_state> after; ///< Waits for this first.
    const std::byte* first = nullptr;          ///< Host and device ranges that it touches.
    const std::byte* second = nullptr;
    std::size_t bytes = 0;
    std::function<bool()> over = nullptr; ///< Waits for this first, which another thread ends.

    [[nodiscard]] bool held_up() const {
      return (after != nullptr && !after->reached) || (over != nullptr && !over());
    }
  };
  struct fake_stream {
    int device;
    bool destroyed = false;
    bool callers = false;
    std::deque<job> jobs;
  };
  struct fake_event {
    int device;
    bool timed;
    std::shared_ptr<record_state> record;
    std::uintptr_t stream = 0;
  };
  struct range {
    std::size_t bytes;
    int device;
  };

  [[nodiscard]] cudaError_t begin(std::string_view name, const std::string& arguments);
  [[nodiscard]] cudaError_t end(cudaError_t status);
  [[nodiscard]] cudaError_t wrong(const std::string& what, cudaError_t status);
  [[nodiscard]] fake_stream* find(cudaStream_t stream, std::string_view name);
  [[nodiscard]] fake_event* find(cudaEvent_t event, std::string_view name);
  [[nodiscard]] bool require_current(int device, std::string_view name);
  void note_capture(cudaStream_t stream, std::string_view name);
  [[nodiscard]] cudaError_t unsafe();
  bool step(fake_stream& on);
  void run_until(const std::function<bool()>& done, fake_stream& on);
  [[nodiscard]] bool awaits_other_threads() const;
  void run_all(fake_stream& on);
  [[nodiscard]] bool registered(const void* data, std::size_t bytes) const;
  [[nodiscard]] bool touched_by_work(const void* data, std::size_t bytes) const;
  [[nodiscard]] std::string number_of(cudaStream_t stream) const;

  fake_cuda_options options_;
  cuda::runtime_api api_;
  fake_cuda* before_;
  mutable std::recursive_mutex mutex_;
  std::vector<std::pair<std::string, std::string>> calls_;
  std::vector<std::string> misuse_;
  std::map<std::string, std::pair<std::size_t, cudaError_t>, std::less<>> failing_;
  std::optional<std::pair<std::size_t, cudaError_t>> failing_any_;
  std::map<std::string, std::function<void()>> meanwhile_;
  std::set<int> contexts_;
  cudaError_t lost_ = cudaSuccess;
  std::optional<std::pair<std::size_t, cudaError_t>> losing_;
  bool unloading_ = false;
  std::uintptr_t last_handle_ = 0;
  std::uint64_t tick_ = 0;
  std::map<std::uintptr_t, fake_stream> streams_;
  std::map<std::uintptr_t, fake_event> events_;
  std::map<const std::byte*, range> allocations_;
  std::map<const std::byte*, range> registrations_;
  std::size_t used_ = 0;
  std::size_t pinned_ = 0;
  std::map<std::uintptr_t, bool> captures_; ///< Stream to whether it is still valid.
};

} // namespace ferry::test
