// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/config.hpp"
#include "strict_json.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ferry {
namespace {

using nlohmann::json;

constexpr std::string_view members[]{
    "strategy",       "components",      "transfers",        "resident_layers",
    "resident_bytes", "resident_blocks", "residency",        "slots",
    "more_slots",     "pin_memory",      "keep_mapped",      "use_hsdp",
    "group_size",     "chunk_bytes",     "pin_budget_bytes", "registration_limit_gib",
    "on_pin_failure", "transport"};
constexpr int deepest = 4;

/// Stops reading at the first member at fault.
struct misread {
  failure reason;
};

[[noreturn]] void refuse(errc code, std::string detail) {
  throw misread{{.code = code, .detail = std::move(detail)}};
}

template <class Enum>
Enum read_name(std::string_view what, const json& value,
               std::optional<Enum> (*known)(std::string_view) noexcept) {
  if (!value.is_string()) {
    refuse(errc::invalid_type, unexpected_value(what, value, "a string"));
  }
  const auto name = known(value.get_ref<const std::string&>());
  if (!name) {
    refuse(errc::invalid_config, unexpected_value(what, value, "a known name"));
  }
  return *name;
}

bool read_flag(std::string_view what, const json& value) {
  if (!value.is_boolean()) {
    refuse(errc::invalid_type, unexpected_value(what, value, "true or false"));
  }
  return value.get<bool>();
}

std::size_t read_count(std::string_view what, const json& value, std::size_t least,
                       std::size_t most) {
  const auto expected = "an integer from " + std::to_string(least) + " to " + std::to_string(most);
  if (!value.is_number_integer()) {
    refuse(errc::invalid_type, unexpected_value(what, value, expected));
  }
  const auto count = value.get<std::size_t>();
  if (!value.is_number_unsigned() || count < least || count > most) {
    refuse(errc::invalid_config, unexpected_value(what, value, expected));
  }
  return count;
}

std::vector<std::size_t> read_numbers(std::string_view what, const json& value) {
  if (!value.is_array()) {
    refuse(errc::invalid_type, unexpected_value(what, value, "a list"));
  }
  std::vector<std::size_t> numbers;
  for (const auto& each : value) {
    numbers.push_back(read_count("an entry of " + std::string{what}, each,
                                 numbers.empty() ? 0 : numbers.back() + 1,
                                 std::numeric_limits<std::size_t>::max()));
  }
  return numbers;
}

double read_limit(std::string_view what, const json& value) {
  if (!value.is_number()) {
    refuse(errc::invalid_type, unexpected_value(what, value, "a number >= 0"));
  }
  if (value.get<double>() < 0) {
    refuse(errc::invalid_config, unexpected_value(what, value, "a number >= 0"));
  }
  return value.get<double>();
}

std::optional<std::set<component_name>> read_selection(const json& value) {
  if (value.is_null()) {
    return std::nullopt;
  }
  if (!value.is_array()) {
    refuse(errc::invalid_type, unexpected_value("components", value, "null or a list"));
  }
  std::set<component_name> selection;
  for (const auto& each : value) {
    selection.insert(read_name("an entry of components", each, component_from));
  }
  return selection;
}

std::map<component_name, weight_transfer> read_transfers(const json& value) {
  if (!value.is_object()) {
    refuse(errc::invalid_type, unexpected_value("transfers", value, "an object"));
  }
  std::map<component_name, weight_transfer> transfers;
  for (const auto& [name, transfer] : value.items()) {
    transfers.emplace(read_name("a key of transfers", json(name), component_from),
                      read_name("transfers." + name, transfer, transfer_from));
  }
  for (const auto name : all_component_names) {
    if (!transfers.contains(name)) {
      refuse(errc::invalid_config, "transfers lacks " + std::string{to_string(name)} +
                                       "; transfers must contain every component");
    }
  }
  return transfers;
}

offload_config read_members(const json& value) {
  constexpr auto unlimited = std::numeric_limits<std::size_t>::max();
  offload_config config;
  config.strategy = read_name("strategy", value["strategy"], strategy_from);
  config.components = read_selection(value["components"]);
  config.transfers = read_transfers(value["transfers"]);
  config.resident.layers = read_count("resident_layers", value["resident_layers"], 0, unlimited);
  if (!value["resident_bytes"].is_null()) {
    config.resident.bytes = read_count("resident_bytes", value["resident_bytes"], 0, unlimited);
  }
  config.resident.blocks = read_numbers("resident_blocks", value["resident_blocks"]);
  config.resident.which = read_name("residency", value["residency"], residency_from);
  if (!value["slots"].is_null()) {
    config.slots = read_count("slots", value["slots"], 1, unlimited);
  }
  config.more_slots = read_flag("more_slots", value["more_slots"]);
  config.pin_memory = read_flag("pin_memory", value["pin_memory"]);
  config.keep_mapped = read_flag("keep_mapped", value["keep_mapped"]);
  config.use_hsdp = read_flag("use_hsdp", value["use_hsdp"]);
  config.group_size = static_cast<int>(
      read_count("group_size", value["group_size"], 1, std::numeric_limits<int>::max()));
  config.registration_limit_gib =
      read_limit("registration_limit_gib", value["registration_limit_gib"]);
  config.chunk_bytes = read_count("chunk_bytes", value["chunk_bytes"], 1, unlimited);
  if (!value["pin_budget_bytes"].is_null()) {
    config.pin_budget_bytes =
        read_count("pin_budget_bytes", value["pin_budget_bytes"], 0, unlimited);
  }
  config.on_pin_failure = read_name("on_pin_failure", value["on_pin_failure"], pin_policy_from);
  config.transport = read_name("transport", value["transport"], transport_from);
  return config;
}

} // namespace

std::string to_json(const offload_config& config) {
  json value;
  value["strategy"] = to_string(config.strategy);
  value["components"] = nullptr;
  if (config.components) {
    value["components"] = json::array();
    for (const auto name : *config.components) {
      value["components"].push_back(to_string(name));
    }
  }
  value["transfers"] = json::object();
  for (const auto& [name, transfer] : config.transfers) {
    value["transfers"][std::string{to_string(name)}] = to_string(transfer);
  }
  value["resident_layers"] = config.resident.layers;
  value["resident_bytes"] = nullptr;
  if (config.resident.bytes) {
    value["resident_bytes"] = *config.resident.bytes;
  }
  value["resident_blocks"] = config.resident.blocks;
  value["residency"] = to_string(config.resident.which);
  value["slots"] = nullptr;
  if (config.slots) {
    value["slots"] = *config.slots;
  }
  value["more_slots"] = config.more_slots;
  value["pin_memory"] = config.pin_memory;
  value["keep_mapped"] = config.keep_mapped;
  value["use_hsdp"] = config.use_hsdp;
  value["group_size"] = config.group_size;
  value["registration_limit_gib"] = config.registration_limit_gib;
  value["chunk_bytes"] = config.chunk_bytes;
  value["pin_budget_bytes"] = nullptr;
  if (config.pin_budget_bytes) {
    value["pin_budget_bytes"] = *config.pin_budget_bytes;
  }
  value["on_pin_failure"] = to_string(config.on_pin_failure);
  value["transport"] = to_string(config.transport);
  return value.dump();
}

result<offload_config> offload_config_from_json(std::string_view text) {
  const auto value = parse_strict(text, "the resolved configuration", deepest);
  if (!value) {
    return tl::unexpected(value.error());
  }
  try {
    if (!value->is_object()) {
      refuse(errc::invalid_type,
             unexpected_value("the resolved configuration", *value, "an object"));
    }
    for (const auto& [key, ignored] : value->items()) {
      if (std::ranges::find(members, key) == std::end(members)) {
        refuse(errc::invalid_config,
               "the resolved configuration contains the unknown member " + shown(key));
      }
    }
    for (const auto name : members) {
      if (!value->contains(name)) {
        refuse(errc::invalid_config, "the resolved configuration lacks " + std::string{name});
      }
    }
    return read_members(*value);
  } catch (const misread& stopped) {
    return tl::unexpected(stopped.reason);
  }
}

} // namespace ferry
