// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/host_master.hpp>
#include <ferry/offload/host_registration.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/platform/device.hpp>

#include <vector>

namespace ferry {

/// A unit and where its bytes are on the host.
struct unit_store {
  weight_unit* unit = nullptr;
  host_master* master = nullptr;
};

/// How a master comes to be.
struct master_options {
  bool pin = true; ///< A pinned copy is made if that is to be had.
  /// What of the originals is registered with the device. Null: nothing.
  const host_registration* registered = nullptr;
};

/// Returns what becomes of each original of `unit` on its way to the device.
[[nodiscard]] std::vector<conversion> conversions_of(const weight_unit& unit);

/// Returns whether that is anything for any of them.
[[nodiscard]] bool converts(const weight_unit& unit);

/// Makes the master of `unit`: a pinned copy if `how` says so, else the originals where they are.
///
/// That pinned memory is not to be had is expected, because others pin as well. The master is then
/// the originals: `whole()` is empty. Copies from them are right, only slower.
/// @throws device_error for any other failure of the device
[[nodiscard]] host_master make_master(device& owner, const weight_unit& unit,
                                      const master_options& how);

} // namespace ferry
