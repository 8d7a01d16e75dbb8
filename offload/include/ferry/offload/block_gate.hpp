// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/ids.hpp>
#include <ferry/platform/device.hpp>

namespace ferry {

/// What the code around a block's body calls: the lowest level at which a model uses Ferry.
///
/// Used by one thread at a time, the one that runs the model. Blocks may be entered in any order,
/// skipped and repeated.
class block_gate {
public:
  block_gate() = default;
  block_gate(const block_gate&) = delete;
  block_gate& operator=(const block_gate&) = delete;
  virtual ~block_gate() = default;

  /// Returns the packed bytes of `block` on the device, ordered before whatever the caller enqueues
  /// next on the compute stream (or computes on this thread, where compute runs on the host). They
  /// stay valid until `release`. Nothing for a block that is computed with in place: its originals
  /// are there, see `weight_unit::bind_originals`.
  /// @throws ferry_error `transfer_aborted`, `deadline_exceeded`, or the first failure of the
  /// runtime
  [[nodiscard]] virtual mutable_bytes acquire(block_id block) = 0;

  /// Says that one more body runs on the bytes of `block` before its release, after the one that
  /// `acquire` stands for: another pass that shares the fetch. What the bodies before enqueued on
  /// the compute stream is ordered before what this one does.
  /// @pre `block` is acquired
  /// @throws ferry_error the first failure of the runtime; the block stays acquired
  virtual void again(block_id block) = 0;

  /// Ends the use that `acquire` began. Everything its bodies enqueued on the compute stream is
  /// ordered before the reuse of the bytes.
  virtual void release(block_id block) noexcept = 0;

  /// Puts a point in time on the compute stream, for reports. `what` is a string literal. Between
  /// blocks only.
  virtual void mark(const char* what) { static_cast<void>(what); }
};

} // namespace ferry
