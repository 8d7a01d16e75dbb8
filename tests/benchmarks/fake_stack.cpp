// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "fake_stack.hpp"

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/config_legacy.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/sim_device.hpp>

#include "bare_stack.hpp"
#include "block_ends.hpp"

#include <cmath>
#include <utility>

namespace ferry::bench {

std::size_t scaled(double bytes) {
  return static_cast<std::size_t>(std::llround(bytes / scale / memory_alignment)) *
         memory_alignment;
}

std::shared_ptr<test::fake_pipeline> pipeline_of(const fake_stack& stack) {
  std::vector<test::fake_node> blocks;
  for (const auto bytes : stack.bytes)
    blocks.push_back(test::block(static_cast<std::int64_t>(bytes / sizeof(float))));
  auto made = std::make_shared<test::fake_pipeline>(test::node("root")->child(
      "transformer", test::node("dit")->child("blocks", test::list(std::move(blocks)))));
  made->declare({.dits = {"transformer"}})
      .plan({.block_attrs = {{"transformer", {"blocks"}}}, .resident_dit_paths = {"transformer"}});
  return made;
}

double last_step(const fake_stack& stack, const std::string& compact, std::size_t steps) {
  sim_options device;
  device.h2d_bandwidth = stack.link;
  device.compute = stack.compute;
  block_ends ends;
  const auto sim = std::make_shared<sim_device>(device);
  sim->attach(ends);
  const auto subject = pipeline_of(stack);
  std::size_t streamed = 0;
  {
    runtime through(sim, {});
    checked(through.start());
    checked(through.enable(subject, checked(resolve_config(compact, {})).config));
    const auto state = checked(through.state()).components.at("transformer");
    streamed = state.blocks - state.resident_blocks;
    checked(through.begin_request({.steps = static_cast<std::uint32_t>(steps)}));
    for (std::size_t step = 0; step != steps; ++step)
      for (std::size_t i = 0; i != stack.bytes.size(); ++i)
        subject->call("transformer.blocks." + std::to_string(i), [](test::fake_module&) {});
    checked(through.end_request());
    checked(through.disable());
  }
  sim->detach(ends);
  if (sim->race_count() > 0)
    throw ferry_error({.code = errc::internal, .detail = "the simulated device saw a race"});
  const auto last = streamed * steps - 1;
  return ends[last] - ends[last - streamed];
}

} // namespace ferry::bench
