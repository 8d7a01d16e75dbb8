// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/torch/lora.hpp>
#include <ferry/torch/mapped_tensor.hpp>

#include "field_cases/torch/streamed.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ferry {
namespace {

using namespace test;

constexpr std::int64_t rank = 2;
constexpr double scale = 0.75;

at::Tensor down(int block) {
  return values({rank, width}, 60 + block);
}

at::Tensor up(int block) {
  return values({width, rank}, 70 + block);
}

/// Touches the matrix of every block.
lora_adapter style() {
  lora_adapter made{.name = "style", .scale = scale, .deltas = {}};
  for (int i = 0; i != 4; ++i)
    made.deltas.push_back({"blocks." + std::to_string(i) + ".matrix", down(i), up(i)});
  return made;
}

/// Touches the same matrices with factors of four times the rank.
lora_adapter wide_style() {
  lora_adapter made{.name = "wide style", .scale = scale, .deltas = {}};
  for (int i = 0; i != 4; ++i)
    made.deltas.push_back({"blocks." + std::to_string(i) + ".matrix",
                           values({4 * rank, width}, 80 + i), values({width, 4 * rank}, 90 + i)});
  return made;
}

/// Returns what the toy makes with everything resident and an adapter merged by hand.
at::Tensor merged_by_hand(const lora_adapter& adapter = style()) {
  toy model;
  {
    const at::NoGradGuard no_gradients;
    for (std::size_t i = 0; i != adapter.deltas.size(); ++i)
      model.block_at<toy_block>(i).matrix.add_(
          at::matmul(adapter.deltas[i].up, adapter.deltas[i].down), scale);
  }
  return streamed(model, simulated()).resident();
}

TEST_CASE("an adapter that is merged and taken out while blocks are parked gives the bits of doing "
          "so without offload",
          "[field_cases][B44]") {
  const auto* name = GENERATE("sim", "host");
  CAPTURE(name);
  toy model;
  streamed run(model, device_called(name));
  REQUIRE(run.enable());
  lora_adapters adapters(run.control(), "transformer");
  CHECK(run.bit_equal());

  REQUIRE(adapters.add(style()));
  CHECK(same_bytes(run.request(), merged_by_hand()));
  REQUIRE(adapters.remove("style"));

  CHECK(run.bit_equal());
  REQUIRE(run.disable());
  CHECK(run.ordinary());
}

TEST_CASE("an adapter has the same effect however many blocks are resident", "[field_cases][B47]") {
  const auto expected = merged_by_hand();
  for (const auto layers : {0, 1, 2, 4}) {
    CAPTURE(layers);
    toy model;
    model.plan.resident_dit_paths = {"transformer"};
    streamed run(model, simulated());
    REQUIRE(run.enable(compact(
        R"({"mode":"layer","components":["dit"],"layer_options":{"dit":{"resident_layers":)" +
        std::to_string(layers) + "}}}")));
    lora_adapters adapters(run.control(), "transformer");

    REQUIRE(adapters.add(style()));

    CHECK(same_bytes(run.request(), expected));
  }
}

TEST_CASE("an adapter of another rank takes the place of one without a new master",
          "[field_cases][B46]") {
  toy model;
  streamed run(model, simulated());
  REQUIRE(run.enable());
  lora_adapters adapters(run.control(), "transformer");
  const auto before = run.counters();
  REQUIRE(adapters.add(style()));
  CHECK(same_bytes(run.request(), merged_by_hand()));

  REQUIRE(adapters.remove("style"));
  REQUIRE(adapters.add(wide_style()));

  CHECK(same_bytes(run.request(), merged_by_hand(wide_style())));
  CHECK(run.counters().pinned_bytes == before.pinned_bytes);
  CHECK(run.counters().allocations == before.allocations);
}

TEST_CASE("an adapter is still there after its component has left the device",
          "[field_cases][B49]") {
  toy model;
  streamed run(model, simulated());
  REQUIRE(run.enable(compact(R"({"mode":"module","components":["dit","text_encoder"]})")));
  lora_adapters adapters(run.control(), "transformer");
  REQUIRE(run.control().stage_in("transformer"));

  REQUIRE(adapters.add(style()));
  const auto first = run.request();
  REQUIRE_FALSE(run.state().components.at("transformer").on_device);
  const auto second = run.request();

  CHECK(same_bytes(first, merged_by_hand()));
  CHECK(same_bytes(second, first));
}

TEST_CASE("weights that lie in a mapped file are replaced while they are streamed from it",
          "[field_cases][B50]") {
  const auto* name = GENERATE("sim", "host");
  CAPTURE(name);
  toy model;
  std::vector<at::Tensor> files;
  for (int i = 0; i != 4; ++i) {
    auto& matrix = model.block_at<toy_block>(static_cast<std::size_t>(i)).matrix;
    const at::NoGradGuard no_gradients;
    const auto file = std::make_shared<at::Tensor>(matrix.clone());
    const const_bytes bytes{static_cast<const std::byte*>(file->data_ptr()), file->nbytes()};
    matrix.set_data(tensor_over(file, bytes, dtype::f32, {width, width}));
    files.push_back(*file);
  }
  streamed run(model, device_called(name));
  auto config = compact(dit_only);
  config.pin_memory = false;
  REQUIRE(run.enable(config));
  lora_adapters adapters(run.control(), "transformer");

  REQUIRE(adapters.add(style()));

  CHECK(same_bytes(run.request(), merged_by_hand()));
  for (int i = 0; i != 4; ++i)
    CHECK(same_bytes(files[static_cast<std::size_t>(i)], values({width, width}, i)));
  REQUIRE(adapters.remove("style"));
  CHECK(run.bit_equal());
  REQUIRE(run.disable());
  CHECK(run.ordinary());
}

TEST_CASE("a state that is read while blocks are parked is that of the checkpoint",
          "[field_cases][B57]") {
  toy model;
  streamed run(model, simulated());
  REQUIRE(run.enable());

  const auto state = run.control().read_weights("transformer", {});
  REQUIRE(run.disable());

  REQUIRE(state);
  std::map<std::string, at::Tensor> weights;
  for (const auto& each : model.transformer->named_parameters())
    weights.emplace(each.key(), each.value());
  for (const auto& each : model.transformer->named_buffers())
    weights.emplace(each.key(), each.value());
  CHECK(state->values.size() == weights.size());
  for (const auto& each : state->values) {
    CAPTURE(each.name);
    CHECK(same_bytes(tensor_over(each.owner, each.bytes, each.type, each.shape),
                     weights.at(each.name)));
  }
}

TEST_CASE("a tensor that a block gets after enable has its data after every disable",
          "[field_cases][B54]") {
  toy model;
  streamed run(model, simulated());
  REQUIRE(run.enable());
  const auto extra = values({width}, 99);
  auto& block = model.block_at<toy_block>(1);

  const auto late = block.register_buffer("extra", extra.clone());
  const auto refused = run.control().read_weights("transformer", {"blocks.1.extra"});
  REQUIRE(run.disable());

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unsupported);
  CHECK(same_bytes(late, extra));
  REQUIRE(run.enable());
  CHECK(run.control().read_weights("transformer", {"blocks.1.extra"}));
  CHECK(run.bit_equal());
  REQUIRE(run.disable());
  CHECK(same_bytes(late, extra));
}

} // namespace
} // namespace ferry
