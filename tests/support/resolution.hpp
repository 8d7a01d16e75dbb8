// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config_legacy.hpp>
#include <ferry/offload/resolve.hpp>

#include "support/fake_pipeline.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Configurations, trees and outlines that the resolver's specs share.
namespace ferry::test {

inline constexpr auto dit_only = R"({"mode":"layer","components":["dit"]})";
inline constexpr auto encoder_only = R"({"mode":"layer","components":["text_encoder"]})";
inline constexpr auto both = R"({"mode":"layer","components":["dit","text_encoder"]})";
inline constexpr auto modules = R"({"mode":"module","components":["dit"]})";
inline constexpr auto gathered_encoder =
    R"({"mode":"layer","components":["dit","text_encoder"],
        "layer_options":{"text_encoder":{"weight_transfer":"allgather"}}})";

inline const legacy_options layerwise{.enable_layerwise_offload = true};
inline const legacy_options distributed{.enable_distributed_layerwise_offload = true,
                                        .dlo_use_allgather = false};
inline const legacy_options model_level{.enable_cpu_offload = true};

inline offload_config compact(std::string_view json, const legacy_options& beside = {}) {
  return resolve_config(json, beside).value().config;
}

inline offload_config legacy(const legacy_options& options) {
  return resolve_config(std::nullopt, options).value().config;
}

/// `options` are those of the denoiser.
inline offload_config with_dit_options(const std::string& options) {
  return compact(R"({"mode":"layer","components":["dit"],"layer_options":{"dit":{)" + options +
                 "}}}");
}

inline offload_config resident(int layers) {
  return with_dit_options(R"("residency":"leading","resident_layers":)" + std::to_string(layers));
}

inline offload_config legacy_resident(int layers) {
  auto options = distributed;
  options.dlo_resident_layers = layers;
  return legacy(options);
}

inline fake_node dit(std::size_t count, std::int64_t elements = 16) {
  return node("test.dit")->parameter("pos", {4})->child("blocks", blocks(count, elements));
}

inline fake_node encoder(std::size_t count) {
  return node("test.encoder")->child("embed", block())->child("block", blocks(count));
}

inline fake_node tree(std::size_t dit_blocks = 4, std::size_t encoder_blocks = 3,
                      std::int64_t dit_elements = 16) {
  return node("test.root")
      ->child("transformer", dit(dit_blocks, dit_elements))
      ->child("text_encoder", encoder(encoder_blocks))
      ->child("vae", node("test.vae")->parameter("weight", {4}));
}

inline const component_roles roles{
    .dits = {"transformer"}, .encoders = {"text_encoder"}, .vaes = {"vae"}};

inline offload_plan planned() {
  return {.block_attrs = {{"transformer", {"blocks"}}},
          .encoder_block_attrs = {{"text_encoder", {"block"}}}};
}

/// Writes a component as `path selected on-demand [blocks, head n]`, one bracket a stack, children
/// in parentheses; `residents 1 3` where they are not the first.
inline std::string outline(const resolved_component& component) {
  auto text = component.path;
  text += component.selected ? " selected" : "";
  text += component.on_demand ? " on-demand" : "";
  for (const auto& stack : component.stacks) {
    text += " [" + std::to_string(stack.blocks.size());
    const auto residents = stack.residents();
    const auto head = std::span(stack.blocks).first(residents);
    if (residents > 0 && std::ranges::all_of(head, &stack_block::resident)) {
      text += ", head " + std::to_string(residents);
    } else if (residents > 0) {
      text += ", residents";
      for (std::size_t i = 0; i != stack.blocks.size(); ++i) {
        text += stack.blocks[i].resident ? " " + std::to_string(i) : "";
      }
    }
    text += "]";
  }
  for (const auto& child : component.children) {
    text += " (" + outline(child) + ")";
  }
  return text;
}

inline std::vector<std::string> outline(const resolved_offload_plan& plan) {
  std::vector<std::string> lines;
  for (const auto* role : {&plan.dits, &plan.encoders, &plan.vaes, &plan.residents}) {
    for (const auto& component : *role) {
      lines.push_back(outline(component));
    }
  }
  return lines;
}

inline std::vector<std::string> block_paths(const block_stack& stack) {
  std::vector<std::string> paths;
  for (const auto& each : stack.blocks) {
    paths.push_back(each.path);
  }
  return paths;
}

inline std::vector<std::string> messages(const resolution& outcome) {
  std::vector<std::string> all;
  for (const auto& each : outcome ? std::vector<diagnostic>{} : outcome.error()) {
    all.push_back(each.message);
  }
  return all;
}

inline std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const auto& each : texts) {
    all += each + "\n";
  }
  return all;
}

inline std::string rejection(const resolution& outcome) {
  return joined(messages(outcome));
}
inline std::string warnings(const resolution& outcome) {
  return joined(outcome.value().warnings);
}

inline fake_pipeline ordinary() {
  return fake_pipeline{tree()};
}

} // namespace ferry::test
