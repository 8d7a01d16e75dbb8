// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/caf.hpp>
#include <ferry/messages/supervisor.hpp>

namespace ferry {

/// Hands on what was recorded since the last time, to whoever keeps it.
struct flush_trace {};

/// Brings what the threads of a runtime have recorded to the file, while the runtime runs. May
/// block: it writes. Nobody depends on it, so that it is started again when it ends; what was
/// recorded waits meanwhile.
using trace_recorder_actor = actor_interface<
    // Never fails: a file that takes nothing more fails whoever ends it.
    caf::result<void>(flush_trace),
    // As every child. A start begins to flush, over and over; a release does it a last time.
    caf::result<void>(start_child), caf::result<void>(drain_child),
    caf::result<answered>(release_child)>;

} // namespace ferry

FERRY_LOCAL_MESSAGE(ferry::flush_trace)
