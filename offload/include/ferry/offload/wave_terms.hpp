// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/ids.hpp>
#include <ferry/platform/error.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ferry {

/// What is known of a request before it begins.
///
/// Where ranks share weights, their requests run in waves, one a rank: different requests that use
/// the same blocks in the same order (contract 2.5, the rule of admission). Elsewhere only `blocks`
/// matters.
struct wave_terms {
  std::optional<std::uint32_t> steps = std::nullopt; ///< Denoising steps, of equally many passes.
  /// Something of this rank alone, such as a cache, decides whether a block runs.
  bool skips_blocks = false;
  /// All blocks that will run, in order. Then a rank may leave the wave early, or come with no
  /// request at all: for what it does not run it sends its part to the others nevertheless. Empty:
  /// not known: every rank stays to the end, with as many passes a step, which nobody compares.
  std::vector<block_id> blocks = {};
};

/// Returns what a rank tells the others of its terms, as one line of JSON.
[[nodiscard]] std::string to_ballot(const wave_terms& terms);

/// Decides from the ballots of all ranks, rank 0 first, whether their wave may begin. Gives the
/// same answer on all ranks: `invalid_argument` that names every rank and its reason, with the
/// first of them as its rank; `invalid_type` for a damaged ballot.
[[nodiscard]] result<void> admit_wave(std::span<const std::string> ballots);

} // namespace ferry
