// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/unit_master.hpp"

#include <ferry/platform/error.hpp>

#include <vector>

namespace ferry {

host_master make_master(device& owner, const weight_unit& unit, const master_options& how) {
  const auto originals = unit.originals();
  if (how.pin)
    try {
      return host_master::pinned(owner, unit.layout(), originals);
    } catch (const device_error& refused) {
      if (refused.code() != errc::out_of_host_memory)
        throw;
    }
  std::vector<memory_kind> kinds;
  kinds.reserve(originals.size());
  for (std::size_t i = 0; i != originals.size(); ++i) {
    const auto is_registered = how.registered != nullptr && how.registered->covers(originals[i]);
    kinds.push_back(is_registered ? memory_kind::registered : unit.originals_kind(i));
  }
  return host_master::kept(unit.layout(), originals, kinds);
}

} // namespace ferry
