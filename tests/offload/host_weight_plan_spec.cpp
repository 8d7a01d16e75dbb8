// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/checkpoint_writer.hpp>
#include <ferry/offload/host_weight_plan.hpp>

#include "support/catch.hpp"
#include "support/fake_pipeline.hpp"
#include "support/scratch_directory.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using test::fake_node;
using strings = std::vector<std::string>;

/// Passes entries below "model." on without it, transposed; drops all others.
class adapter final : public weight_adapter {
public:
  std::optional<entry> adapt(std::string_view key) const override {
    if (!key.starts_with("model."))
      return std::nullopt;
    return entry{std::string{key.substr(6)}, transposed_};
  }

private:
  struct transpose final : weight_transform {
    std::string_view name() const override { return "transpose"; }
    void apply(const stored_tensor& source, mutable_bytes target) const override {
      std::ranges::copy(source.bytes, target.begin());
    }
  };
  std::shared_ptr<const weight_transform> transposed_ = std::make_shared<transpose>();
};

/// A denoiser of two blocks and a position parameter, beside a checkpoint that a test changes.
struct checkpointed {
  [[nodiscard]] result<std::shared_ptr<const component_checkpoint>> open() {
    ++opened;
    const auto directory = scratch.path() / ("transformer" + std::to_string(opened));
    std::filesystem::create_directory(directory);
    if (!entries.empty())
      write_component(directory, "model", entries, 1 << 20,
                      [](const tensor_declaration&, std::uint64_t, mutable_bytes chunk) {
                        std::ranges::fill(chunk, std::byte{1});
                      });
    return component_checkpoint::open(directory);
  }
  [[nodiscard]] weight_source source() {
    return {.prefix = "transformer.",
            .open = [this] { return open(); },
            .custom_loader = false,
            .adapter = nullptr};
  }
  [[nodiscard]] host_weight_planning plan(const weight_layout& layout = {}) {
    return plan({source()}, layout);
  }
  [[nodiscard]] host_weight_planning plan(const std::vector<weight_source>& sources,
                                          const weight_layout& layout = {}) const {
    return plan_host_weights(root, strings{"transformer"}, sources, layout);
  }

  test::scratch_directory scratch;
  std::vector<tensor_declaration> entries{{"pos", dtype::f32, {4}},
                                          {"blocks.0.weight", dtype::f32, {16}},
                                          {"blocks.1.weight", dtype::f32, {16}}};
  fake_node dit = test::node("test.dit")->parameter("pos", {4})->child("blocks", test::blocks(2));
  fake_node root = test::node("test.root")->child("transformer", dit);
  int opened = 0;
};

TEST_CASE("every tensor of the model is bound to its place in the checkpoint",
          "[offload][host_weight_plan]") {
  checkpointed model;

  const auto plan = model.plan();

  REQUIRE(plan);
  CHECK(plan->backing == host_weight_backing::checkpoint_mmap);
  CHECK(plan->carrier == nullptr);
  CHECK(plan->bindings.size() == 3);
  const auto& bound = plan->bindings.at("transformer.blocks.1.weight");
  CHECK(bound.key == "blocks.1.weight");
  CHECK(bound.file.filename() == "model.safetensors");
  CHECK(bound.transform == nullptr);
}

TEST_CASE("a source's prefix makes the namespace of the model", "[offload][host_weight_plan]") {
  checkpointed model;

  const auto plan = model.plan();

  REQUIRE(plan);
  CHECK(plan->source_prefixes == strings{"transformer."});
  CHECK(std::ranges::all_of(plan->bindings, [](const auto& each) {
    return each.first == "transformer." + each.second.key;
  }));
}

TEST_CASE("buffers that checkpoints lack need no binding, others do",
          "[offload][host_weight_plan]") {
  checkpointed model;
  model.dit->buffer("freqs", test::tensor({4}), false);
  CHECK(model.plan());

  model.dit->buffer("shift", test::tensor({4}), true);

  CHECK(model.plan().error().reason == weight_fallback::missing_tensors);
}

TEST_CASE("of the names of a tied tensor one is enough", "[offload][host_weight_plan]") {
  checkpointed model;
  const auto tied = test::tensor({8});
  model.dit->parameter("embed", tied)->child("head", test::node("test.head")->parameter("w", tied));
  model.entries.push_back({"head.w", dtype::f32, {8}});

  const auto plan = model.plan();

  REQUIRE(plan);
  CHECK(plan->bindings.contains("transformer.head.w"));
  CHECK_FALSE(plan->bindings.contains("transformer.embed"));
}

TEST_CASE("entries that the model has no use for are passed over", "[offload][host_weight_plan]") {
  checkpointed model;
  model.entries.push_back({"ema.decay", dtype::f32, {1}});

  CHECK(model.plan()->bindings.size() == 3);
}

TEST_CASE("a layout that only loading makes falls back before the checkpoint is looked for",
          "[offload][host_weight_plan]") {
  checkpointed model;
  const auto [layout, reason] = GENERATE(
      std::pair{weight_layout{.tensor_parallel_size = 2}, weight_fallback::tensor_parallel},
      std::pair{weight_layout{.use_hsdp = true}, weight_fallback::hsdp},
      std::pair{weight_layout{.online_quantization = true}, weight_fallback::online_quantization},
      std::pair{weight_layout{.int8_conv_rot = true}, weight_fallback::int8_conv_rot});

  const auto plan = model.plan(layout);

  REQUIRE_FALSE(plan);
  CHECK(plan.error().reason == reason);
  CHECK_FALSE(plan.error().detail.empty());
  CHECK(model.opened == 0);
}

TEST_CASE(
    "a source that is not of the denoiser alone falls back before the checkpoint is looked for",
    "[offload][host_weight_plan]") {
  checkpointed model;
  auto shared = model.source();
  shared.prefix = "";

  const auto plan = model.plan({shared});

  REQUIRE_FALSE(plan);
  CHECK(plan.error().reason == weight_fallback::no_dedicated_source);
  CHECK_THAT(plan.error().detail, Contains("dedicated source") && Contains("'transformer.'"));
  CHECK(model.opened == 0);
}

TEST_CASE("a custom loader without an adapter falls back, with one it does not",
          "[offload][host_weight_plan]") {
  checkpointed model;
  auto source = model.source();
  source.custom_loader = true;
  CHECK(model.plan({source}).error().reason == weight_fallback::custom_loader);
  CHECK(model.opened == 0);

  source.adapter = std::make_shared<adapter>();
  for (auto& each : model.entries)
    each.name = "model." + each.name;
  model.entries.push_back({"optimizer.step", dtype::f32, {1}});
  const auto plan = model.plan({source});

  REQUIRE(plan);
  const auto& bound = plan->bindings.at("transformer.pos");
  CHECK(bound.key == "model.pos");
  CHECK(bound.transform->name() == "transpose");
}

TEST_CASE("a transform may change neither the shape nor the type", "[offload][host_weight_plan]") {
  checkpointed model;
  auto source = model.source();
  source.adapter = std::make_shared<adapter>();
  const auto pos = GENERATE(tensor_declaration{"model.pos", dtype::f32, {4}},
                            tensor_declaration{"model.pos", dtype::f32, {2, 2}},
                            tensor_declaration{"model.pos", dtype::i32, {4}});
  for (auto& each : model.entries)
    each.name = "model." + each.name;
  model.entries.front() = pos;

  const auto plan = model.plan({source});

  CHECK(plan.has_value() == (pos.type == dtype::f32 && pos.shape.size() == 1));
}

TEST_CASE("a checkpoint that is not there falls back", "[offload][host_weight_plan]") {
  checkpointed model;
  model.entries.clear();

  const auto plan = model.plan();

  REQUIRE_FALSE(plan);
  CHECK(plan.error().reason == weight_fallback::missing_source);
}

TEST_CASE("a checkpoint that lacks a file of its index falls back", "[offload][host_weight_plan]") {
  checkpointed model;
  auto source = model.source();
  source.open = [&] {
    const auto directory = model.scratch.path() / "torn";
    std::filesystem::create_directory(directory);
    write_component(directory, "model", model.entries, 80,
                    [](const tensor_declaration&, std::uint64_t, mutable_bytes) {});
    for (const auto& file : std::filesystem::directory_iterator(directory))
      if (file.path().string().find("00002-of") != std::string::npos)
        std::filesystem::remove(file);
    return component_checkpoint::open(directory);
  };

  const auto plan = model.plan({source});

  REQUIRE_FALSE(plan);
  CHECK(plan.error().reason == weight_fallback::missing_source);
  CHECK_THAT(plan.error().detail, Contains("00002-of"));
}

TEST_CASE("several denoisers are planned from a source each, and one that falls back takes all",
          "[offload][host_weight_plan]") {
  checkpointed model;
  model.root->child("transformer_2", test::node("test.dit")->child("blocks", test::blocks(2)));
  auto second = model.source();
  second.prefix = "transformer_2.";
  second.open = [&] {
    model.entries.erase(model.entries.begin());
    return model.open();
  };
  const auto plan_both = [&](const std::vector<weight_source>& sources) {
    return plan_host_weights(model.root, strings{"transformer", "transformer_2"}, sources, {});
  };

  const auto plan = plan_both({model.source(), second});

  REQUIRE(plan);
  CHECK(plan->bindings.size() == 3 + 2);
  CHECK(plan->bindings.at("transformer.pos").file !=
        plan->bindings.at("transformer_2.blocks.0.weight").file);
  CHECK(plan->source_prefixes == strings{"transformer.", "transformer_2."});
  CHECK_FALSE(plan_both({second}));
}

TEST_CASE("a source of which nothing is left falls back", "[offload][host_weight_plan]") {
  checkpointed model;
  auto source = model.source();
  source.adapter = std::make_shared<adapter>();

  CHECK(model.plan({source}).error().reason == weight_fallback::no_entries);
}

TEST_CASE("two entries for one tensor fall back and are named", "[offload][host_weight_plan]") {
  checkpointed model;

  const auto plan = model.plan({model.source(), model.source()});

  REQUIRE_FALSE(plan);
  CHECK(plan.error().reason == weight_fallback::duplicate_entry);
  CHECK_THAT(plan.error().detail, Contains("'transformer.blocks.0.weight' has two entries"));
}

TEST_CASE("tensors that the checkpoint lacks are counted and the first five named",
          "[offload][host_weight_plan]") {
  checkpointed model;
  model.dit->child("extra", test::blocks(7));

  const auto plan = model.plan();

  REQUIRE_FALSE(plan);
  CHECK(plan.error().reason == weight_fallback::missing_tensors);
  CHECK_THAT(plan.error().detail, Contains("lacks 7 tensors") &&
                                      Contains("transformer.extra.0.weight") &&
                                      Contains("transformer.extra.4.weight, ...") &&
                                      !Contains("transformer.extra.5.weight"));
}

TEST_CASE("another shape or type than the model's falls back", "[offload][host_weight_plan]") {
  checkpointed model;
  const auto pos = GENERATE(tensor_declaration{"pos", dtype::f32, {2, 2}},
                            tensor_declaration{"pos", dtype::f16, {4}});
  model.entries.front() = pos;

  const auto plan = model.plan();

  REQUIRE_FALSE(plan);
  CHECK(plan.error().reason == weight_fallback::metadata_mismatch);
  CHECK_THAT(plan.error().detail, Contains("'transformer.pos'") && Contains("F32[4]"));
}

TEST_CASE("a denoiser that the pipeline lacks falls back", "[offload][host_weight_plan]") {
  checkpointed model;
  model.root = test::node("test.root");

  CHECK(model.plan().error().reason == weight_fallback::missing_tensors);
}

TEST_CASE("planning works for a model without memory and changes nothing",
          "[offload][host_weight_plan]") {
  checkpointed model;
  model.dit->parameter("meta", test::meta_tensor({3}));
  model.entries.push_back({"meta", dtype::f32, {3}});

  const auto plan = model.plan();

  CHECK(plan);
  CHECK(model.dit->mutations().empty());
  CHECK(model.dit->own_tensors().at("meta")->meta);
}

TEST_CASE("every reason to fall back has a name of its own", "[offload][host_weight_plan]") {
  std::set<std::string_view> names;
  for (const auto each : all_weight_fallbacks)
    names.insert(to_string(each));

  CHECK(names.size() == all_weight_fallbacks.size());
}

} // namespace
} // namespace ferry
