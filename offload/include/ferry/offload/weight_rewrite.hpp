// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/unit_master.hpp>
#include <ferry/offload/weight_places.hpp>
#include <ferry/platform/device.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace ferry {

/// New contents for tensors in their masters, which can be taken back. Writes where the master is,
/// pinned or not, so that no second master is ever needed; what was there is kept meanwhile.
///
/// While it lives nothing else reads or writes the masters. Used by one thread.
class weight_rewrite {
public:
  /// Keeps what is at `places` now, and gives ordinary memory to what lies in mapped files. The
  /// segments of the masters that are touched move, also if it throws.
  /// @param stores as the units that the places number; outlive it
  weight_rewrite(device& owner, std::span<const unit_store> stores,
                 std::vector<weight_place> places);

  /// Writes the values, which were checked to fit the places. Writes nothing if it throws.
  void write(std::span<const weight_value> values);

  /// Writes back what was there, exactly.
  void write_back() noexcept;

private:
  struct target {
    weight_place place;
    mutable_bytes storage;
    std::vector<std::byte> before;
  };

  void announce_writes();

  device* owner_;
  std::vector<target> targets_;
};

/// Copies tensors out of their masters.
/// @param stores as the units that the places number
[[nodiscard]] std::vector<weight_value> read_weights(std::span<const unit_store> stores,
                                                     std::span<const weight_place> places);

} // namespace ferry
