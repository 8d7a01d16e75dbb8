// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/config_compact.hpp"

#include <ferry/platform/quantity.hpp>

#include "strict_json.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using nlohmann::json;

constexpr std::string_view subject = "the offload configuration";
constexpr std::string_view top_level_keys[]{"mode", "components", "layer_options", "slots",
                                            "pin_memory"};
constexpr std::size_t most_slots = 64;
constexpr std::string_view option_keys[]{"weight_transfer", "resident_layers", "resident_bytes",
                                         "resident_blocks", "residency"};
constexpr int deepest = 8;

tl::unexpected<failure> wrong_type(std::string_view what, const json& value,
                                   std::string_view expected) {
  return tl::unexpected(
      failure{.code = errc::invalid_type, .detail = unexpected_value(what, value, expected)});
}

tl::unexpected<failure> wrong_value(std::string_view what, const json& value,
                                    std::string_view expected) {
  return tl::unexpected(
      failure{.code = errc::invalid_config, .detail = unexpected_value(what, value, expected)});
}

tl::unexpected<failure> contradiction(std::string detail) {
  return tl::unexpected(failure{.code = errc::invalid_config, .detail = std::move(detail)});
}

bool is_one_of(std::span<const std::string_view> choices, const std::string& text) {
  return std::ranges::find(choices, text) != choices.end();
}

/// Calls `check(component, options)` for every entry of `layer_options` until one fails.
template <class Check>
result<void> each_options(const json& value, const Check& check) {
  if (!value.contains("layer_options")) {
    return {};
  }
  for (const auto& [component, options] : value["layer_options"].items()) {
    if (auto done = check(component, options); !done) {
      return done;
    }
  }
  return {};
}

/// The same for those entries that contain `option`; `check` gets its dotted name and value.
template <class Check>
result<void> each_option(const json& value, const char* option, const Check& check) {
  return each_options(value, [&](const std::string& component, const json& options) {
    return options.contains(option) ? check(component, component + "." + option, options[option])
                                    : result<void>{};
  });
}

std::string named_options(const std::string& component, const json& options) {
  std::string named;
  for (const auto& [key, ignored] : options.items()) {
    named += (named.empty() ? "" : ", ") + component + "." + key;
  }
  return named.empty() ? component : named;
}

result<void> check_top_level(const json& value, compact_config&) {
  if (!value.is_object()) {
    return wrong_type(subject, value, "an object with mode and components");
  }
  std::string unknown;
  for (const auto& [key, ignored] : value.items()) {
    if (!is_one_of(top_level_keys, key)) {
      unknown += (unknown.empty() ? "" : ", ") + shown(key);
    }
  }
  if (!unknown.empty()) {
    return contradiction(std::string{subject} + " contains " + unknown +
                         "; expected only mode, components, layer_options, slots and pin_memory");
  }
  for (const auto* required : {"mode", "components"}) {
    if (!value.contains(required)) {
      return contradiction(std::string{subject} + " lacks " + required +
                           "; expected mode and components");
    }
  }
  return {};
}

result<void> read_mode(const json& value, compact_config& into) {
  const auto& mode = value["mode"];
  if (!mode.is_string()) {
    return wrong_type("mode", mode, "the string module or layer");
  }
  if (mode != "module" && mode != "layer") {
    return wrong_value("mode", mode, "module or layer");
  }
  into.mode = mode == "module" ? offload_mode::module : offload_mode::layer;
  return {};
}

result<void> read_components(const json& value, compact_config& into) {
  const auto& components = value["components"];
  if (!components.is_array()) {
    return wrong_type("components", components,
                      "a list of component names (their options go into layer_options)");
  }
  const auto odd =
      std::ranges::find_if(components, [](const json& each) { return !each.is_string(); });
  if (odd != components.end()) {
    return wrong_type("an entry of components", *odd, "a string");
  }
  if (components.empty()) {
    return wrong_value("components", components, "at least one of dit and text_encoder");
  }
  for (const auto& each : components) {
    const auto name = component_from(each.get_ref<const std::string&>());
    if (!name) {
      return wrong_value("an entry of components", each,
                         "dit or text_encoder (vae is for pipelines that offload themselves)");
    }
    into.components.insert(*name);
  }
  if (into.mode == offload_mode::layer && into.components.contains(component_name::vae)) {
    return contradiction(
        "components contains vae, which mode layer does not stream; expected dit or "
        "text_encoder");
  }
  return {};
}

result<void> check_options_shape(const json& value, compact_config& into) {
  if (value.contains("layer_options") && !value["layer_options"].is_object()) {
    return wrong_type("layer_options", value["layer_options"],
                      "an object of component names and their options");
  }
  const auto selected =
      each_options(value, [&](const std::string& component, const json&) -> result<void> {
        const auto name = component_from(component);
        if (!name || !into.components.contains(*name)) {
          return contradiction("layer_options names " + shown(component) +
                               "; expected a component that components selects");
        }
        return {};
      });
  if (!selected) {
    return selected;
  }
  const auto objects =
      each_options(value, [](const std::string& component, const json& options) -> result<void> {
        if (!options.is_object()) {
          return wrong_type("layer_options." + component, options, "an object of options");
        }
        return {};
      });
  if (!objects) {
    return objects;
  }
  return each_options(value, [](const std::string& component, const json& options) -> result<void> {
    for (const auto& [key, ignored] : options.items()) {
      if (!is_one_of(option_keys, key)) {
        return contradiction("layer_options." + component + " contains " + shown(key) +
                             "; expected weight_transfer, resident_layers, resident_bytes, "
                             "resident_blocks or residency");
      }
    }
    return {};
  });
}

result<void> read_transfers(const json& value, compact_config& into) {
  return each_option(value, "weight_transfer",
                     [&](const std::string& component, const std::string& name,
                         const json& transfer) -> result<void> {
                       if (!transfer.is_string()) {
                         return wrong_type(name, transfer, "the string allgather or rank-local");
                       }
                       const auto known = transfer_from(transfer.get_ref<const std::string&>());
                       if (!known) {
                         return wrong_value(name, transfer, "allgather or rank-local");
                       }
                       into.transfers[*component_from(component)] = *known;
                       return {};
                     });
}

result<void> read_resident_layers(const json& value, compact_config& into) {
  const auto types = each_option(
      value, "resident_layers",
      [](const std::string&, const std::string& name, const json& count) -> result<void> {
        if (!count.is_number_integer()) {
          return wrong_type(name, count, "an integer >= 0");
        }
        if (!count.is_number_unsigned() && count.get<std::int64_t>() < 0) {
          return wrong_value(name, count, "an integer >= 0");
        }
        return {};
      });
  if (!types) {
    return types;
  }
  return each_option(value, "resident_layers",
                     [&](const std::string& component, const std::string& name,
                         const json& count) -> result<void> {
                       if (component == "dit") {
                         into.resident.layers = count.get<std::size_t>();
                       } else if (count != 0) {
                         return wrong_value(name, count,
                                            "0; only dit keeps leading layers on the device");
                       }
                       return {};
                     });
}

result<void> only_of_denoisers(const std::string& component, const std::string& name,
                               const json& value) {
  return component == "dit" ? result<void>{}
                            : wrong_value(name, value, "none; only dit keeps blocks on the device");
}

result<void> read_resident_bytes(const json& value, compact_config& into) {
  constexpr auto expected = "an integer >= 0, or a size such as 2.4GB";
  return each_option(value, "resident_bytes",
                     [&](const std::string& component, const std::string& name,
                         const json& bytes) -> result<void> {
                       if (bytes.is_string()) {
                         const auto size = parse_bytes(bytes.get_ref<const std::string&>());
                         if (!size) {
                           return wrong_value(name, bytes, expected);
                         }
                         into.resident.bytes = *size;
                       } else if (!bytes.is_number_integer()) {
                         return wrong_type(name, bytes, expected);
                       } else if (!bytes.is_number_unsigned()) {
                         return wrong_value(name, bytes, expected);
                       } else {
                         into.resident.bytes = bytes.get<std::size_t>();
                       }
                       return only_of_denoisers(component, name, bytes);
                     });
}

result<void> read_resident_blocks(const json& value, compact_config& into) {
  constexpr auto expected = "a list of block numbers, integers >= 0";
  return each_option(value, "resident_blocks",
                     [&](const std::string& component, const std::string& name,
                         const json& blocks) -> result<void> {
                       if (!blocks.is_array() || !std::ranges::all_of(blocks, [](const json& each) {
                             return each.is_number_integer();
                           })) {
                         return wrong_type(name, blocks, expected);
                       }
                       if (!std::ranges::all_of(blocks, [](const json& each) {
                             return each.is_number_unsigned();
                           })) {
                         return wrong_value(name, blocks, expected);
                       }
                       auto& numbers = into.resident.blocks;
                       numbers = blocks.get<std::vector<std::size_t>>();
                       std::ranges::sort(numbers);
                       if (std::ranges::adjacent_find(numbers) != numbers.end()) {
                         return wrong_value(name, blocks, "each block once");
                       }
                       return only_of_denoisers(component, name, blocks);
                     });
}

result<void> read_residency(const json& value, compact_config& into) {
  constexpr auto expected = "spread, leading or strided";
  return each_option(value, "residency",
                     [&](const std::string& component, const std::string& name,
                         const json& which) -> result<void> {
                       if (!which.is_string()) {
                         return wrong_type(name, which, expected);
                       }
                       const auto known = residency_from(which.get_ref<const std::string&>());
                       if (!known) {
                         return wrong_value(name, which, expected);
                       }
                       into.resident.which = *known;
                       return only_of_denoisers(component, name, which);
                     });
}

result<void> read_slots(const json& value, compact_config& into) {
  constexpr auto expected = "an integer from 1 to 64, or auto";
  const auto found = value.find("slots");
  if (found == value.end()) {
    return {};
  }
  if (*found == "auto") {
    into.more_slots = true;
    return {};
  }
  if (found->is_string()) {
    return wrong_value("slots", *found, expected);
  }
  if (!found->is_number_integer()) {
    return wrong_type("slots", *found, expected);
  }
  if (!found->is_number_unsigned() || *found == 0 || *found > most_slots) {
    return wrong_value("slots", *found, expected);
  }
  into.slots = found->get<std::size_t>();
  return {};
}

result<void> read_pin_memory(const json& value, compact_config& into) {
  const auto found = value.find("pin_memory");
  if (found == value.end() || found->is_null()) {
    return {};
  }
  if (!found->is_boolean()) {
    return wrong_type("pin_memory", *found, "true or false");
  }
  into.pin_memory = found->get<bool>();
  return {};
}

/// Refuses residents that are given in two ways, and of what ranks gather.
result<void> check_residents(const json& value, const compact_config& config) {
  if (!config.resident.any()) {
    return {};
  }
  const auto& options = value["layer_options"]["dit"];
  std::vector<std::string> given;
  for (const auto* name : {"resident_layers", "resident_bytes", "resident_blocks"}) {
    if (options.contains(name) && options[name] != 0) {
      given.push_back("dit." + std::string{name} + " is " + shown(options[name]));
    }
  }
  if (given.size() > 1) {
    return contradiction(given[0] + " and " + given[1] + "; expected one of them");
  }
  if (options.contains("residency") && !config.resident.blocks.empty()) {
    return contradiction(given[0] + " and dit.residency is " + shown(options["residency"]) +
                         "; expected residency with resident_layers or resident_bytes");
  }
  if (config.transfer_of(component_name::dit) == weight_transfer::allgather) {
    return contradiction(given[0] + " and dit.weight_transfer is allgather; expected 0 resident "
                                    "layers, or rank-local");
  }
  return {};
}

result<void> check_combinations(const json& value, compact_config& into) {
  if (into.mode == offload_mode::module && value.contains("layer_options")) {
    std::string named;
    for (const auto& [component, options] : value["layer_options"].items()) {
      named += (named.empty() ? "" : ", ") + named_options(component, options);
    }
    if (!named.empty()) {
      return contradiction("layer_options gives " + named +
                           " with mode module; expected no layer_options, or mode layer");
    }
  }
  if (into.mode == offload_mode::module && value.contains("slots")) {
    return contradiction("slots is " + shown(value["slots"]) +
                         " with mode module; expected no slots, or mode layer");
  }
  return check_residents(value, into);
}

} // namespace

weight_transfer compact_config::transfer_of(component_name name) const noexcept {
  const auto found = transfers.find(name);
  return found == transfers.end() ? weight_transfer::rank_local : found->second;
}

offload_strategy compact_config::strategy() const noexcept {
  if (mode == offload_mode::module) {
    return offload_strategy::model_level;
  }
  const auto gathers = std::ranges::any_of(
      transfers, [](const auto& each) { return each.second == weight_transfer::allgather; });
  return gathers || resident.any() ? offload_strategy::distributed_layer_wise
                                   : offload_strategy::layer_wise;
}

result<std::optional<compact_config>> parse_compact_config(std::string_view text) {
  const auto value = parse_strict(text, subject, deepest);
  if (!value) {
    return tl::unexpected(value.error());
  }
  if (value->is_null()) {
    return std::nullopt;
  }
  compact_config config;
  for (const auto step :
       {check_top_level, read_mode, read_components, check_options_shape, read_transfers,
        read_resident_layers, read_resident_bytes, read_resident_blocks, read_residency, read_slots,
        read_pin_memory, check_combinations}) {
    if (auto done = step(*value, config); !done) {
      return tl::unexpected(done.error());
    }
  }
  return config;
}

} // namespace ferry
