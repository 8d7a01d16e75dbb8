// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "sim_ranks.hpp"

#include <ferry/platform/sim_communicator.hpp>

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>

namespace ferry::bench {

namespace {

using namespace std::chrono_literals;

constexpr nanoseconds patience = 60s;

} // namespace

std::vector<sim_rank> make_sim_ranks(std::size_t size, const sim_options& options) {
  const auto machine = make_sim_machine(options.seed);
  std::vector<sim_rank> made(size);
  std::vector<sim_device*> devices;
  for (auto& each : made) {
    each.gpu =
        std::make_shared<sim_device>(machine, "sim" + std::to_string(devices.size()), options);
    devices.push_back(each.gpu.get());
  }
  auto meetings = make_memory_rendezvous(static_cast<int>(size));
  auto ends = make_sim_communicators(devices, patience);
  for (std::size_t i = 0; i < size; ++i)
    made[i].group = {
        .meeting = std::move(meetings[i]), .gathers = std::move(ends[i]), .patience = patience};
  return made;
}

void on_every_rank(std::vector<sim_rank> ranks,
                   const std::function<void(std::size_t number, sim_rank own)>& act) {
  std::vector<std::shared_ptr<const sim_device>> devices;
  for (const auto& each : ranks)
    devices.push_back(each.gpu);
  std::vector<std::exception_ptr> failures(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        act(i, std::move(ranks[i]));
      } catch (const std::exception&) {
        failures[i] = std::current_exception();
      }
    });
  for (auto& each : threads)
    each.join();
  for (const auto& each : failures)
    if (each)
      std::rethrow_exception(each);
  for (const auto& each : devices)
    if (each->race_count() > 0)
      throw ferry_error({.code = errc::internal, .detail = "a simulated device saw a race"});
}

} // namespace ferry::bench
