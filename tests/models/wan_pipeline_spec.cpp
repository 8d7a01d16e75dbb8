// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/wan_pipeline.hpp"

#include <ferry/torch/hookable.hpp>
#include <ferry/torch/mapped_tensor.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "models/reference_run.hpp"
#include "pipeline_copy.hpp"
#include "torch/catch.hpp"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>
#include <string>

namespace {

using ferry::reference_run;
using ferry::request;
using ferry::run_callbacks;
using ferry::wan_pipeline;
using ferry::test::golden;
using ferry::test::pipeline_copy;

wan_pipeline load(const std::string& name) {
  return wan_pipeline::load(golden(name)).value();
}

reference_run reference_of(const std::string& name) {
  return reference_run::open(golden(name) / "reference.safetensors").value();
}

/// Runs the reference's request and compares every stage.
reference_run compared(const wan_pipeline& pipeline, const std::string& name) {
  auto reference = reference_of(name);
  run_callbacks tell;
  tell.stage = [&](std::string_view stage, const at::Tensor& value) {
    reference.compare(stage, value);
  };
  static_cast<void>(pipeline.run(reference.inputs().value(), tell).value());
  return reference;
}

request short_request() {
  request asked;
  asked.positive.ids = {5, 17, 9};
  asked.negative.ids = {1};
  asked.steps = 2;
  asked.width = 32;
  asked.height = 32;
  asked.frames = 1;
  return asked;
}

void convert(const wan_pipeline& pipeline, at::ScalarType type) {
  for (const auto& component : pipeline.description().components) {
    component.module->to(type);
  }
}

/// The parts that float32 is kept for when the rest of a checkpoint is narrower.
bool kept_in_f32(const std::string& name) {
  return name.find("time_embedder") != std::string::npos ||
         name.find("scale_shift_table") != std::string::npos ||
         name.find("norm2") != std::string::npos;
}

std::vector<at::Tensor> parameters(const wan_pipeline& pipeline) {
  std::vector<at::Tensor> all;
  for (const auto& component : pipeline.description().components) {
    const auto some = component.module->parameters();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

struct counting_hook : ferry::hook {
  explicit counting_hook(int& calls) : calls_{&calls} {}
  void pre_forward(const ferry::hook_call&, ferry::tensor_refs) override { ++*calls_; }
  int* calls_;
};

void count_calls(const wan_pipeline& pipeline, int& calls) {
  for (const auto& component : pipeline.description().components) {
    for (const auto& module : component.module->modules()) {
      if (const auto* block = dynamic_cast<const ferry::hookable*>(module.get())) {
        block->hooks().add(*module, "count", std::make_shared<counting_hook>(calls));
      }
    }
  }
}

} // namespace

TEST_CASE("every stage of a run agrees with the reference implementation") {
  const auto [name, stages] =
      GENERATE(table<std::string, std::size_t>({{"wan-tiny", 30}, {"wan-dual-tiny", 34}}));

  const auto reference = compared(load(name), name);

  CHECK(reference.errors().size() == stages);
  INFO(reference.worst()->stage);
  CHECK(reference.worst()->max_abs < 1e-4);
}

TEST_CASE("a narrower checkpoint ends near the reference") {
  const auto [type, tolerance] =
      GENERATE(table<at::ScalarType, double>({{at::kBFloat16, 1.6}, {at::kHalf, 0.2}}));
  const auto pipeline = load("wan-dual-tiny");
  convert(pipeline, type);

  const auto reference = compared(pipeline, "wan-dual-tiny");

  INFO(reference.worst()->stage);
  CHECK(reference.worst()->max_abs < tolerance);
}

TEST_CASE("a checkpoint may keep norms and modulation in float32 beside bfloat16") {
  const auto pipeline = load("wan-tiny");
  convert(pipeline, at::kBFloat16);
  for (const auto& parameter : pipeline.description().components[1].module->named_parameters()) {
    if (kept_in_f32(parameter.key())) {
      parameter.value().set_data(parameter.value().to(at::kFloat));
    }
  }

  const auto reference = compared(pipeline, "wan-tiny");

  INFO(reference.worst()->stage);
  CHECK(reference.worst()->max_abs < 1.6);
}

TEST_CASE("loading copies no weights") {
  const auto all = parameters(load("wan-tiny"));

  CHECK(all.size() > 200);
  CHECK(std::all_of(all.begin(), all.end(),
                    [](const at::Tensor& t) { return ferry::is_mapped(t.storage()); }));
}

TEST_CASE("blocks are where the plan says they are") {
  const ferry::torch_pipeline pipeline{load("wan-dual-tiny").description()};
  const auto [path, blocks] = GENERATE(table<std::string, std::size_t>(
      {{"text_encoder.encoder.block", 5}, {"transformer.blocks", 7}, {"transformer_2.blocks", 4}}));

  const auto list = ferry::find_node(pipeline.root(), path);

  REQUIRE(list);
  CHECK(list->is_list());
  CHECK(list->children().size() == blocks);
}

TEST_CASE("every component and block of every pass is called through its hooks") {
  const auto pipeline = load("wan-tiny");
  int calls = 0;
  count_calls(pipeline, calls);

  static_cast<void>(pipeline.run(short_request(), {}).value());

  CHECK(calls == 2 * (1 + 5) + 2 * 2 * (1 + 7) + 1);
}

TEST_CASE("without guidance the denoiser runs once a step and the encoder once") {
  const auto pipeline = load("wan-tiny");
  int calls = 0;
  count_calls(pipeline, calls);
  auto asked = short_request();
  asked.guidance = 1;

  static_cast<void>(pipeline.run(asked, {}).value());

  CHECK(calls == (1 + 5) + 2 * (1 + 7) + 1);
}

TEST_CASE("steps are told in pairs around what they compute") {
  std::vector<std::string> told;
  run_callbacks tell;
  tell.step_begins = [&](std::size_t index, std::size_t) {
    told.push_back("begin " + std::to_string(index));
  };
  tell.step_ended = [&](std::size_t index, std::size_t) {
    told.push_back("end " + std::to_string(index));
  };
  tell.stage = [&](std::string_view stage, const at::Tensor&) {
    if (stage.substr(0, 7) == "latents" || stage == "prompt_embeds") {
      told.emplace_back(stage);
    }
  };

  static_cast<void>(load("wan-tiny").run(short_request(), tell).value());

  CHECK(told == std::vector<std::string>{"prompt_embeds", "begin 0", "latents.0", "end 0",
                                         "begin 1", "latents.1", "end 1"});
}

TEST_CASE("a run ends with pictures, the last of its stages") {
  std::vector<std::string> told;
  run_callbacks tell;
  tell.stage = [&](std::string_view stage, const at::Tensor&) { told.emplace_back(stage); };

  const auto made = load("wan-tiny").run(short_request(), tell).value();

  CHECK(made.pictures.sizes() == at::IntArrayRef{1, 3, 32, 32});
  REQUIRE(told.size() > 2);
  CHECK(told[told.size() - 2] == "vae_input");
  CHECK(told.back() == "frames");
}

TEST_CASE("without a decoder a run ends with latents") {
  const pipeline_copy copy{"wan-tiny"};
  copy.change_json("model_index.json", [](nlohmann::json& index) { index.erase("vae"); });
  const auto pipeline = wan_pipeline::load(copy.path()).value();

  const auto made = pipeline.run(short_request(), {}).value();

  CHECK(made.latents.defined());
  CHECK(!made.pictures.defined());
  CHECK(pipeline.description().roles->vaes.empty());
}

TEST_CASE("the decoder is the pipeline's autoencoder") {
  const auto described = load("wan-tiny").description();

  CHECK(described.roles->vaes == std::vector<std::string>{"vae"});
  CHECK(described.components.back().name == "vae");
}

TEST_CASE("a request beyond the pipeline's limits is refused before anything runs") {
  const auto pipeline = load("wan-tiny");
  int calls = 0;
  count_calls(pipeline, calls);
  auto asked = short_request();
  asked.positive.ids[2] = 256;

  const auto done = pipeline.run(asked, {});

  REQUIRE(!done);
  CHECK(done.error().code == ferry::errc::invalid_argument);
  CHECK(calls == 0);
}

TEST_CASE("equal requests end in equal bytes") {
  const auto pipeline = load("wan-tiny");

  const auto first = pipeline.run(short_request(), {}).value().latents;
  const auto second = pipeline.run(short_request(), {}).value().latents;

  CHECK(at::equal(first, second));
}

TEST_CASE("padding counts by its length, not by its ids") {
  const auto pipeline = load("wan-tiny");
  auto padded = short_request();
  padded.positive.ids.resize(8);
  padded.positive.mask = {1, 1, 1, 0, 0, 0, 0, 0};
  auto other_padding = padded;
  other_padding.positive.ids.back() = 77;

  const auto latents = pipeline.run(padded, {}).value().latents;

  CHECK(at::equal(latents, pipeline.run(other_padding, {}).value().latents));
  CHECK(!at::equal(latents, pipeline.run(short_request(), {}).value().latents));
}

TEST_CASE("a warm-up runs every denoiser in as few steps as it can") {
  const auto name = GENERATE("wan-tiny", "wan-dual-tiny");
  const auto pipeline = load(name);
  const auto asked = pipeline.warm_up_request().value();
  std::set<std::string> reached;
  run_callbacks tell;
  tell.stage = [&](std::string_view stage, const at::Tensor&) {
    reached.emplace(stage.substr(0, stage.find('.')));
  };

  REQUIRE(pipeline.run(asked, tell));

  CHECK(reached.contains("frames"));
  CHECK(reached.contains("transformer_block"));
  CHECK(reached.contains("transformer_2_block") == (std::string(name) == "wan-dual-tiny"));
  CHECK((asked.steps == 1) == (std::string(name) == "wan-tiny"));
}
