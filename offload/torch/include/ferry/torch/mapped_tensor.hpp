// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/platform/device.hpp>

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>

namespace ferry {

/// Returns nothing for an element type that Ferry does not move.
[[nodiscard]] std::optional<dtype> dtype_of(at::ScalarType type) noexcept;
[[nodiscard]] at::ScalarType scalar_type_of(dtype type) noexcept;

/// Returns a contiguous tensor over `bytes` of a mapped file, which `owner` keeps mapped. The
/// memory is read-only: the tensor may be read, and its storage rebound, but not written. Units
/// know such storages as `memory_kind::mapped`.
///
/// Bytes that do not start at a multiple of the element size are copied to ordinary memory.
/// @throws ferry_error `invalid_checkpoint` if `bytes` is not what `type` and `shape` need
[[nodiscard]] at::Tensor tensor_over(std::shared_ptr<const void> owner, const_bytes bytes,
                                     dtype type, at::IntArrayRef shape);

/// Returns a contiguous tensor of `type` whose elements are kept in `bytes` as `stored`. It has no
/// memory: whoever uses it is told its `name`, until a unit that it is part of is bound, which
/// converts them on their way. Where the two types are one it is a `tensor_over`.
/// @throws ferry_error as `tensor_over`; `unsupported` if nothing converts one to the other, or a
/// value is beyond the range of f16, for which all are read
[[nodiscard]] at::Tensor converted_tensor_over(std::shared_ptr<const void> owner, const_bytes bytes,
                                               dtype stored, dtype type, at::IntArrayRef shape,
                                               const std::string& name);

/// Returns what becomes of the bytes that the storage keeps: nothing but for a tensor that is
/// converted.
[[nodiscard]] conversion conversion_of(const c10::Storage& storage) noexcept;

/// Returns whether the tensor's bytes are those of a mapped file, as `tensor_over` and
/// `converted_tensor_over` make it.
[[nodiscard]] bool is_mapped(const c10::Storage& storage) noexcept;

} // namespace ferry
