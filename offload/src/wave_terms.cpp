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
  if (terms.at("withdrawn") == true)
    return "withdrew its request before its turn and had not said which blocks the others run "
           "without it (with them they go on)";
  if (terms.at("steps").is_null())
    return "does not say how many steps it takes";
  if (terms.at("skips_blocks") == true)
    return "decides by itself whether blocks run";
  if (first.at("steps").is_null())
    return {}; // It is rank 0 that stands against it.
  if (terms.at("steps") != first.at("steps"))
    return "takes " + terms.at("steps").dump() + " steps, rank 0 " + first.at("steps").dump();
  if (terms.at("passes") != first.at("passes"))
    return "takes " + terms.at("passes").dump() + " passes a step, rank 0 " +
           first.at("passes").dump();
  if (terms.at("blocks") != first.at("blocks"))
    return "runs other blocks than rank 0";
  return {};
}

bool is_ballot(const json& said) {
  if (!said.is_object())
    return false;
  for (const auto* each : {"withdrawn", "steps", "passes", "skips_blocks", "blocks"})
    if (!said.contains(each))
      return false;
  return true;
}

json ballot_of(const wave_terms& terms) {
  json said{{"withdrawn", false},
            {"steps", nullptr},
            {"passes", terms.passes},
            {"skips_blocks", terms.skips_blocks},
            {"blocks", sha256(std::as_bytes(std::span(terms.blocks)))}};
  if (terms.steps)
    said["steps"] = *terms.steps;
  return said;
}

} // namespace

std::string to_ballot(const wave_terms& terms) {
  return ballot_of(terms).dump();
}

std::string withdrawn_ballot() {
  auto said = ballot_of({});
  said["withdrawn"] = true;
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
                        "; expected the same steps, passes a step and blocks on every rank",
              .rank = first});
}

} // namespace ferry
