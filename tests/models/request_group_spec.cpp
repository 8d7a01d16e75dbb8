// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/request_group.hpp"

#include <ferry/torch/call.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "models/diffusion_model.hpp"
#include "models/load_model.hpp"
#include "pipeline_copy.hpp"
#include "torch/catch.hpp"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using ferry::diffusion_model;
using ferry::group_options;
using ferry::grouped_request;
using ferry::request;
using ferry::test::golden;

std::unique_ptr<diffusion_model> load(const std::string& name) {
  return ferry::load_model(golden(name)).value();
}

/// Three requests of unlike prompts, sizes, guidance and numbers of steps.
std::vector<grouped_request> three_requests(const diffusion_model& model) {
  std::vector<grouped_request> all(3);
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto& asked = all[i].asked;
    asked = model.defaults();
    asked.positive.ids.resize(2 + i, 7);
    asked.seed = i;
    asked.steps = static_cast<std::int64_t>(3 - i);
    asked.width = i == 1 ? 64 : 32;
    asked.height = 32;
    asked.frames = 1;
    asked.guidance = i == 2 ? 1.0 : 3.0;
  }
  return all;
}

bool same(const grouped_request& a, const grouped_request& b) {
  return a.made && b.made && at::equal(a.made->latents, b.made->latents) &&
         at::equal(a.made->pictures, b.made->pictures);
}

/// Returns the requests as each ends by itself, pass by pass.
std::vector<grouped_request> apart(const diffusion_model& model, std::vector<grouped_request> all) {
  for (auto& each : all) {
    model.run_together({&each, 1}, {.passes_per_fetch = 1});
  }
  return all;
}

std::string reason_of(const grouped_request& ended) {
  try {
    std::rethrow_exception(ended.failed);
  } catch (const std::exception& reason) {
    return reason.what();
  }
}

struct counting_hook : ferry::hook {
  explicit counting_hook(int& calls) : calls_{&calls} {}
  void pre_forward(const ferry::hook_call&, ferry::tensor_refs) override { ++*calls_; }
  int* calls_;
};

/// Puts a hook on the module at `path` of a component.
void add_hook(const diffusion_model& model, const std::string& component, const std::string& path,
              const std::shared_ptr<ferry::hook>& added) {
  for (const auto& each : model.description().components) {
    if (each.name != component) {
      continue;
    }
    const auto module = path.empty() ? each.module : each.module->named_modules()[path];
    const auto* hooks = dynamic_cast<const ferry::hookable*>(module.get());
    REQUIRE(hooks != nullptr);
    hooks->hooks().add(*module, "test", added);
  }
}

} // namespace

TEST_CASE("requests that share passes end in the bytes that each ends in alone, pass by pass") {
  const std::string name = GENERATE("wan-tiny", "wan-dual-tiny", "flux-tiny");
  const std::size_t passes = GENERATE(1, 2, 3, 64);
  CAPTURE(name, passes);
  const auto model = load(name);
  auto group = three_requests(*model);
  const auto alone = apart(*model, group);

  model->run_together(group, {.passes_per_fetch = passes});

  CHECK(std::ranges::equal(group, alone, same));
}

TEST_CASE("a block is held once for all passes of a step, each of which its hooks see") {
  struct holding_hook : ferry::hook {
    void hold(const torch::nn::Module&) override { seen += "("; }
    void let_go(const torch::nn::Module&) noexcept override { seen += ")"; }
    void pre_forward(const ferry::hook_call&, ferry::tensor_refs) override { seen += "."; }
    std::string seen;
  };
  const auto [passes, expected] = GENERATE(table<std::size_t, std::string>(
      {{1, "(.)(.)(.)(.)(.)"}, {2, "(..)(..)(.)"}, {4, "(....)(.)"}, {8, "(.....)"}}));
  const auto model = load("wan-tiny");
  const auto hook = std::make_shared<holding_hook>();
  add_hook(*model, "transformer", "blocks.3", hook);
  auto group = three_requests(*model); // With two passes, two and one.
  for (auto& each : group) {
    each.asked.steps = 1;
  }

  model->run_together(group, {.passes_per_fetch = passes});

  CHECK(hook->seen == expected);
}

TEST_CASE("a group takes as many steps as its longest request") {
  const auto model = load("wan-tiny");
  auto group = three_requests(*model);
  std::string told;
  for (std::size_t i = 0; i < group.size(); ++i) {
    group[i].tell.step_begins = [&told, i](std::size_t, std::size_t) { told += std::to_string(i); };
  }

  model->run_together(group,
                      {.step_begins = [&] { told += "("; }, .step_ended = [&] { told += ")"; }});

  CHECK(told == "(012)(01)(0)");
}

TEST_CASE("a request that throws, or is cancelled, leaves the group, and the others end as alone") {
  const std::string name = GENERATE("wan-tiny", "flux-tiny");
  const std::string where = GENERATE("step_begins", "block", "stage", "step_ended");
  CAPTURE(name, where);
  const auto model = load(name);
  auto group = three_requests(*model);
  const auto alone = apart(*model, group);
  auto& tell = group[1].tell;
  const auto leave = [] { throw std::runtime_error("leaves"); };
  if (where == "step_begins") {
    tell.step_begins = [&](std::size_t, std::size_t) { leave(); };
  } else if (where == "step_ended") {
    tell.step_ended = [&](std::size_t, std::size_t) { leave(); };
  } else {
    const auto* list = name == "wan-tiny" ? "transformer_block.3.0" : "double_block.1.1";
    tell.stage = [&, stage = std::string(where == "block" ? list : "noise.0")](
                     std::string_view each, const at::Tensor&) {
      if (each == stage) {
        leave();
      }
    };
  }

  model->run_together(group, {});

  CHECK_FALSE(group[1].made);
  CHECK(reason_of(group[1]) == "leaves");
  CHECK(same(group[0], alone[0]));
  CHECK(same(group[2], alone[2]));
}

TEST_CASE("a request that the model cannot run fails alone") {
  const auto model = load("wan-tiny");
  auto group = three_requests(*model);
  group[0].asked.steps = 0;

  model->run_together(group, {});

  CHECK(reason_of(group[0]).find("steps is 0") != std::string::npos);
  CHECK(group[1].made);
  CHECK(group[2].made);
}

TEST_CASE("what is thrown for the group ends the run of all") {
  const auto model = load("wan-tiny");
  auto group = three_requests(*model);

  CHECK_THROWS_WITH(
      model->run_together(group, {.step_begins = [] { throw std::runtime_error("stop"); }}),
      "stop");
}

TEST_CASE("a request that skips a block is left out of its calls, and one that all skip is not "
          "brought in") {
  const std::string name = GENERATE("wan-tiny", "flux-tiny");
  CAPTURE(name);
  const auto model = load(name);
  auto group = three_requests(*model);
  for (auto& each : group) {
    each.asked.steps = 1;
  }
  const auto skipping = [](std::size_t first) {
    return [first](std::size_t, std::size_t block) { return block == first || block == 1; };
  };
  group[0].tell.skips_block = skipping(0);
  group[1].tell.skips_block = skipping(2);
  group[2].tell.skips_block = skipping(2);
  const auto alone = apart(*model, group);
  const auto unskipped = apart(*model, [&] {
    auto all = three_requests(*model);
    for (auto& each : all) {
      each.asked.steps = 1;
    }
    return all;
  }());
  std::vector<int> calls(3);
  const std::string list = name == "wan-tiny" ? "blocks." : "transformer_blocks.";
  struct refusing_hold : ferry::hook {
    void hold(const torch::nn::Module&) override { throw std::runtime_error("brought in"); }
  };
  add_hook(*model, "transformer", list + "0", std::make_shared<counting_hook>(calls[0]));
  add_hook(*model, "transformer", list + "1", std::make_shared<refusing_hold>());

  model->run_together(group, {});

  CHECK(std::ranges::equal(group, alone, same));
  CHECK_FALSE(same(group[0], unskipped[0]));
  CHECK(calls[0] == (name == "wan-tiny" ? 3 : 2)); // Of five passes and three.
}

TEST_CASE("weights that do not come fail all passes that wait for them") {
  struct refusing_hold : ferry::hook {
    void hold(const torch::nn::Module&) override { throw std::runtime_error("no weights"); }
  };
  const auto model = load("wan-tiny");
  auto group = three_requests(*model);
  add_hook(*model, "transformer", "blocks.2", std::make_shared<refusing_hold>());

  model->run_together(group, {});

  for (const auto& each : group) {
    CHECK(reason_of(each) == "no weights");
  }
}

TEST_CASE("a hook that replaces the denoiser's forward has each pass as a whole") {
  struct step_cache : ferry::forward_replacement<at::Tensor> {
    at::Tensor forward(const ferry::hook_call&, ferry::tensor_refs arguments,
                       const std::function<at::Tensor()>& original) override {
      ++calls;
      CHECK(arguments.size() == 2); // Latents and text.
      return original();
    }
    int calls = 0;
  };
  const auto model = load("wan-tiny");
  auto group = three_requests(*model);
  const auto alone = apart(*model, group);
  const auto cache = std::make_shared<step_cache>();
  add_hook(*model, "transformer", "", cache);

  model->run_together(group, {});

  CHECK(cache->calls == 2 * 3 + 2 * 2 + 1);
  CHECK(std::ranges::equal(group, alone, same));
}
