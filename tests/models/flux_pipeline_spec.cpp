// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/flux_pipeline.hpp"

#include <ferry/torch/hookable.hpp>
#include <ferry/torch/mapped_tensor.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "pipeline_copy.hpp"
#include "torch/catch.hpp"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>

namespace {

using ferry::flux_pipeline;
using ferry::reference_run;
using ferry::request;
using ferry::run_callbacks;
using ferry::test::golden;
using ferry::test::pipeline_copy;

flux_pipeline tiny() {
  return flux_pipeline::load(golden("flux-tiny")).value();
}

reference_run reference() {
  return reference_run::open(golden("flux-tiny") / "reference.safetensors").value();
}

/// Runs the reference's request and compares every stage.
reference_run compared(const flux_pipeline& pipeline) {
  auto expected = reference();
  run_callbacks tell;
  tell.stage = [&](std::string_view stage, const at::Tensor& value) {
    expected.compare(stage, value);
  };
  static_cast<void>(pipeline.run(pipeline.inputs_of(expected).value(), tell).value());
  return expected;
}

request short_request() {
  auto asked = tiny().defaults();
  asked.steps = 2;
  asked.width = 32;
  asked.height = 16;
  return asked;
}

void convert(const flux_pipeline& pipeline, at::ScalarType type) {
  for (const auto& component : pipeline.description().components) {
    component.module->to(type);
  }
}

struct counting_hook : ferry::hook {
  explicit counting_hook(int& calls) : calls_{&calls} {}
  void pre_forward(const ferry::hook_call&, ferry::tensor_refs) override { ++*calls_; }
  int* calls_;
};

void count_calls(const flux_pipeline& pipeline, int& calls) {
  for (const auto& component : pipeline.description().components) {
    for (const auto& module : component.module->modules()) {
      if (const auto* block = dynamic_cast<const ferry::hookable*>(module.get())) {
        block->hooks().add(*module, "count", std::make_shared<counting_hook>(calls));
      }
    }
  }
}

/// What runs once a request, and once a step: each component and its blocks.
constexpr int calls_a_request = (1 + 3) + (1 + 4) + 1;
constexpr int calls_a_step = 1 + 3 + 5;

void prefix_names(nlohmann::json& header) {
  nlohmann::json renamed;
  for (const auto& [name, tensor] : header.items()) {
    renamed[name == "__metadata__" ? name : "text_model." + name] = tensor;
  }
  header = renamed;
}

void rename_embedding(nlohmann::json& header) {
  header["encoder.embed_tokens.weight"] = header["shared.weight"];
  header.erase("shared.weight");
}

} // namespace

TEST_CASE("every stage of a FLUX run agrees with the reference implementation") {
  const auto stages = compared(tiny());

  CHECK(stages.errors().size() == 3 + 2 + 2 * (3 + 5) + 2 * 3 + 2);
  INFO(stages.worst()->stage);
  CHECK(stages.worst()->max_abs < 1e-4);
}

TEST_CASE("a narrower FLUX checkpoint ends near the reference") {
  const auto [type, tolerance] =
      GENERATE(table<at::ScalarType, double>({{at::kBFloat16, 0.8}, {at::kHalf, 0.1}}));
  const auto pipeline = tiny();
  convert(pipeline, type);

  const auto stages = compared(pipeline);

  INFO(stages.worst()->stage);
  CHECK(stages.worst()->max_abs < tolerance);
}

TEST_CASE("encoders are read under the names that older versions saved") {
  const pipeline_copy copy{"flux-tiny"};
  copy.change_header("text_encoder/model.safetensors", prefix_names);
  copy.change_header("text_encoder_2/model.safetensors", rename_embedding);

  const auto pipeline = flux_pipeline::load(copy.path()).value();

  CHECK(compared(pipeline).worst()->max_abs < 1e-4);
}

TEST_CASE("loading FLUX copies no weights and leaves the encoder of its autoencoder out") {
  const auto pipeline = tiny();
  std::vector<at::Tensor> all;
  for (const auto& component : pipeline.description().components) {
    const auto some = component.module->parameters();
    all.insert(all.end(), some.begin(), some.end());
  }

  CHECK(all.size() == 52 + 39 + 186 + 86);
  CHECK(std::all_of(all.begin(), all.end(),
                    [](const at::Tensor& t) { return ferry::is_mapped(t.storage()); }));
}

TEST_CASE("the blocks of FLUX are where the plan says they are") {
  const ferry::torch_pipeline pipeline{tiny().description()};
  const auto [path, blocks] =
      GENERATE(table<std::string, std::size_t>({{"text_encoder.encoder.layers", 3},
                                                {"text_encoder_2.encoder.block", 4},
                                                {"transformer.transformer_blocks", 3},
                                                {"transformer.single_transformer_blocks", 5}}));

  const auto list = ferry::find_node(pipeline.root(), path);

  REQUIRE(list);
  CHECK(list->is_list());
  CHECK(list->children().size() == blocks);
}

TEST_CASE("every component and block of FLUX is called through its hooks") {
  const auto pipeline = tiny();
  int calls = 0;
  count_calls(pipeline, calls);

  static_cast<void>(pipeline.run(short_request(), {}).value());

  CHECK(calls == calls_a_request + 2 * calls_a_step);
}

TEST_CASE("a FLUX request beyond the limits is refused before anything runs") {
  const auto pipeline = tiny();
  int calls = 0;
  count_calls(pipeline, calls);
  auto asked = short_request();
  asked.positive.ids[2] = 256;

  const auto made = pipeline.run(asked, {});

  REQUIRE(!made);
  CHECK(made.error().code == ferry::errc::invalid_argument);
  CHECK(calls == 0);
}

TEST_CASE("a FLUX run makes one picture of the size asked for") {
  const auto made = tiny().run(short_request(), {}).value();

  CHECK(made.latents.sizes() == at::IntArrayRef{1, 8, 16});
  CHECK(made.pictures.sizes() == at::IntArrayRef{1, 3, 16, 32});
  CHECK(made.pictures.abs().max().item<float>() <= 1.0F);
}

TEST_CASE("without a decoder FLUX ends with latents") {
  const pipeline_copy copy{"flux-tiny"};
  copy.change_json("model_index.json", [](nlohmann::json& index) { index.erase("vae"); });

  const auto made = flux_pipeline::load(copy.path()).value().run(short_request(), {}).value();

  CHECK(made.latents.defined());
  CHECK(!made.pictures.defined());
}

TEST_CASE("both encoders get the same ids unless the second has its own") {
  const auto pipeline = tiny();
  auto shared = short_request();
  auto own = shared;
  own.second.ids = shared.positive.ids;
  auto other = shared;
  other.second.ids = {7, 8};

  const auto latents = pipeline.run(shared, {}).value().latents;

  CHECK(at::equal(latents, pipeline.run(own, {}).value().latents));
  CHECK(!at::equal(latents, pipeline.run(other, {}).value().latents));
}

TEST_CASE("guidance changes what FLUX makes, and equal requests make equal bytes") {
  const auto pipeline = tiny();
  auto guided = short_request();
  guided.guidance = 1.0;

  const auto first = pipeline.run(short_request(), {}).value();

  CHECK(at::equal(first.pictures, pipeline.run(short_request(), {}).value().pictures));
  CHECK(!at::equal(first.pictures, pipeline.run(guided, {}).value().pictures));
}
