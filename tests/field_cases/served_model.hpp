// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ferry::test {

inline constexpr auto whole_components = R"({"mode":"module","components":["dit","text_encoder"]})";

/// A pipeline of an encoder, two denoisers and a decoder, and a started runtime over a device.
/// Every byte of a block tells which block it is.
class served_model {
public:
  static constexpr std::size_t dit_blocks = 8;
  static constexpr std::size_t encoder_blocks = 3;

  explicit served_model(std::shared_ptr<device> target, std::size_t slots = 2,
                        std::int64_t elements = 64)
      : model_(pipeline_of(elements)),
        subject_(std::move(target), {.slots = slots, .acquire_deadline = std::chrono::seconds{5}}) {
    REQUIRE(subject_.start());
  }

  [[nodiscard]] result<void> enable(const offload_config& config) {
    return subject_.enable(model_, config);
  }
  [[nodiscard]] runtime& subject() noexcept { return subject_; }
  [[nodiscard]] offload_state state() const { return subject_.state().value(); }
  [[nodiscard]] const std::shared_ptr<fake_pipeline>& model() const noexcept { return model_; }

  /// Runs a component with its blocks. Returns whether each saw its bytes.
  [[nodiscard]] bool run(const std::string& component) {
    auto right = false;
    model_->call(component, [&](fake_module& called) {
      right = component == "vae" ? holds(called, 200) : run_blocks(component);
    });
    return right;
  }

  /// Runs a request of two steps of either denoiser.
  [[nodiscard]] bool request() {
    auto right = subject_.begin_request().has_value();
    for (const auto* each :
         {"text_encoder", "transformer", "transformer", "transformer_2", "transformer_2", "vae"})
      right = run(each) && right;
    return subject_.end_request() && right;
  }

  /// Returns whether the pipeline is as it was before it was ever enabled.
  [[nodiscard]] bool ordinary() {
    return model_->hook_count() == 0 && run("text_encoder") && run("transformer") &&
           run("transformer_2") && run("vae");
  }

private:
  static std::shared_ptr<fake_pipeline> pipeline_of(std::int64_t elements) {
    auto made = std::make_shared<fake_pipeline>(
        node("test.root")
            ->child("transformer",
                    node("test.dit")->child("blocks", blocks(dit_blocks, elements, 10)))
            ->child("transformer_2",
                    node("test.dit")->child("blocks", blocks(dit_blocks, elements, 50)))
            ->child("text_encoder",
                    node("test.encoder")->child("blocks", blocks(encoder_blocks, elements, 100)))
            ->child("vae", node("test.vae")->parameter("weight", tensor({8}, dtype::f32, 200))));
    made->declare({.dits = {"transformer", "transformer_2"},
                   .encoders = {"text_encoder"},
                   .vaes = {"vae"}})
        .plan({.block_attrs = {{"transformer", {"blocks"}}, {"transformer_2", {"blocks"}}},
               .encoder_block_attrs = {{"text_encoder", {"blocks"}}},
               .resident_dit_paths = {"transformer", "transformer_2"}});
    return made;
  }

  static bool holds(const fake_module& module, unsigned char fill) {
    const auto seen = module.own_tensors().at("weight")->bytes();
    return std::ranges::count(seen, std::byte{fill}) == std::ssize(seen);
  }

  [[nodiscard]] bool run_blocks(const std::string& component) {
    const auto is_encoder = component == "text_encoder";
    const auto first = is_encoder ? 100 : component == "transformer" ? 10 : 50;
    auto right = true;
    for (std::size_t i = 0; i != (is_encoder ? encoder_blocks : dit_blocks); ++i)
      model_->call(component + ".blocks." + std::to_string(i), [&](fake_module& block) {
        right = holds(block, static_cast<unsigned char>(first + static_cast<int>(i))) && right;
      });
    return right;
  }

  std::shared_ptr<fake_pipeline> model_;
  runtime subject_;
};

/// Returns when the last block or component that has been enqueued will have been computed.
[[nodiscard]] inline std::chrono::nanoseconds computed_by(sim_device& gpu) {
  std::chrono::nanoseconds last{0};
  for (const auto& each : gpu.timeline())
    if (each.span.kind == operation_kind::compute)
      last = std::max(last, each.span.end);
  return last;
}

} // namespace ferry::test
