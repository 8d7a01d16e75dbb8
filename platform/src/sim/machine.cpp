// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "sim/machine.hpp"

#include "sim/race_report.hpp"

#include <algorithm>
#include <optional>

namespace ferry {
namespace sim {

device_state::device_state(std::uint64_t position, std::string_view device_name,
                           const sim_options& chosen)
    : index(position), options(chosen) {
  traits.name = device_name;
  traits.computes_on_host = true;
  traits.virtual_time = true;
  traits.registers_pages = true;
  traits.converts = true;
  traits.computes_in_place = chosen.in_place;
  traits.node = chosen.node;
}

} // namespace sim

std::shared_ptr<sim_machine> make_sim_machine(std::uint64_t seed) {
  return std::make_shared<sim_machine>(seed, sim_options{}.pending_limit);
}

sim_machine::sim_machine(std::uint64_t seed_of_all, std::size_t pending_limit)
    : seed(seed_of_all), times([this](const sim::operation& op) { on_timed(op); }),
      bytes(seed_of_all, pending_limit) {}

sim_machine::~sim_machine() = default;

sim::device_state& sim_machine::join(std::string_view name, const sim_options& options) {
  auto lock = std::lock_guard{mutex};
  auto index = next_device_++;
  auto joined = std::make_unique<sim::device_state>(index, name, options);
  joined->options.seed = seed;
  return *devices_.emplace(index, std::move(joined)).first->second;
}

void sim_machine::leave(sim::device_state& device) noexcept {
  auto lock = std::lock_guard{mutex};
  times.evaluate_all();
  blocks.for_each([&](const sim::memory_allocation& held) {
    if (held.device == device.index)
      bytes.memory_gone(held.begin, held.begin + held.bytes);
  });
  device.registered.for_each([&](const sim::page_table::registration& held) {
    auto mark = reinterpret_cast<std::uintptr_t>(held.mark.get());
    shadow.forget(mark, mark + 1);
  });
  for (auto& [id, stream] : device.streams)
    stream.queue->closed = true;
  blocks.release_all_of(device.index);
  devices_.erase(device.index);
}

sim::epoch sim_machine::take_component() {
  // Whoever takes over a component counts as knowing what its last user did, which hides races
  // between the two. So they are taken over late.
  constexpr std::size_t most_unused = 64;
  if (free_components_.size() < most_unused)
    return {next_component_++, 0};
  auto taken = free_components_.front();
  free_components_.pop_front();
  return taken;
}

void sim_machine::give_back(sim::component free, const sim::vector_clock& last) {
  free_components_.push_back({free, last.at(free)});
}

void sim_machine::enter_access(const sim::access_ref& access, const sim::vector_clock& known,
                               std::size_t race_limit) {
  conflicts_.clear();
  shadow.enter(access, known, conflicts_);
  for (const auto& found : conflicts_) {
    auto conflict = open_conflict{found, access, known, race_limit};
    if (known.awaits_more())
      open_.push_back(std::move(conflict));
    else
      add_race(conflict);
  }
  if (shadow.cells() > cells_to_drop_at_)
    drop_history();
}

void sim_machine::add_race(const open_conflict& decided) {
  ++race_count_;
  if (races_.size() < decided.race_limit)
    races_.push_back(sim::make_race(decided.found, *decided.second, decided.known, blocks, seed));
}

void sim_machine::decide_open() {
  std::erase_if(open_, [this](open_conflict& candidate) {
    candidate.known.resolve();
    if (candidate.known.knows(candidate.found.earlier->when))
      return true;
    if (candidate.known.awaits_more())
      return false;
    add_race(candidate);
    return true;
  });
}

const std::vector<race>& sim_machine::races() {
  decide_open();
  return races_;
}

std::uint64_t sim_machine::race_count() {
  decide_open();
  return race_count_;
}

void sim_machine::advance(nanoseconds span) {
  for (const auto& [index, device] : devices_) {
    for (auto& [id, host] : device->hosts)
      host.time += span;
  }
}

void sim_machine::drop_history() {
  std::optional<sim::vector_clock> to_all;
  auto include = [&](const sim::vector_clock& clock) {
    if (to_all)
      to_all->meet(clock);
    else
      to_all = clock;
  };
  for (const auto& [index, device] : devices_) {
    for (const auto& [id, stream] : device->streams)
      include(stream.clock);
    for (const auto& [id, host] : device->hosts)
      include(host.clock);
  }
  if (to_all)
    shadow.forget_known(*to_all);
  cells_to_drop_at_ = std::max<std::size_t>(4096, 2 * shadow.cells());
}

void sim_machine::on_timed(const sim::operation& op) {
  auto it = devices_.find(op.device);
  if (it == devices_.end())
    return;
  auto& device = *it->second;
  for (auto* observer : device.observers)
    observer->on_operation(op.span);
  if (device.options.timeline_limit == 0)
    return;
  device.timeline.push_back({op.span, op.stream->name, op.number});
  if (device.timeline.size() > device.options.timeline_limit)
    device.timeline.pop_front();
}

} // namespace ferry
