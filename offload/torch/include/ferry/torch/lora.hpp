// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/weight_store.hpp>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// What a low-rank adapter adds to one tensor: `up` times `down`.
struct lora_delta {
  std::string tensor; ///< Dotted, below the component.
  at::Tensor down;    ///< [rank, columns]: all dimensions of the tensor but the first, flattened.
  at::Tensor up;      ///< [rows, rank]: the first dimension.
};

struct lora_adapter {
  std::string name;
  double scale = 1;
  std::vector<lora_delta> deltas;
};

/// Merges low-rank adapters into the weights of one component: base + the sum of scale * up * down,
/// computed in float32 (of float64 tensors in float64) and rounded once. Works on what the store
/// has on the host, so that it does not matter what is on a device.
///
/// Keeps the base of every tensor that an adapter touches, so that removing the last one gives back
/// the exact bytes. Adapters are summed in the order in which they were added. Used by one thread.
/// Destroying it leaves the weights as they are.
class lora_adapters {
public:
  /// @param store outlives it
  lora_adapters(weight_store& store, std::string component);

  /// Merges an adapter. All or nothing. Fails with `already_enabled` for a name that is there,
  /// `not_found` for a tensor, `invalid_argument` for a scale that is not finite and with all
  /// deltas that do not fit their tensors, `stale_handle` if somebody else has replaced a tensor
  /// that an adapter is merged into, or as the store.
  [[nodiscard]] result<void> add(lora_adapter adapter);

  /// Takes an adapter out again. Fails with `not_found`, `stale_handle`, or as the store; the
  /// adapter is still there then.
  [[nodiscard]] result<void> remove(const std::string& name);

  /// Forgets all adapters and leaves the weights as they are, as after an update by others.
  void forget() noexcept;

  /// Returns the names of the merged adapters, in order.
  [[nodiscard]] std::vector<std::string> names() const;

private:
  struct merged_tensor {
    weight_value base;
    std::size_t merged_hash = 0; ///< Of the bytes that were written last.
  };
  using tensors = std::map<std::string, merged_tensor>;

  [[nodiscard]] result<void> apply(std::vector<lora_adapter> wanted);
  [[nodiscard]] result<tensors> bases_of(const std::vector<std::string>& names) const;

  weight_store* store_;
  std::string component_;
  std::vector<lora_adapter> adapters_;
  tensors touched_;
};

} // namespace ferry
