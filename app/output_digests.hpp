// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/sha256.hpp>

#include "models/diffusion_model.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace ferry {

/// What a series of requests ended in, as far as a comparison down to the byte needs it.
class output_digests {
public:
  /// Takes the output of a request. In order. @pre `made` is contiguous
  void add(std::size_t index, const generated& made);

  [[nodiscard]] bool empty() const noexcept { return sums_.empty(); }
  [[nodiscard]] bool has(std::size_t index) const { return sums_.contains(index); }

  /// Returns the SHA-256 over the latents of all requests, one after another.
  [[nodiscard]] std::string of_latents() const { return latents_.text(); }

  /// Returns whether every request has the same latents and pictures in both.
  friend bool operator==(const output_digests& a, const output_digests& b) {
    return a.sums_ == b.sums_;
  }

private:
  sha256_sum latents_;
  std::map<std::size_t, std::vector<std::string>> sums_; ///< Of latents and pictures.
};

} // namespace ferry
