// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/trace.hpp>
#include <ferry/platform/device.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ferry {

class trace_file;

/// Records what one rank does: give it to a runtime, which then records its messages, and attach it
/// to the device. Every thread that records has a buffer of its own and waits for nobody; what
/// finds no room there is counted and lost. Where time is modelled nothing is lost: the thread
/// empties the buffers first. Thread-safe. Its device outlives it.
class trace_log final : public operation_observer {
public:
  /// A thread's buffer: enough for a tenth of a second of a busy runtime, in less than a megabyte.
  static constexpr std::size_t buffered = 8192;

  trace_log(std::shared_ptr<trace_file> file, std::uint32_t rank, device& owner);
  trace_log(const trace_log&) = delete;
  trace_log& operator=(const trace_log&) = delete;
  ~trace_log() override;

  void on_operation(const operation_span& span) override;
  void on_stream(stream_id stream, std::string_view name) override;

  /// Takes a message in the hands of an actor; its rank and row are found by the number and the
  /// name of the actor. Both names are literals.
  void record(std::uint64_t actor, const char* name, message_span span);

  /// Says how blocks are called, by number.
  void name_blocks(std::span<const std::string> paths);

  /// Takes nothing, until told to go on. For what does not belong to the run. A device that models
  /// time reports what it did when it has to: whenever an observer is attached or detached.
  void pause(bool paused) noexcept;

  /// Hands on to the file what was recorded since the last time.
  void flush();

  /// Returns the latest end of a message so far.
  [[nodiscard]] nanoseconds latest() const noexcept;

  /// Returns how many records were lost so far.
  [[nodiscard]] std::uint64_t dropped() const noexcept;

  /// Returns how many threads it keeps buffers of: those of threads that ended go with a flush.
  [[nodiscard]] std::size_t buffers() const;

  [[nodiscard]] device& owner() const noexcept { return *owner_; }

  /// Returns the log that the calling thread records its messages to, null if it does not.
  [[nodiscard]] static trace_log* of_this_thread() noexcept;
  /// Lets the calling thread do so from now on.
  static void use_on_this_thread(trace_log* log) noexcept;

private:
  struct impl;

  device* owner_;
  std::unique_ptr<impl> impl_;
};

} // namespace ferry
