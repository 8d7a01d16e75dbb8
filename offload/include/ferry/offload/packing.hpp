// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/module_tree.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace ferry {

/// The part of one storage that a unit uses, and where it lies in the unit's packed bytes.
struct packed_storage {
  object_id storage{};
  std::size_t begin = 0;  ///< First byte used, from the start of the storage.
  std::size_t bytes = 0;  ///< Used bytes from there on.
  std::size_t offset = 0; ///< In the packed bytes; a multiple of `memory_alignment`.

  friend bool operator==(const packed_storage&, const packed_storage&) = default;
};

/// One tensor of a unit and the packed storage it lies in.
struct packed_tensor {
  object_id identity{};
  object_id owner{};       ///< A module that holds it.
  std::size_t storage = 0; ///< Of `packed_layout::storages`, `no_storage` if it has no bytes.

  static constexpr std::size_t no_storage = ~std::size_t{0};

  friend bool operator==(const packed_tensor&, const packed_tensor&) = default;
};

/// The byte layout of a unit (a block, or a resident group): each storage once, in order of first
/// appearance, so that ties, views, strides and offsets survive unchanged.
struct packed_layout {
  std::vector<packed_storage> storages;
  std::vector<packed_tensor> tensors; ///< Each tensor object once.
  std::size_t bytes = 0;              ///< Of the packed form, padding included.
  std::size_t source_bytes = 0;       ///< The same before anything is converted: what a copy moves.
  bool converts = false;              ///< Some of it is stored in another type.
  std::size_t meta_tensors = 0;       ///< Tensors that have elements and no memory yet.

  friend bool operator==(const packed_layout&, const packed_layout&) = default;
};

/// What packing has to know of a tensor.
struct tensor_use {
  object_id identity{};
  object_id owner{};
  object_id storage{};
  std::size_t begin = 0; ///< First byte of the storage that it can touch.
  std::size_t end = 0;   ///< One past the last; equal to `begin` if it has no bytes.
  std::size_t element_size = 0;
  bool meta = false; ///< Has elements but no memory yet.
  conversion convert = conversion::none;
};

[[nodiscard]] tensor_use use_of(const tensor_info& tensor);

/// Lays out `tensors`. Overlapping uses of one storage become one range.
[[nodiscard]] packed_layout pack(std::span<const tensor_use> tensors);
[[nodiscard]] packed_layout pack(std::span<const tensor_info> tensors);

/// Returns the bytes of the storage that `tensor` can touch, as [first, one past last).
[[nodiscard]] std::pair<std::size_t, std::size_t> used_range(const tensor_info& tensor);

} // namespace ferry
