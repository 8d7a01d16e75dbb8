// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/module_tree.hpp>
#include <ferry/offload/packing.hpp>
#include <ferry/offload/weight_update.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace ferry {

/// Where the bytes of one tensor are among the units of a pipeline, and how they lie there.
struct weight_place {
  std::string name; ///< Dotted, below the component.
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides; ///< In elements.
  std::size_t unit = 0;
  std::size_t storage =
      0;                 ///< Of the unit's layout; `packed_tensor::no_storage` if it has no bytes.
  std::size_t first = 0; ///< Where element 0 is, in bytes from the begin of that storage's range.

  [[nodiscard]] std::size_t bytes() const noexcept;
};

/// Finds tensors by name, wherever they are at the moment. Reads nothing but shapes.
class weight_places {
public:
  /// @param units are read only here
  weight_places(std::shared_ptr<const module_node> root,
                std::span<const packed_layout* const> units);

  /// Returns the places of `names` below `component`, in order; of all its tensors for none. Fails
  /// with `not_found` and every name that is no tensor there, `unsupported` for tensors that are in
  /// no unit or have no memory.
  [[nodiscard]] result<std::vector<weight_place>> find(const std::string& component,
                                                       std::span<const std::string> names) const;

  /// Returns where the values go. Fails also with `invalid_argument` and every tensor whose type,
  /// shape or size is another, or that is named twice with contents that differ.
  [[nodiscard]] result<std::vector<weight_place>> check(const weight_update& update) const;

private:
  struct seat {
    std::size_t unit = 0;
    std::size_t storage = 0;
    std::size_t begin = 0; ///< Of the storage's range, from the start of the storage.
  };

  [[nodiscard]] result<weight_place> place(std::string name, const tensor_info& tensor) const;
  [[nodiscard]] result<weight_place> find(const std::shared_ptr<const module_node>& component,
                                          const std::string& name) const;

  std::shared_ptr<const module_node> root_;
  std::unordered_map<object_id, seat> seats_;
};

/// Copies a tensor out of `storage`, the bytes of its storage's range, without gaps.
void gather(const weight_place& from, const_bytes storage, mutable_bytes to);

/// The same way back.
void scatter(const_bytes from, const weight_place& to, mutable_bytes storage);

} // namespace ferry
