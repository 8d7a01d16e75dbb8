// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "sim/clock.hpp"
#include "sim/operation.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace ferry::sim {

using access_ref = std::shared_ptr<const access_record>;

/// An access that is not ordered before the one under way.
struct conflict {
  access_ref earlier;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

/// Remembers for every byte who wrote it last and who has read it since, as epochs. Not
/// thread-safe.
class shadow_memory {
public:
  /// Enters `access`, made by somebody who knows `known`, and appends to `conflicts` every earlier
  /// one that conflicts with it, one per run of adjacent bytes.
  void enter(const access_ref& access, const vector_clock& known, std::vector<conflict>& conflicts);

  void forget(std::uintptr_t begin, std::uintptr_t end);

  /// Drops what everybody knows, and who could still conflict with it nobody.
  void forget_known(const vector_clock& to_all);

  [[nodiscard]] std::size_t cells() const noexcept { return cells_.size(); }

private:
  struct cell {
    std::uintptr_t end = 0;
    access_ref writer;
    std::vector<access_ref> readers;
  };
  using cell_map = std::map<std::uintptr_t, cell>;

  void split(std::uintptr_t at);

  cell_map cells_;
};

} // namespace ferry::sim
