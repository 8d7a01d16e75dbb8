// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/config.hpp>
#include <ferry/offload/start_offload.hpp>

namespace ferry {

/// Returns the builder of backends that offload to `through` as `config` says, for `start_offload`.
/// One of its backends is enabled at a time, and all are used while `through` is started and alive.
///
/// A backend whose plan is backed by the host weight runtime takes the lease out of the plan's
/// carrier; the lease ends when nothing of the pipeline lies in it any more, see `runtime::enable`.
/// A plan serves one enable: after a disable the tensors are ordinary and need none. It is never
/// dropped: an enable that does not reach what the plan is for is refused as `invalid_pipeline`, as
/// is a plan without its carrier; a lease that was taken or closed is refused as `stale_handle`.
[[nodiscard]] backend_builder runtime_backends(runtime& through, offload_config config,
                                               device_presence device);

} // namespace ferry
