// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/safetensors_writer.hpp>
#include <ferry/platform/device.hpp>

#include <cstdint>

namespace ferry {

/// Random weights that a network stays finite with: matrices are scaled by their fan-in, norm
/// weights lie near one, all other vectors are small.
///
/// An element depends on the seed, the tensor's name and its place only, so that any part of a
/// tensor can be written by itself.
class random_weights {
public:
  explicit random_weights(std::uint64_t seed) : seed_(seed) {}

  /// Fills `chunk` with the bytes of `tensor` from `offset` on.
  /// @pre f32, bf16 or f16; `offset` and the chunk's size are multiples of the element size
  void fill(const tensor_declaration& tensor, std::uint64_t offset, mutable_bytes chunk) const;

private:
  std::uint64_t seed_;
};

} // namespace ferry
