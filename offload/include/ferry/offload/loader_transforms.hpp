// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/host_weight_plan.hpp>
#include <ferry/offload/pipeline.hpp>
#include <ferry/offload/weight_places.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ferry {

/// A tensor that lies as it is stored, not yet as the model computes with it.
struct pending_transform {
  weight_place place;
  std::string key; ///< In the checkpoint.
  std::shared_ptr<const weight_transform> how;

  /// Returns the bytes that the model computes with. `storage` is the bytes of the storage's range.
  [[nodiscard]] std::vector<std::byte> rearranged(const_bytes storage) const;

  /// Rearranges the tensor in its original, which becomes ordinary memory if it was pages of a
  /// file. All or nothing. @pre the unit's originals are kept
  void apply(weight_unit& unit) const;
};

/// Returns the storages that `pending` rearranges, as the model computes with them, and nothing for
/// the others. `originals` are all of the unit.
[[nodiscard]] std::vector<std::vector<std::byte>>
rearranged_storages(std::span<const pending_transform> pending,
                    std::span<const const_bytes> originals);

/// What a loader has left to be done to tensors that it has bound, by runtime name. Whoever takes
/// it on does it once. Used by one thread at a time.
class loader_transforms {
public:
  explicit loader_transforms(const host_weight_plan& plan);

  [[nodiscard]] bool empty() const noexcept { return by_name_.empty(); }

  /// Finds each tensor in its unit: returns those of every unit, in the order of `units`. Fails
  /// with `unsupported` and the first that is in none.
  [[nodiscard]] result<std::vector<std::vector<pending_transform>>>
  find(const std::shared_ptr<const module_node>& root,
       std::span<const packed_layout* const> units) const;

  /// As `find`, and is empty then. One that fails has lost nothing.
  [[nodiscard]] result<std::vector<std::vector<pending_transform>>>
  take(const std::shared_ptr<const module_node>& root, std::span<const packed_layout* const> units);

private:
  struct entry {
    std::string key;
    std::shared_ptr<const weight_transform> how;
  };

  std::map<std::string, entry> by_name_;
};

} // namespace ferry
