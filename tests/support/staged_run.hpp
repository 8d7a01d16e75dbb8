// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"
#include "support/staging.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace ferry::test {

inline constexpr auto whole = R"({"mode":"module","components":["dit","text_encoder"]})";

/// Two denoisers, two encoders and a decoder, each with bytes of its own.
inline fake_node staged_tree() {
  return node("test.root")
      ->child("transformer", node("test.dit")->child("blocks", blocks(4, 32, 10)))
      ->child("transformer_2", node("test.dit")->child("blocks", blocks(4, 32, 20)))
      ->child("text_encoder", node("test.encoder")->child("block", blocks(3, 16, 30)))
      ->child("text_encoder_2", node("test.encoder")->child("block", blocks(2, 16, 40)))
      ->child("vae", node("test.vae")->parameter("weight", tensor({8}, dtype::f32, 50)));
}

inline std::shared_ptr<fake_pipeline> staged_model() {
  auto made = std::make_shared<fake_pipeline>(staged_tree());
  made->declare({.dits = {"transformer", "transformer_2"},
                 .encoders = {"text_encoder", "text_encoder_2"},
                 .vaes = {"vae"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}, {"transformer_2", {"blocks"}}},
             .encoder_block_attrs = {{"text_encoder", {"block"}}, {"text_encoder_2", {"block"}}},
             .resident_dit_paths = {"transformer", "transformer_2"}});
  return made;
}

/// A model under a runtime over a simulated device.
struct staged_run {
  explicit staged_run(std::string_view config = whole, sim_options options = {})
      : gpu(std::make_shared<sim_device>(options)),
        subject(gpu, {.acquire_deadline = std::chrono::seconds{5}}) {
    for (const auto& [path, node] : pipeline->tree()->own_children())
      original.emplace(path, everything(*node));
    REQUIRE(subject.start());
    REQUIRE(subject.enable(pipeline, compact(config)));
  }

  /// Calls a component. Returns whether it saw its bytes.
  [[nodiscard]] bool call(const std::string& path) {
    auto right = false;
    pipeline->call(path,
                   [&](fake_module& module) { right = everything(module) == original.at(path); });
    return right;
  }

  /// Runs what a request of two steps would.
  [[nodiscard]] bool request() {
    auto right = subject.begin_request().has_value();
    for (const auto* path :
         {"text_encoder", "text_encoder_2", "transformer", "transformer", "transformer_2", "vae"})
      right = call(path) && right;
    return subject.end_request() && right;
  }

  [[nodiscard]] bool on_device(const std::string& path) {
    return subject.state().value().components.at(path).on_device;
  }

  [[nodiscard]] bool ordinary() const {
    return pipeline->hook_count() == 0 &&
           std::ranges::all_of(pipeline->tree()->own_children(), [&](const auto& child) {
             return everything(*child.second) == original.at(child.first);
           });
  }

  std::shared_ptr<sim_device> gpu;
  std::shared_ptr<fake_pipeline> pipeline = staged_model();
  std::map<std::string, contents> original;
  runtime subject;
};

} // namespace ferry::test
