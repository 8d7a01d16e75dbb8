// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/unit_master.hpp"

#include <ferry/platform/error.hpp>

#include <algorithm>
#include <vector>

namespace ferry {

std::vector<conversion> conversions_of(const weight_unit& unit) {
  std::vector<conversion> changes;
  for (std::size_t i = 0; i != unit.layout().storages.size(); ++i)
    changes.push_back(unit.originals_conversion(i));
  return changes;
}

bool converts(const weight_unit& unit) {
  return std::ranges::any_of(conversions_of(unit),
                             [](conversion how) { return how != conversion::none; });
}

host_master make_master(device& owner, const weight_unit& unit, const master_options& how) {
  const auto originals = unit.originals();
  const auto changes = conversions_of(unit);
  if (how.pin)
    try {
      return host_master::pinned(owner, unit.layout(), originals, changes);
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
  return host_master::kept(unit.layout(), originals, kinds, changes);
}

} // namespace ferry
