// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/rank_ballot.hpp"

#include <ferry/offload/gather_plan.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <utility>

namespace ferry {
namespace {

using field = std::pair<const char*, std::string rank_ballot::*>;

constexpr std::array fields{
    field{"version", &rank_ballot::version},   field{"device", &rank_ballot::device},
    field{"pipeline", &rank_ballot::pipeline}, field{"configuration", &rank_ballot::configuration},
    field{"slots", &rank_ballot::slots},       field{"weights", &rank_ballot::weights},
};

} // namespace

rank_ballot make_ballot(std::string_view device, std::string_view pipeline,
                        const offload_config& config, std::size_t slots,
                        const transfer_plan& plan) {
  return {.version = FERRY_VERSION,
          .device = std::string{device.substr(0, device.find_first_of(":0123456789"))},
          .pipeline = std::string{pipeline},
          .configuration = to_json(config),
          .slots = std::to_string(slots),
          .weights = digest_of_gathers(plan)};
}

std::string to_json(const rank_ballot& ballot) {
  nlohmann::json said;
  for (const auto& [name, member] : fields)
    said[name] = ballot.*member;
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
  return made;
}

result<void> agree(std::span<const rank_ballot> ballots) {
  std::string differences;
  std::optional<int> first;
  for (std::size_t rank = 1; rank < ballots.size(); ++rank)
    for (const auto& [name, member] : fields)
      if (ballots[rank].*member != ballots[0].*member) {
        differences += (differences.empty() ? "" : "; ") + ("rank " + std::to_string(rank)) +
                       " has " + name + " " + ballots[rank].*member + ", rank 0 " +
                       ballots[0].*member;
        first = first.value_or(static_cast<int>(rank));
      }
  if (!first)
    return {};
  return tl::unexpected(failure{
      .code = errc::invalid_config, .detail = "the ranks differ: " + differences, .rank = first});
}

} // namespace ferry
