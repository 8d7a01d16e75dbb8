// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/wait_edges.hpp>
#include <ferry/platform/host_device.hpp>
#include <ferry/platform/mapped_file.hpp>

#include "streaming_run.hpp"
#include "support/edges.hpp"
#include "support/fake_pipeline.hpp"
#include "support/resolution.hpp"
#include "support/scratch_directory.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {
namespace {

using test::borrowed;
using test::byte_blocks;
using test::fake_module;
using test::speeds;
using test::streaming_run;

/// The blocks' bytes in files, mapped.
class mapped_store {
public:
  explicit mapped_store(const byte_blocks& blocks)
      : weights_(std::make_shared<bare_weights>(*blocks.weights())) {
    for (std::size_t i = 0; i != blocks.size(); ++i) {
      const auto source = weights_->blocks[i]->segments().front().source;
      const std::string_view text{reinterpret_cast<const char*>(source.data()), source.size()};
      files_.push_back(
          std::make_unique<mapped_file>(directory_.write("block" + std::to_string(i), text)));
      const std::array originals{files_.back()->bytes()};
      const std::array kinds{memory_kind::mapped};
      weights_->blocks[i] = std::make_shared<host_master>(
          host_master::kept(weights_->plan.blocks[i].layout, originals, kinds));
    }
  }

  [[nodiscard]] const std::shared_ptr<bare_weights>& weights() const noexcept { return weights_; }

private:
  test::scratch_directory directory_;
  std::vector<std::unique_ptr<mapped_file>> files_;
  std::shared_ptr<bare_weights> weights_;
};

TEST_CASE("compute waits for the copy from memory and for the copy from a file",
          "[field_cases][B05]") {
  const auto kind = GENERATE(memory_kind::pinned, memory_kind::pageable, memory_kind::mapped);
  const byte_blocks blocks{{4}, 0};
  const mapped_store files{blocks};
  auto two_steps = [&](sim_device& gpu) {
    const auto from = kind == memory_kind::pinned     ? blocks.pinned(gpu)
                      : kind == memory_kind::pageable ? blocks.weights()
                                                      : files.weights();
    streaming_run run{borrowed(gpu), from, 2};
    return run.request(blocks, {0, 1, 2, 3, 0, 1, 2, 3});
  };
  const auto options = speeds{.slow_copy = true}.options();

  const auto whole = test::run_without_edge(options, "", two_steps);
  const auto loose = test::run_without_edge(options, compute_waits_fetch.name, two_steps);

  CHECK(whole.right);
  CHECK(whole.races.empty());
  CHECK(loose.caught());
}

TEST_CASE("on the host device blocks are right from memory and from files", "[field_cases][B05]") {
  const auto mapped = GENERATE(false, true);
  const byte_blocks blocks{{6}, 0};
  const mapped_store files{blocks};
  const auto machine = std::make_shared<host_device>(host_device_options{.memory = 1 << 20});
  streaming_run run{machine, mapped ? files.weights() : blocks.weights(), 2};

  REQUIRE(run.subject().begin_request());
  CHECK(blocks.run_all(run.gate(), 30));
  CHECK(run.subject().end_request());
}

/// A denoiser with loose parameters before and behind its blocks, among them a norm that may have
/// none.
std::shared_ptr<test::fake_pipeline> with_norm(bool affine) {
  auto norm = test::node("test.norm");
  if (affine)
    norm->parameter("scale", test::tensor({8}, dtype::f32, 77));
  auto dit = test::node("test.dit")
                 ->parameter("proj", test::tensor({16}, dtype::f32, 71))
                 ->child("blocks", test::blocks(3))
                 ->child("norm", norm)
                 ->parameter("out", test::tensor({16}, dtype::f32, 79));
  auto made = std::make_shared<test::fake_pipeline>(
      test::node("test.root")->child("transformer", std::move(dit)));
  made->declare({.dits = {"transformer"}}).plan({.block_attrs = {{"transformer", {"blocks"}}}});
  return made;
}

bool holds(const fake_module& module, std::string_view name, unsigned char fill) {
  const auto seen = module.own_tensors().at(std::string{name})->bytes();
  return std::ranges::all_of(seen, [&](std::byte each) { return each == std::byte{fill}; });
}

TEST_CASE("loose parameters beside the blocks are waited for, with a norm among them or without",
          "[field_cases][B06]") {
  const auto affine = GENERATE(false, true);
  auto one_pass = [&](sim_device& gpu) {
    const auto model = with_norm(affine);
    runtime subject{borrowed(gpu), {.acquire_deadline = std::chrono::seconds{5}}};
    if (!subject.start() || !subject.enable(model, test::compact(test::dit_only)))
      return false;
    const auto dit = model->tree()->at("transformer");
    auto right = holds(*dit, "proj", 71);
    for (unsigned char i = 0; i != 3; ++i)
      model->call("transformer.blocks." + std::to_string(i),
                  [&](fake_module& block) { right = holds(block, "weight", 1 + i) && right; });
    right = (!affine || holds(*dit->at("norm"), "scale", 77)) && right;
    right = holds(*dit, "out", 79) && right;
    return subject.disable() && right;
  };
  const auto options = speeds{.slow_copy = true}.options();

  const auto whole = test::run_without_edge(options, "", one_pass);
  const auto loose = test::run_without_edge(options, compute_waits_resident_load.name, one_pass);

  CHECK(whole.right);
  CHECK(whole.races.empty());
  CHECK(loose.caught());
}

TEST_CASE("the bits do not depend on which of copy and compute is slow, nor on the slots",
          "[field_cases][B07]") {
  const auto slow =
      GENERATE(speeds{false, false}, speeds{true, false}, speeds{false, true}, speeds{true, true});
  const auto slots = GENERATE(std::size_t{2}, std::size_t{3}, std::size_t{4});
  const byte_blocks blocks{{6}, 1};
  auto steps = [&](sim_device& gpu) {
    streaming_run run{borrowed(gpu), blocks.pinned(gpu), slots};
    const auto right = run.request(blocks, {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5});
    return run.subject().disable() && right;
  };

  const auto shown = test::run_without_edge(slow.options(), "", steps);

  CHECK(shown.right);
  CHECK(shown.races.empty());
}

} // namespace
} // namespace ferry
