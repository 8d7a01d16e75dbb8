// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/resolve.hpp"

#include <ferry/offload/packing.hpp>
#include <ferry/offload/residency.hpp>

#include "blocks.hpp"
#include "findings.hpp"
#include "ownership.hpp"
#include "subtree.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace ferry {
namespace {

constexpr std::string_view text_encoder_type = "text_encoder";

/// Returns what a block takes on the device.
std::size_t packed_bytes(const node_ptr& block) {
  std::vector<tensor_info> tensors;
  node_ids visited;
  visit_subtree("", block, visited, [&](const std::string&, const module_node& each) {
    for (auto& tensor : each.tensors()) {
      if (tensor.role != tensor_role::unregistered) {
        tensors.push_back(std::move(tensor));
      }
    }
  });
  return pack(tensors).bytes;
}

/// One resolution from start to end.
class resolver {
public:
  resolver(const pipeline& subject, const offload_config& config)
      : subject_(subject), config_(config), found_(discover(subject)),
        plan_(subject.declared_plan().value_or(offload_plan{})),
        notes_{.strict = config.is_explicit(), .warnings = found_.warnings} {}

  resolution run() {
    if (offloads_anything()) {
      check_classification(subject_.root(), found_, notes_);
      check_selection();
      check_resident_layers();
    }
    resolved_offload_plan resolved;
    resolved.strategy = config_.strategy;
    for (const auto& dit : found_.dits) {
      resolved.dits.push_back(resolve_dit(dit));
    }
    for (const auto& encoder : found_.encoders) {
      resolved.encoders.push_back(resolve_encoder(encoder));
    }
    for (const auto& vae : found_.vaes) {
      resolved.vaes.push_back(resolve_vae(vae));
    }
    for (const auto& resident : found_.residents) {
      resolved.residents.push_back({.path = resident.path, .node = resident.node});
    }
    if (found_.dits.empty() && !notes_.strict && is(offload_strategy::layer_wise)) {
      resolved.skip_reason = "no DiT was found in " + std::string{subject_.type_name()};
    }
    check_ownership(resolved, notes_);
    check_registration(resolved, notes_);
    if (!notes_.problems.empty()) {
      return tl::unexpected(std::move(notes_.problems));
    }
    resolved.warnings = std::move(notes_.warnings);
    return resolved;
  }

private:
  [[nodiscard]] bool is(offload_strategy strategy) const { return config_.strategy == strategy; }
  [[nodiscard]] bool offloads_anything() const { return !is(offload_strategy::none); }

  [[nodiscard]] bool streams() const {
    return is(offload_strategy::layer_wise) || is(offload_strategy::distributed_layer_wise);
  }

  /// An encoder's public category; nothing for one that no selector names.
  [[nodiscard]] bool is_text_encoder(const std::string& path) const {
    if (const auto declared = plan_.encoder_component_types.find(path);
        declared != plan_.encoder_component_types.end()) {
      return declared->second == text_encoder_type;
    }
    const auto leaf = path.substr(path.rfind('.') + 1);
    return leaf.starts_with(text_encoder_type) || leaf.ends_with(text_encoder_type);
  }

  [[nodiscard]] bool is_on_demand(const std::string& path) const {
    return plan_.on_demand_component_paths.contains(path);
  }

  void check_selection() {
    if (!notes_.strict) {
      if (found_.dits.empty() && is(offload_strategy::distributed_layer_wise)) {
        notes_.warn("no DiT was found in " + std::string{subject_.type_name()} +
                    "; nothing of it is streamed");
      }
      return;
    }
    if (config_.offloads(component_name::vae)) {
      check_vae_selection();
    }
    if (is(offload_strategy::model_level)) {
      if (subject_.custom_model_offload() == nullptr) {
        check_swap_sides();
      }
    } else if (config_.offloads(component_name::dit) && found_.dits.empty()) {
      notes_.reject("dit", "dit is selected and no DiT was found; expected one, or components "
                           "without dit");
    }
    const auto any_text_encoder = std::ranges::any_of(
        found_.encoders, [this](const auto& each) { return is_text_encoder(each.path); });
    if (config_.offloads(component_name::text_encoder) && !any_text_encoder) {
      notes_.reject("text_encoder", "text_encoder is selected and no text encoder was found; "
                                    "expected one, or components without text_encoder");
    }
  }

  void check_vae_selection() {
    if (found_.vaes.empty()) {
      notes_.reject("vae", "vae is selected and no VAE was found; expected one, or components "
                           "without vae");
    } else if (subject_.custom_model_offload() == nullptr) {
      notes_.reject("vae", "vae is selected and " + std::string{subject_.type_name()} +
                               " does not bring its own model-level offload; expected components "
                               "without vae");
    }
  }

  void check_swap_sides() {
    const std::pair<const char*, bool> sides[]{{"a DiT", found_.dits.empty()},
                                               {"an encoder", found_.encoders.empty()}};
    for (const auto& [side, absent] : sides) {
      if (absent) {
        notes_.reject(std::string{subject_.type_name()},
                      std::string{subject_.type_name()} + " lacks " + side +
                          "; mode module swaps a DiT with an encoder and needs both");
      }
    }
  }

  /// Returns which residents were asked for.
  [[nodiscard]] std::string wish() const {
    const auto& resident = config_.resident;
    if (resident.bytes) {
      return "dit.resident_bytes is " + std::to_string(*resident.bytes);
    }
    return resident.blocks.empty()
               ? "dit.resident_layers is " + std::to_string(resident.layers)
               : "dit.resident_blocks has " + std::to_string(resident.blocks.size()) + " blocks";
  }

  void check_resident_layers() {
    const auto declared = std::ranges::any_of(found_.dits, [this](const auto& each) {
      return plan_.resident_dit_paths.contains(each.path);
    });
    if (config_.resident.any() && is(offload_strategy::distributed_layer_wise) && !declared &&
        !found_.dits.empty()) {
      notes_.object("dit", wish() + " and no DiT is declared in resident_dit_paths; expected 0",
                    "every block is streamed");
    }
  }

  resolved_component resolve_dit(const discovered_component& dit) {
    resolved_component resolved{.path = dit.path, .node = dit.node};
    resolved.selected = offloads_anything() && config_.offloads(component_name::dit);
    if (resolved.selected && is(offload_strategy::model_level)) {
      findings unsaid;
      resolved.blocks_inside = find_dit_blocks(dit, plan_, unsaid).blocks.size();
    }
    if (!resolved.selected || !streams()) {
      return resolved;
    }
    auto stack = find_dit_blocks(dit, plan_, notes_);
    if (stack.blocks.empty() || !split_residents(dit, stack)) {
      return resolved;
    }
    if (is(offload_strategy::distributed_layer_wise)) {
      resolved.children = find_submodules(dit, stack, plan_, found_, notes_);
    }
    resolved.stacks.push_back(std::move(stack));
    return resolved;
  }

  /// Decides which blocks stay. Returns false if too few are left to stream any.
  bool split_residents(const discovered_component& dit, block_stack& stack) {
    const auto distributed = is(offload_strategy::distributed_layer_wise);
    const auto count = stack.blocks.size();
    if (!distributed || plan_.resident_dit_paths.contains(dit.path)) {
      choose_residents(dit, stack);
    }
    if (count - stack.residents() != 1) {
      return true;
    }
    notes_.object(dit.path,
                  distributed
                      ? dit.path + " has " + std::to_string(count) + " blocks and " +
                            std::to_string(stack.residents()) +
                            " resident layers, which leaves a single streaming block; expected 0 "
                            "or at least 2"
                      : dit.path + " has a single block to stream; expected at least 2",
                  "all its blocks stay on the device");
    if (distributed) {
      keep_all(stack);
    }
    return distributed;
  }

  static void keep_all(block_stack& stack) {
    for (auto& each : stack.blocks) {
      each.resident = true;
    }
  }

  void choose_residents(const discovered_component& dit, block_stack& stack) {
    const auto& resident = config_.resident;
    const auto count = stack.blocks.size();
    if (resident.layers > count) {
      notes_.warn(wish() + " and " + dit.path + " has " + std::to_string(count) +
                  " blocks; all of them are resident layers");
    }
    if (!resident.blocks.empty() && resident.blocks.back() >= count) {
      notes_.object(dit.path,
                    "dit.resident_blocks names block " + std::to_string(resident.blocks.back()) +
                        " and " + dit.path + " has " + std::to_string(count) +
                        " blocks; expected numbers below that",
                    "it is left out");
    }
    for (const auto number : resident.blocks) {
      if (number < count) {
        stack.blocks[number].resident = true;
      }
    }
    if (!resident.blocks.empty() || !resident.any()) {
      return;
    }
    std::vector<std::size_t> bytes;
    for (const auto& each : stack.blocks) {
      bytes.push_back(packed_bytes(each.node));
    }
    const auto kept = resident.bytes ? residents_in_bytes(bytes, *resident.bytes, resident.which)
                                     : residents_by_number(bytes, resident.layers, resident.which);
    for (std::size_t i = 0; i < count; ++i) {
      stack.blocks[i].resident = kept[i];
    }
  }

  resolved_component resolve_encoder(const discovered_component& encoder) {
    resolved_component resolved{.path = encoder.path, .node = encoder.node};
    if (offloads_anything()) {
      check_encoder_type(encoder.path);
    }
    resolved.selected =
        offloads_anything() && (!notes_.strict || (config_.offloads(component_name::text_encoder) &&
                                                   is_text_encoder(encoder.path)));
    if (!resolved.selected || !streams()) {
      return resolved;
    }
    const auto gathers = is(offload_strategy::distributed_layer_wise) &&
                         config_.uses_allgather(component_name::text_encoder);
    const auto group = gathers ? config_.group_size : 1;
    if (group > 1 && !plan_.encoder_dlo_weight_replication.contains(encoder.path)) {
      notes_.reject(encoder.path,
                    encoder.path + " is gathered from " + std::to_string(group) +
                        " ranks and not declared in encoder_dlo_weight_replication; expected the "
                        "declaration, or text_encoder.weight_transfer rank-local");
    }
    const auto rejected_before = notes_.problems.size();
    resolved.stacks = find_encoder_stacks(encoder, plan_, notes_.strict || group > 1, notes_);
    resolved.on_demand = is_on_demand(encoder.path) && check_lifecycle(encoder);
    const auto explained = notes_.problems.size() > rejected_before;
    if (notes_.strict && resolved.stacks.empty() && !explained &&
        encoder.node->is_loaded() != false) {
      check_whole_encoder(resolved, gathers);
    }
    return resolved;
  }

  void check_encoder_type(const std::string& path) {
    const auto declared = plan_.encoder_component_types.find(path);
    if (declared != plan_.encoder_component_types.end() && declared->second != text_encoder_type) {
      notes_.reject(path, "the declared type of " + path + " is " + declared->second +
                              "; expected text_encoder");
    }
  }

  void check_whole_encoder(const resolved_component& encoder, bool gathers) {
    if (!encoder.on_demand) {
      notes_.reject(encoder.path,
                    encoder.path + " is selected and has nothing to stream; expected block lists "
                                   "in encoder_block_attrs, or a path in "
                                   "on_demand_component_paths");
    } else if (gathers) {
      notes_.reject(encoder.path, encoder.path +
                                      " is only staged as a whole and its weight_transfer is "
                                      "allgather; expected rank-local");
    }
  }

  bool check_lifecycle(const discovered_component& component) {
    const auto methods = component.node->staging();
    if (methods.load_to_device && methods.offload_to_cpu) {
      return true;
    }
    notes_.reject(component.path,
                  component.path + " is declared in on_demand_component_paths and lacks " +
                      (methods.load_to_device   ? "offload_to_cpu"
                       : methods.offload_to_cpu ? "load_to_device"
                                                : "load_to_device and offload_to_cpu"));
    return false;
  }

  resolved_component resolve_vae(const discovered_component& vae) {
    resolved_component resolved{.path = vae.path, .node = vae.node};
    resolved.selected =
        offloads_anything() && notes_.strict && config_.offloads(component_name::vae);
    resolved.on_demand =
        !notes_.strict && streams() && is_on_demand(vae.path) && check_lifecycle(vae);
    return resolved;
  }

  const pipeline& subject_;
  const offload_config& config_;
  discovered_components found_;
  offload_plan plan_;
  findings notes_;
};

} // namespace

resolution resolve(const pipeline& subject, const offload_config& config) {
  return resolver{subject, config}.run();
}

} // namespace ferry
