// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/ids.hpp>

namespace ferry {

/// What the code around the entry points of a module calls when the module's weights come and go as
/// a whole, as one group.
///
/// Used by one thread at a time, the one that runs the model.
class group_gate {
public:
  group_gate() = default;
  group_gate(const group_gate&) = delete;
  group_gate& operator=(const group_gate&) = delete;
  virtual ~group_gate() = default;

  /// Brings `group` to the device unless it is there, ordered before whatever the caller enqueues
  /// next on the compute stream, and keeps it there until the matching `leave`. Nests. What the
  /// group excludes leaves first.
  /// @throws ferry_error the first failure of the runtime; then the group was not entered
  virtual void enter(group_id group) = 0;

  /// Ends what `enter` began. The group stays on the device until something else needs its place.
  virtual void leave(group_id group) noexcept = 0;
};

} // namespace ferry
