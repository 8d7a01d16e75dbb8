// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/offload/gather_plan.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// What ranks have to agree on before their first collective, each equal if it is the same.
struct rank_ballot {
  std::string version;                  ///< Of Ferry.
  std::string device;                   ///< Its kind: "sim", "host", "cuda".
  std::string pipeline;                 ///< Its class.
  std::string configuration;            ///< As `to_json` writes it.
  std::string slots;                    ///< How many: they decide what is fetched ahead.
  std::vector<weight_identity> weights; ///< `identify_gathers`.

  friend bool operator==(const rank_ballot&, const rank_ballot&) = default;
};

/// `device` is the name of the rank's own: what follows the kind, a number, does not count.
[[nodiscard]] rank_ballot make_ballot(std::string_view device, std::string_view pipeline,
                                      const offload_config& config, std::size_t slots,
                                      std::vector<weight_identity> weights);

/// Return a ballot as one line of JSON, and read it back; `invalid_type` says what is damaged.
[[nodiscard]] std::string to_json(const rank_ballot& ballot);
[[nodiscard]] result<rank_ballot> rank_ballot_from_json(std::string_view json);

/// Checks that all ranks say the same. Fails with `invalid_config`, naming the ranks that differ
/// from rank 0 and what differs, of the weights the first block or tensor, and with the first of
/// them as its rank. Gives the same answer on all ranks.
[[nodiscard]] result<void> agree(std::span<const rank_ballot> ballots);

} // namespace ferry
