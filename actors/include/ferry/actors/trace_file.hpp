// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/trace_writer.hpp>
#include <ferry/platform/error.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>

namespace ferry {

/// A trace on its way to a file, shared by the ranks that are threads of this process. Thread-safe.
class trace_file {
public:
  /// Whether the devices of the ranks keep real time.
  enum class time : std::uint8_t { real, modelled };

  /// Opens the file for writing and begins the trace. Real time counts from when it is open.
  /// @throws ferry_error `io_failure`
  trace_file(std::filesystem::path path, time kind);

  /// Lets `write` add what it has.
  template <class Write>
  void add(Write&& write) {
    const std::lock_guard lock{mutex_};
    write(*writer_);
    writer_->flush();
  }

  /// Writes the end, which tells that the run came to its own. Nothing is added any more. Fails
  /// with `io_failure` if the file did not take everything.
  [[nodiscard]] result<void> finish();

  /// Returns what to add to the times of a device's clock that shows `now` at this moment.
  [[nodiscard]] nanoseconds offset_of(nanoseconds now) const noexcept;

private:
  std::filesystem::path path_;
  std::chrono::steady_clock::time_point zero_;
  bool real_;
  std::mutex mutex_;
  std::ofstream out_;
  std::unique_ptr<trace_writer> writer_;
};

} // namespace ferry
