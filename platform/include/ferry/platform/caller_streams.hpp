// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

namespace ferry {

/// Tells on which stream of a device the calling thread computes: where work goes that it enqueues
/// through a framework with a current stream of its own. One object belongs to one device.
///
/// A stream that it has returned is the device's, stays alive as long as the object, and is
/// destroyed by nobody else. Thread-safe.
class caller_streams {
public:
  caller_streams() = default;
  caller_streams(const caller_streams&) = delete;
  caller_streams& operator=(const caller_streams&) = delete;
  virtual ~caller_streams() = default;

  /// Returns the stream that is current on the calling thread. Asked twice for each use of a block,
  /// so that it has to be quick.
  /// @throws ferry_error `unsupported` while nothing may be ordered against that stream, as when it
  /// is being captured into a graph
  [[nodiscard]] virtual stream_id current() = 0;
};

} // namespace ferry
