// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>
#include <ferry/platform/event.hpp>

#include <string_view>

namespace ferry {

/// A queue of device work that runs in the order it was enqueued. Owns one device stream.
///
/// Two streams are ordered only through an `event`. A stream may be handed from one thread to
/// another but not used by two at once. Must not outlive its device.
///
/// Destroying a stream does not wait for its work. Whoever owns the memory that the work touches
/// keeps it alive until an event recorded after that work is ready.
class stream {
public:
  stream(device& owner, std::string_view name);
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream();

  [[nodiscard]] stream_id id() const noexcept { return id_; }
  [[nodiscard]] device& owner() const noexcept { return *owner_; }

  /// Enqueues a copy and returns before it has run.
  /// @pre `operation.target.size() == operation.source.size()`
  void copy(const copy_operation& operation);

  /// Enqueue that pages of a mapped file get into memory, and that they leave it. See
  /// `device::populate`, `device::evict`.
  void populate(const_bytes pages, operation_tag tag);
  void evict(const_bytes pages, operation_tag tag);

  /// Announces compute on this stream. See `device::compute`.
  void compute(const compute_operation& operation);

  /// Declares the contents of `range` worthless once the stream gets here.
  void discard(mutable_bytes range, operation_tag tag);

  /// Puts a named point in time on the stream, for reports.
  void mark(operation_tag tag);

  /// Makes `e` stand for everything enqueued so far, replacing what it stood for before.
  void record(event& e);

  /// Orders everything enqueued from now on after the current record of `e`.
  void wait(const event& e, wait_edge edge);

  /// Blocks the calling thread until everything enqueued so far has run.
  void synchronize(wait_edge edge);

  /// As `synchronize`, whether some of it failed or not. See `device::drain`.
  void drain(wait_edge edge);

  /// Lets the calling thread see what this stream sees. See `device::settle`.
  void settle();

private:
  device* owner_;
  stream_id id_;
};

} // namespace ferry
