// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/sim_communicator.hpp"

#include "collective_words.hpp"
#include "sim/device_access.hpp"
#include "sim/gather_group.hpp"
#include "sim/random.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

namespace ferry {

class sim_communicator final : public communicator {
public:
  sim_communicator(std::shared_ptr<sim::rank_group> group, int rank, sim_device& device)
      : group_(std::move(group)), rank_(rank), device_(device.state_) {}
  ~sim_communicator() override;

  static std::shared_ptr<sim_machine> machine_of(const sim_device& device) {
    return device.state_->machine;
  }

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override {
    return static_cast<int>(group_->ranks.size());
  }
  void all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                  operation_tag tag) override;
  void abort(const failure& cause) noexcept override;
  [[nodiscard]] std::optional<failure> asynchronous_failure() const override;

private:
  [[nodiscard]] std::size_t position() const noexcept { return static_cast<std::size_t>(rank_); }
  /// Counts the call as one that may fail, and lets the rank fail in it.
  void enter(std::uint64_t number);
  void require_partners(std::uint64_t number);
  void require_same(const sim::gather_group& collective, operation_tag tag, std::size_t bytes);
  [[noreturn]] void fail(errc code, int culprit, const std::string& reason);

  std::shared_ptr<sim::rank_group> group_;
  int rank_;
  std::shared_ptr<sim_device::state> device_;
};

std::vector<std::unique_ptr<communicator>>
make_sim_communicators(std::span<sim_device* const> ranks, nanoseconds patience) {
  FERRY_ASSERT(!ranks.empty());
  auto group = std::make_shared<sim::rank_group>(sim_communicator::machine_of(*ranks.front()),
                                                 ranks.size(), patience);
  std::vector<std::unique_ptr<communicator>> ends;
  for (auto* device : ranks) {
    FERRY_ASSERT(sim_communicator::machine_of(*device) == group->machine);
    ends.push_back(
        std::make_unique<sim_communicator>(group, static_cast<int>(ends.size()), *device));
  }
  return ends;
}

sim_communicator::~sim_communicator() {
  auto guard = device_->lock();
  group_->leave(position());
}

void sim_communicator::abort(const failure& cause) noexcept {
  auto guard = device_->lock();
  auto named = cause;
  named.rank = named.rank.value_or(rank_);
  group_->fail(named);
}

std::optional<failure> sim_communicator::asynchronous_failure() const {
  auto guard = device_->lock();
  return group_->failed;
}

void sim_communicator::fail(errc code, int culprit, const std::string& reason) {
  group_->fail({.code = code, .detail = reason, .rank = culprit});
  throw device_error(code, "all_gather", reason);
}

void sim_communicator::require_partners(std::uint64_t number) {
  if (group_->failed)
    throw device_error(errc::transfer_aborted, "all_gather",
                       "the group has failed: " + describe(*group_->failed));
  for (std::size_t other = 0; other < group_->ranks.size(); ++other) {
    if (group_->ranks[other].left && group_->ranks[other].next <= number)
      fail(errc::transfer_aborted, static_cast<int>(other),
           left_before(static_cast<int>(other), number));
  }
}

void sim_communicator::require_same(const sim::gather_group& collective, operation_tag tag,
                                    std::size_t bytes) {
  for (std::size_t other = 0; other < collective.members.size(); ++other) {
    const auto& op = collective.members[other].op;
    if (!op)
      continue;
    const auto theirs =
        described_collective{static_cast<int>(other), op->span.tag.what, op->span.tag.block,
                             op->span.bytes / (collective.members.size() - 1)};
    const auto mine = described_collective{rank_, tag.what, tag.block, bytes};
    if (!theirs.same_as(mine))
      fail(errc::invalid_argument, rank_, disagreement(collective.number, mine, theirs));
    return;
  }
}

void sim_communicator::enter(std::uint64_t number) {
  switch (device_->own.faults.enter(device_call::gather)) {
    case sim::fault_outcome::none:
      return;
    case sim::fault_outcome::absence:
      group_->ranks[position()].absent = true;
      return;
    case sim::fault_outcome::death:
      fail(errc::device_failure, rank_,
           "rank " + std::to_string(rank_) + " died in collective " + std::to_string(number));
  }
}

void sim_communicator::all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                                  operation_tag tag) {
  auto guard = device_->lock();
  auto& host = device_->caller("all_gather");
  auto& on = device_->stream(stream, "all_gather");
  const auto& options = device_->own.options;
  auto ranks = group_->ranks.size();
  auto number = group_->ranks[position()].next;
  if (output.size() != ranks * shard.size())
    throw device_error(errc::invalid_argument, "all_gather",
                       "the output has " + std::to_string(output.size()) + " bytes; expected " +
                           std::to_string(ranks) + " shards of " + std::to_string(shard.size()));
  device_->require_memory("all_gather", "the output", output, memory_kind::device);
  device_->require_memory("all_gather", "the shard", shard, memory_kind::device);
  if (group_->ranks[position()].absent)
    return;
  enter(number);
  if (group_->ranks[position()].absent)
    return;
  require_partners(number);
  auto collective = group_->join(number);
  require_same(*collective, tag, shard.size());

  auto received = (ranks - 1) * shard.size();
  host.time += options.launch;
  on.clock.join(host.clock);
  auto before = on.tail;
  collective->joined->clock.join(on.clock);
  auto op = device_->enqueue(host, on, sim::operation_role::work,
                             {.kind = operation_kind::gather,
                              .stream = {},
                              .tag = tag,
                              .bytes = received,
                              .enqueued = {},
                              .start = {},
                              .end = {}});
  op->group = collective;
  op->over = options.gather_over_link ? device_->own.h2d : nullptr;
  auto plain = static_cast<double>(options.gather_latency.count()) +
               static_cast<double>(received) / options.gather_bandwidth * 1e9;
  auto chance = sim::lognormal(sim::mix(group_->machine->seed, number), options.jitter);
  op->duration = nanoseconds{std::llround(plain * chance)};
  if (options.contents) {
    op->target = output;
    op->source = shard;
  }
  device_->access(*op, "all-gather", on, host, shard, false);
  device_->access(*op, "all-gather", on, host, output, true);
  on.clock.add(collective->joined);
  collective->members[position()] = {op, before};
  device_->submit(host, on, op);

  ++group_->ranks[position()].next;
  if (++collective->arrived == ranks)
    group_->complete(*collective);
}

} // namespace ferry
