// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "model_shapes.hpp"

#include <ferry/platform/sim_device.hpp>

#include "bare_stack.hpp"
#include "block_ends.hpp"
#include "boundless_sim.hpp"

#include <cmath>
#include <memory>

namespace ferry::bench {

namespace {

std::vector<double> repeated(std::size_t count, double value, std::size_t more = 0,
                             double other = 0) {
  std::vector<double> values(count, value);
  values.insert(values.end(), more, other);
  return values;
}

std::size_t bytes_of(double megabytes) {
  return static_cast<std::size_t>(std::llround(megabytes * 1e6));
}

void run_all(bare_stack& stack, std::size_t passes) {
  for (std::size_t i = 0; i != stack.blocks(); ++i) {
    const auto block = static_cast<block_id>(i);
    static_cast<void>(stack.gate().acquire(block));
    for (std::size_t pass = 1; pass != passes; ++pass)
      stack.gate().again(block);
    stack.gate().release(block);
  }
}

} // namespace

const std::array<model_shape, 4>& model_shapes() {
  static const std::array shapes = {
      model_shape{"wan", repeated(40, 702.8)},
      model_shape{"flux", repeated(19, 679.7, 38, 283.2)},
      model_shape{"hunyuan", repeated(20, 679.7, 40, 283.2)},
      model_shape{"qwen", repeated(60, 679.7)},
  };
  return shapes;
}

std::vector<block_cost> costs_of(const model_shape& streamed, double ratio) {
  std::vector<block_cost> costs;
  for (const double megabytes : streamed.megabytes) {
    const auto seconds = static_cast<double>(bytes_of(megabytes)) / shapes_link;
    costs.push_back({.compute = nanoseconds{std::llround(ratio * seconds * 1e9)},
                     .pieces = {{.copy = nanoseconds{std::llround(seconds * 1e9)}, .gather = {}}}});
  }
  return costs;
}

double measured_step(const model_shape& streamed, const std::vector<block_cost>& costs,
                     const schedule_options& how, int steps) {
  auto options = boundless_sim(shapes_link);
  std::vector<std::size_t> sizes;
  for (const double megabytes : streamed.megabytes)
    sizes.push_back(bytes_of(megabytes));
  for (const auto& each : costs)
    options.block_compute.push_back(each.compute);
  block_ends ends;
  const auto sim = std::make_shared<sim_device>(options);
  sim->attach(ends);
  {
    bare_stack stack(sim, std::array{sizes}, host_weights::addresses, {.slots = how.slots});
    checked(stack.through().begin_request());
    for (int step = 0; step < steps; ++step)
      run_all(stack, how.passes);
    checked(stack.through().end_request());
  }
  sim->detach(ends);
  if (sim->race_count() > 0)
    throw ferry_error({.code = errc::internal, .detail = "the simulated device saw a race"});
  const auto uses = sizes.size() * static_cast<std::size_t>(steps);
  return ends[uses - 1] - ends[uses - 1 - sizes.size()];
}

} // namespace ferry::bench
