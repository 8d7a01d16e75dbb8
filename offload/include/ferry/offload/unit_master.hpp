// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/host_master.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/platform/device.hpp>

namespace ferry {

/// A unit and where its bytes are on the host.
struct unit_store {
  weight_unit* unit = nullptr;
  host_master* master = nullptr;
};

/// Makes the master of `unit`: a pinned copy if `pin` says so, else the originals where they are.
///
/// That pinned memory is not to be had is expected, because others pin as well. The master is then
/// the originals: `whole()` is empty. Copies from them are right, only slower.
/// @throws device_error for any other failure of the device
[[nodiscard]] host_master make_master(device& owner, const weight_unit& unit, bool pin);

} // namespace ferry
