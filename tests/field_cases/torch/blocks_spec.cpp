// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "field_cases/torch/streamed.hpp"

#include <malloc.h>

#include <filesystem>
#include <iterator>
#include <optional>
#include <thread>

namespace ferry {
namespace {

using namespace test;

/// Uses the weight of a layer that it never calls.
struct borrowing_block : block {
  explicit borrowing_block(int seed) {
    inner = register_module("inner", std::make_shared<linear_block>(seed));
  }
  at::Tensor forward(const at::Tensor& x) override { return at::matmul(x, inner->weight); }

  std::shared_ptr<linear_block> inner;
};

/// A transposed weight, a bias that ends off every boundary, an 8-bit matrix behind it; remembers
/// how they lay when it ran.
struct awkward_block : block {
  explicit awkward_block(int seed) {
    weight = register_parameter("weight", values({width, width}, seed).t(), false);
    bias = register_parameter("bias", values({3}, seed + 1));
    const auto small = values({width, width}, seed).to(at::kFloat8_e4m3fn);
    matrix = register_parameter("matrix", small, false);
  }
  at::Tensor forward(const at::Tensor& x) override {
    strides = weight.strides().vec();
    for (const auto* each : {&weight, &bias, &matrix})
      misaligned += reinterpret_cast<std::uintptr_t>(each->data_ptr()) % 256;
    return at::tanh(at::matmul(at::matmul(x, weight), matrix.to(at::kFloat)) + bias.sum());
  }

  at::Tensor weight, bias, matrix;
  std::vector<std::int64_t> strides;
  std::size_t misaligned = 0;
};

/// Works on the first `size` features, in whatever types its weights are.
struct typed_block : block {
  typed_block(int seed, std::int64_t features, at::ScalarType matrix_type,
              at::ScalarType scale_type)
      : size(features) {
    matrix = register_parameter("matrix", values({size, size}, seed).to(matrix_type), false);
    scale = register_parameter("scale", values({size}, seed + 1).to(scale_type), false);
  }
  at::Tensor forward(const at::Tensor& x) override {
    const auto part = x.narrow(-1, 0, size);
    const auto changed = at::tanh(at::matmul(part, matrix.to(at::kFloat)) * scale.to(at::kFloat));
    return at::cat({changed, x.narrow(-1, size, width - size)}, -1);
  }

  std::int64_t size;
  at::Tensor matrix, scale;
};

/// Remembers of which types its tensors were when it ran.
struct three_type_block : block {
  explicit three_type_block(int seed) {
    matrix = register_parameter("matrix", values({width, width}, seed).to(at::kBFloat16), false);
    table = register_parameter("table", values({2, width}, seed + 1));
    order = register_buffer("order", (at::arange(width) * 3 + seed) % width);
  }
  at::Tensor forward(const at::Tensor& x) override {
    types = {matrix.scalar_type(), table.scalar_type(), order.scalar_type()};
    const auto mixed = at::matmul(x.index_select(-1, order).to(at::kBFloat16), matrix);
    return at::tanh(mixed.to(at::kFloat) * table[0] + table[1]);
  }

  at::Tensor matrix, table, order;
  std::vector<at::ScalarType> types;
};

TEST_CASE("buffers of both kinds follow their block and come back", "[field_cases][B30]") {
  toy model;
  streamed run(model, device_called(GENERATE("sim", "host")));

  REQUIRE(run.enable(compact(dit_only)));
  CHECK(run.bit_equal());
  // A matrix of 1024 bytes; bias, scale and the two buffers in 256 bytes each.
  CHECK(run.state().components.at("transformer").largest_block_bytes == 1024 + 4 * 256);
  CHECK_THROWS_WITH(model.block_at<toy_block>(1).mask.sum(),
                    Catch::Contains("block 'transformer.blocks.1' is not on the device"));
  REQUIRE(run.disable());

  CHECK(run.ordinary());
}

TEST_CASE("a weight that is used without calling its owner is on the device with its block",
          "[field_cases][B31]") {
  toy model({"blocks"});
  for (int i = 0; i != 4; ++i)
    model.add<borrowing_block>(0, i);
  streamed run(model, device_called(GENERATE("sim", "host")));

  REQUIRE(run.enable());

  CHECK(run.bit_equal());
}

TEST_CASE("strides and alignment survive in a slot, whatever precedes a tensor",
          "[field_cases][B36]") {
  toy model({"blocks"});
  for (int i = 0; i != 3; ++i)
    model.add<awkward_block>(0, i);
  streamed run(model, device_called(GENERATE("sim", "host")));
  REQUIRE(run.enable());
  auto& middle = model.block_at<awkward_block>(1);
  middle.misaligned = 0;

  CHECK(run.bit_equal());

  CHECK(middle.strides == std::vector<std::int64_t>{1, width});
  CHECK(middle.misaligned == 0);
  REQUIRE(run.disable());
  CHECK(middle.weight.strides() == at::IntArrayRef({1, width}));
  CHECK(run.ordinary());
}

TEST_CASE("blocks of different types and widths share slots of the largest", "[field_cases][B38]") {
  toy model({"blocks"});
  model.add<typed_block>(0, 0, width, at::kFloat, at::kBFloat16);
  model.add<typed_block>(0, 1, width, at::kBFloat16, at::kBFloat16);
  model.add<typed_block>(0, 2, width, at::kFloat8_e4m3fn, at::kFloat);
  model.add<typed_block>(0, 3, width / 2, at::kFloat, at::kFloat);
  streamed run(model, device_called(GENERATE("sim", "host")));

  REQUIRE(run.enable(compact(dit_only)));

  CHECK(run.bit_equal());
  const auto state = run.state();
  CHECK(state.slot_bytes == 1024 + 256);
  CHECK(run.counters().peak_device_bytes == state.resident_bytes + 2 * state.slot_bytes);
}

TEST_CASE("a block of three types keeps them and comes in one copy", "[field_cases][B39]") {
  toy model({"blocks"});
  for (int i = 0; i != 3; ++i)
    model.add<three_type_block>(0, i);
  streamed run(model, simulated());
  REQUIRE(run.enable(compact(dit_only)));
  CHECK(run.bit_equal());
  const auto before = run.counters();
  const auto fetched = run.state().prefetches + run.state().blocking_loads;

  CHECK(run.bit_equal());

  CHECK(model.block_at<three_type_block>(2).types ==
        std::vector<at::ScalarType>{at::kBFloat16, at::kFloat, at::kLong});
  CHECK(run.counters().copies - before.copies ==
        run.state().prefetches + run.state().blocking_loads - fetched);
}

/// What a process holds, beside device memory.
struct footprint {
  static footprint now(const device_counters& device) {
    const auto heap = mallinfo2();
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return {.host_bytes = heap.uordblks + heap.hblkhd,
            .threads = std::distance(begin(tasks), end(tasks)),
            .streams = device.streams,
            .events = device.events};
  }

  std::size_t host_bytes;
  std::ptrdiff_t threads;
  std::uint32_t streams;
  std::uint32_t events;
};

TEST_CASE("a model is served in inference mode and outside it, wherever made, from any thread",
          "[field_cases][B62]") {
  const auto made_in_inference_mode = GENERATE(false, true);
  CAPTURE(made_in_inference_mode);
  std::optional<toy> model;
  {
    const c10::InferenceMode mode(made_in_inference_mode);
    model.emplace();
  }
  streamed run(*model, simulated());
  const auto alone = [&] {
    const at::NoGradGuard no_gradients;
    return call(*model->transformer, values({tokens, width}, 42), values({tokens, width}, 40));
  };
  const auto expected = [&] {
    torch_pipeline described(model->description());
    const resident_weights everything(described);
    return alone();
  }();

  REQUIRE(run.enable());
  CHECK(run.bit_equal());
  CHECK(same_bytes(alone(), expected));
  auto elsewhere = false;
  std::thread([&] { elsewhere = run.bit_equal() && same_bytes(alone(), expected); }).join();
  CHECK(elsewhere);
  REQUIRE(run.disable());

  CHECK(run.ordinary());
  CHECK(model->transformer->pos.is_inference() == made_in_inference_mode);
}

TEST_CASE("a hundred cycles leave no more memory and no more threads than ten",
          "[field_cases][cycles]") {
  toy model;
  streamed run(model, device_called("host"));
  auto cycles = [&run](int count) {
    for (int i = 0; i != count; ++i) {
      REQUIRE(run.enable());
      REQUIRE(run.bit_equal());
      REQUIRE(run.disable());
      REQUIRE(run.ordinary());
    }
    return footprint::now(run.counters());
  };

  const auto early = cycles(10);
  const auto late = cycles(90);

  // The actor framework remembers the deadline of an answered request until it passes: less than
  // 2 KiB a cycle. A single block has as much.
  constexpr std::size_t allowance = std::size_t{90} * 2560;
  CHECK(late.host_bytes < early.host_bytes + allowance);
  CHECK(late.threads == early.threads);
  CHECK(late.streams == early.streams);
  CHECK(late.events == early.events);
}

} // namespace
} // namespace ferry
