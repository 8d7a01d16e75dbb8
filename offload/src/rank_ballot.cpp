// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/rank_ballot.hpp"

#include <ferry/offload/member_differences.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace ferry {
namespace {

using field = std::pair<const char*, std::string rank_ballot::*>;

constexpr std::array fields{
    field{"version", &rank_ballot::version},   field{"device", &rank_ballot::device},
    field{"pipeline", &rank_ballot::pipeline}, field{"configuration", &rank_ballot::configuration},
    field{"slots", &rank_ballot::slots},
};

using identities = std::vector<weight_identity>;

/// Says how `own` differs from what rank 0 has; nothing if it does not.
std::string difference(const identities& own, const identities& of_first) {
  const auto [mine, other] = std::ranges::mismatch(own, of_first);
  const auto mine_ends = mine == own.end();
  const auto other_ends = other == of_first.end();
  if (mine_ends && other_ends)
    return {};
  if (!mine_ends && !other_ends && mine->path == other->path)
    return "has other weights in " + mine->path + " (" + mine->digest + ", rank 0 " +
           other->digest + ")";
  return "has " + (mine_ends ? "nothing" : mine->path) + " where rank 0 has " +
         (other_ends ? "nothing" : other->path);
}

/// A block as a pair of texts.
std::optional<identities> identities_from(const nlohmann::json& said) {
  if (!said.is_array())
    return std::nullopt;
  identities made;
  for (const auto& each : said) {
    if (!each.is_array() || each.size() != 2 || !each[0].is_string() || !each[1].is_string())
      return std::nullopt;
    made.push_back({each[0].get<std::string>(), each[1].get<std::string>()});
  }
  return made;
}

} // namespace

rank_ballot make_ballot(std::string_view device, std::string_view pipeline,
                        const offload_config& config, std::size_t slots,
                        std::vector<weight_identity> weights) {
  return {.version = FERRY_VERSION,
          .device = std::string{device.substr(0, device.find_first_of(":0123456789"))},
          .pipeline = std::string{pipeline},
          .configuration = to_json(config),
          .slots = std::to_string(slots),
          .weights = std::move(weights)};
}

std::string to_json(const rank_ballot& ballot) {
  nlohmann::json said;
  for (const auto& [name, member] : fields)
    said[name] = ballot.*member;
  said["weights"] = nlohmann::json::array();
  for (const auto& each : ballot.weights)
    said["weights"].push_back({each.path, each.digest});
  return said.dump();
}

result<rank_ballot> rank_ballot_from_json(std::string_view json) {
  const auto said = nlohmann::json::parse(json, nullptr, false);
  rank_ballot made;
  for (const auto& [name, member] : fields) {
    if (!said.is_object() || !said.contains(name) || !said[name].is_string())
      return tl::unexpected(
          failure{errc::invalid_type, "a ballot lacks " + std::string{name} + " as text"});
    made.*member = said[name].get<std::string>();
  }
  auto weights = said.contains("weights") ? identities_from(said["weights"]) : std::nullopt;
  if (!weights)
    return tl::unexpected(failure{errc::invalid_type, "a ballot lacks weights as pairs of text"});
  made.weights = std::move(*weights);
  return made;
}

result<void> agree(std::span<const rank_ballot> ballots) {
  std::string differences;
  std::optional<int> first;
  const auto add = [&](std::size_t rank, const std::string& how) {
    differences += (differences.empty() ? "" : "; ") + ("rank " + std::to_string(rank)) + " " + how;
    first = first.value_or(static_cast<int>(rank));
  };
  for (std::size_t rank = 1; rank < ballots.size(); ++rank) {
    for (const auto& [name, member] : fields) {
      const auto& own = ballots[rank].*member;
      const auto& of_first = ballots[0].*member;
      if (own == of_first)
        continue;
      const auto is_object = member == &rank_ballot::configuration;
      add(rank, std::string{"has "} + name + " " +
                    (is_object ? "with " + member_differences(own, of_first)
                               : own + ", rank 0 " + of_first));
    }
    if (const auto how = difference(ballots[rank].weights, ballots[0].weights); !how.empty())
      add(rank, how);
  }
  if (!first)
    return {};
  return tl::unexpected(failure{
      .code = errc::invalid_config, .detail = "the ranks differ: " + differences, .rank = first});
}

} // namespace ferry
