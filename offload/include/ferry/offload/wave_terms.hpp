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
  std::optional<std::uint32_t> steps = std::nullopt; ///< Denoising steps.
  std::uint32_t passes = 1; ///< Of the denoiser in each step: 2 with guidance by a second one.
  /// Something of this rank alone, such as a cache, decides whether a block runs.
  bool skips_blocks = false;
  /// All blocks that will run, in order. Then a rank may leave the wave early, or come with no
  /// request at all: for what it does not run it sends its part to the others nevertheless. Empty:
  /// not known, and every rank stays to the end.
  std::vector<block_id> blocks = {};
};

/// Returns what a rank tells the others of its terms, as one line of JSON.
[[nodiscard]] std::string to_ballot(const wave_terms& terms);

/// Returns the ballot of a rank whose request was withdrawn before its turn, and had not said which
/// blocks it runs: no wave may begin with it.
[[nodiscard]] std::string withdrawn_ballot();

/// Decides from the ballots of all ranks, rank 0 first, whether their wave may begin. Gives the
/// same answer on all ranks: `invalid_argument` that names every rank and its reason, with the
/// first of them as its rank; `invalid_type` for a damaged ballot.
[[nodiscard]] result<void> admit_wave(std::span<const std::string> ballots);

} // namespace ferry
