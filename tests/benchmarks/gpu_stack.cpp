// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "gpu_stack.hpp"

#include "goal.hpp"
#include "gpu/kernels.hpp"
#include "steady_seconds.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

namespace ferry::bench {

namespace {

using steady = std::chrono::steady_clock;

constexpr wait_edge measured{"measured"};

double seconds_since(steady::time_point started) {
  return std::chrono::duration<double>(steady::now() - started).count();
}

} // namespace

gpu_stack::gpu_stack(std::shared_ptr<cuda_device> gpu, const shape& how)
    : gpu_(std::move(gpu)), how_(how), callers_(std::make_shared<test::model_streams>(*gpu_, 1)),
      streamed_(gpu_, std::array{std::vector<std::size_t>(how.blocks, how.bytes)},
                host_weights::addresses, {.slots = how.slots, .callers = callers_}),
      beside_(*gpu_, "beside"), sink_(*gpu_, memory_kind::device, memory_alignment),
      landing_(*gpu_, memory_kind::device, 2 * how.bytes) {
  if (how.resident)
    resident_ = memory_block(*gpu_, memory_kind::device, how.blocks * how.bytes);
}

double gpu_stack::timed(const std::function<void()>& enqueue) {
  callers_->synchronize();
  const auto started = steady::now();
  enqueue();
  callers_->synchronize();
  return seconds_since(started);
}

void gpu_stack::churn(const_bytes bytes, int rounds) {
  test::churn(gpu_->native_stream(callers_->current()), bytes.data(), bytes.size(), rounds,
              reinterpret_cast<unsigned*>(sink_.bytes().data()));
}

void gpu_stack::copy_all(stream& on, std::size_t passes) {
  for (std::size_t i = 0; i < passes * how_.blocks; ++i)
    on.copy({.target = landing_.bytes().subspan(i % 2 * how_.bytes, how_.bytes),
             .source = streamed_.source(i % how_.blocks)});
}

double gpu_stack::copy_seconds() {
  constexpr std::size_t passes = 2;
  copy_all(beside_, 1);
  beside_.synchronize(measured);
  const auto started = steady::now();
  copy_all(beside_, passes);
  beside_.synchronize(measured);
  return seconds_since(started) / static_cast<double>(passes * how_.blocks);
}

int gpu_stack::rounds_for(double seconds) {
  constexpr int tried = 20;
  const auto block = const_bytes(landing_.bytes()).first(how_.bytes);
  static_cast<void>(timed([&] { churn(block, tried); }));
  const auto took = timed([&] { churn(block, tried); });
  return std::max(1, static_cast<int>(std::lround(seconds / took * tried)));
}

double gpu_stack::streamed(std::size_t passes, int rounds) {
  return timed([&] {
    for (std::size_t i = 0; i < passes * how_.blocks; ++i) {
      const auto id = static_cast<block_id>(i % how_.blocks);
      churn(streamed_.gate().acquire(id), rounds);
      streamed_.gate().release(id);
    }
  });
}

double gpu_stack::steady(std::size_t passes, int rounds) {
  return steady_seconds(*gpu_, how_.blocks, passes,
                        [&](std::size_t all) { static_cast<void>(streamed(all, rounds)); });
}

double gpu_stack::resident(std::size_t passes, int rounds) {
  return timed([&] {
    for (std::size_t i = 0; i < passes * how_.blocks; ++i)
      churn(resident_.bytes().subspan(i % how_.blocks * how_.bytes, how_.bytes), rounds);
  });
}

double gpu_stack::resident_beside_copies(std::size_t passes, int rounds) {
  const auto alone = resident(passes, rounds);
  const auto enough = static_cast<std::size_t>(
      std::ceil(2 * alone / (copy_seconds() * static_cast<double>(how_.blocks))));
  copy_all(beside_, enough);
  const auto took = resident(passes, rounds);
  beside_.synchronize(measured);
  return took;
}

std::vector<double> gpu_stack::submit_seconds(std::size_t passes, int rounds) {
  std::vector<double> all;
  static_cast<void>(timed([&] {
    for (std::size_t i = 0; i < passes * how_.blocks; ++i) {
      const auto id = static_cast<block_id>(i % how_.blocks);
      auto started = steady::now();
      const auto bytes = streamed_.gate().acquire(id);
      auto spent = seconds_since(started);
      churn(bytes, rounds);
      started = steady::now();
      streamed_.gate().release(id);
      spent += seconds_since(started);
      all.push_back(spent);
    }
  }));
  return all;
}

std::shared_ptr<cuda_device> gpu_to_measure() {
  return checked(open_cuda_device({.index = 0}));
}

} // namespace ferry::bench
