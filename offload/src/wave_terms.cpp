// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/wave_terms.hpp"

#include <ferry/offload/sha256.hpp>

#include <nlohmann/json.hpp>

namespace ferry {
namespace {

using json = nlohmann::json;

/// Why the terms of a rank stand against a wave with rank 0. Empty: they do not.
std::string objection(const json& terms, const json& first) {
  if (terms.at("steps").is_null())
    return "does not say how many steps it takes";
  if (terms.at("skips_blocks") == true)
    return "decides by itself whether blocks run";
  if (terms.at("steps") != first.at("steps"))
    return "takes " + terms.at("steps").dump() + " steps, rank 0 " + first.at("steps").dump();
  if (terms.at("blocks") != first.at("blocks"))
    return "runs other blocks than rank 0";
  return {};
}

bool is_ballot(const json& said) {
  return said.is_object() && said.contains("steps") && said.contains("skips_blocks") &&
         said.contains("blocks");
}

} // namespace

std::string to_ballot(const wave_terms& terms) {
  json said{{"steps", nullptr},
            {"skips_blocks", terms.skips_blocks},
            {"blocks", sha256(std::as_bytes(std::span(terms.blocks)))}};
  if (terms.steps)
    said["steps"] = *terms.steps;
  return said.dump();
}

result<void> admit_wave(std::span<const std::string> ballots) {
  std::vector<json> said;
  for (const auto& each : ballots) {
    said.push_back(json::parse(each, nullptr, false));
    if (!is_ballot(said.back()))
      return tl::unexpected(
          failure{.code = errc::invalid_type,
                  .detail = "the terms of rank " + std::to_string(said.size() - 1) + " are damaged",
                  .rank = static_cast<int>(said.size()) - 1});
  }
  std::string against;
  std::optional<int> first;
  for (std::size_t rank = 0; rank != said.size(); ++rank)
    if (const auto why = objection(said[rank], said[0]); !why.empty()) {
      against += (against.empty() ? "rank " : "; rank ") + std::to_string(rank) + " " + why;
      first = first.value_or(static_cast<int>(rank));
    }
  if (!first)
    return {};
  return tl::unexpected(
      failure{.code = errc::invalid_argument,
              .detail = "the requests of the ranks do not make a wave: " + against +
                        "; expected the same number of steps and the same blocks on every rank",
              .rank = first});
}

} // namespace ferry
