// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/sim_communicator.hpp"

#include "sim/device_access.hpp"
#include "sim/gather_group.hpp"
#include "sim/random.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace ferry {
namespace {

/// What the ends of one communicator share, guarded by the machine's lock.
struct shared_group {
  std::shared_ptr<sim_machine> machine;
  nanoseconds patience{0};
  std::vector<std::uint64_t> next; ///< Of each rank: the number of its next collective.
  std::vector<bool> left;          ///< Of each rank: its end is gone.
  std::map<std::uint64_t, std::shared_ptr<sim::gather_group>> open;
  bool aborted = false;
  std::optional<failure> failed;
  std::optional<int> told; ///< The rank whose call has thrown `failed`.
};

void give_up(shared_group& group, sim::gather_group& collective) {
  collective.given_up = true;
  collective.joined->clock = {};
  collective.joined->arrived = true;
  group.machine->somebody_arrived.notify_all();
}

void give_up_from(shared_group& group, std::uint64_t number) {
  for (auto it = group.open.lower_bound(number); it != group.open.end(); it = group.open.erase(it))
    give_up(group, *it->second);
}

std::string in_words(operation_tag tag, std::size_t bytes) {
  auto text = std::string("'") + tag.what + "'";
  if (tag.block != operation_tag::no_block)
    text += " of block " + std::to_string(tag.block);
  return text + " with shards of " + std::to_string(bytes) + " bytes";
}

} // namespace

class sim_communicator final : public communicator {
public:
  sim_communicator(std::shared_ptr<shared_group> group, int rank, sim_device& device)
      : group_(std::move(group)), rank_(rank), device_(device.state_) {}
  ~sim_communicator() override;

  static std::shared_ptr<sim_machine> machine_of(const sim_device& device) {
    return device.state_->machine;
  }

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return static_cast<int>(group_->left.size()); }
  void all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                  operation_tag tag) override;
  void abort() noexcept override;
  [[nodiscard]] std::optional<failure> asynchronous_failure() const override;

private:
  [[nodiscard]] std::size_t position() const noexcept { return static_cast<std::size_t>(rank_); }
  void require_partners(std::uint64_t number);
  void require_same(const sim::gather_group& collective, operation_tag tag, std::size_t bytes);
  [[noreturn]] void fail(errc code, const std::string& reason);
  [[nodiscard]] sim::gather_group& join(std::uint64_t number);

  std::shared_ptr<shared_group> group_;
  int rank_;
  std::shared_ptr<sim_device::state> device_;
};

std::vector<std::unique_ptr<communicator>>
make_sim_communicators(std::span<sim_device* const> ranks, nanoseconds patience) {
  FERRY_ASSERT(!ranks.empty());
  auto group = std::make_shared<shared_group>();
  group->machine = sim_communicator::machine_of(*ranks.front());
  group->patience = patience;
  group->next.assign(ranks.size(), 1);
  group->left.assign(ranks.size(), false);
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
  group_->left[position()] = true;
  auto number = group_->next[position()];
  if (group_->open.lower_bound(number) != group_->open.end() && !group_->failed)
    group_->failed = failure{.code = errc::transfer_aborted,
                             .detail = "rank " + std::to_string(rank_) +
                                       " left before collective " + std::to_string(number),
                             .rank = rank_};
  give_up_from(*group_, number);
}

void sim_communicator::abort() noexcept {
  auto guard = device_->lock();
  group_->aborted = true;
  give_up_from(*group_, 0);
}

std::optional<failure> sim_communicator::asynchronous_failure() const {
  auto guard = device_->lock();
  return group_->told == rank_ ? std::nullopt : group_->failed;
}

void sim_communicator::fail(errc code, const std::string& reason) {
  if (!group_->failed) {
    group_->failed = failure{.code = code, .detail = reason, .rank = rank_};
    group_->told = rank_;
  }
  group_->aborted = true;
  give_up_from(*group_, 0);
  throw device_error(code, "all_gather", reason);
}

void sim_communicator::require_partners(std::uint64_t number) {
  if (group_->aborted)
    throw device_error(errc::transfer_aborted, "all_gather", "the communicator was given up");
  for (std::size_t other = 0; other < group_->left.size(); ++other) {
    if (group_->left[other] && group_->next[other] <= number)
      fail(errc::transfer_aborted,
           "rank " + std::to_string(other) + " left before collective " + std::to_string(number));
  }
}

void sim_communicator::require_same(const sim::gather_group& collective, operation_tag tag,
                                    std::size_t bytes) {
  for (std::size_t other = 0; other < collective.members.size(); ++other) {
    const auto& op = collective.members[other].op;
    if (!op)
      continue;
    auto their_bytes = op->span.bytes / (collective.members.size() - 1);
    if (std::string_view(op->span.tag.what) == tag.what && op->span.tag.block == tag.block &&
        their_bytes == bytes)
      return;
    fail(errc::invalid_argument,
         "collective " + std::to_string(collective.number) + " is " + in_words(tag, bytes) +
             " on rank " + std::to_string(rank_) + " and " + in_words(op->span.tag, their_bytes) +
             " on rank " + std::to_string(other) +
             "; all ranks must issue the same collectives in the same order");
  }
}

sim::gather_group& sim_communicator::join(std::uint64_t number) {
  auto& collective = group_->open[number];
  if (!collective) {
    collective = std::make_shared<sim::gather_group>();
    collective->number = number;
    collective->members.resize(group_->left.size());
    collective->joined = std::make_shared<sim::late_clock>();
    collective->patience = group_->patience;
  }
  return *collective;
}

void sim_communicator::all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                                  operation_tag tag) {
  auto guard = device_->lock();
  auto& host = device_->caller("all_gather");
  auto& on = device_->stream(stream, "all_gather");
  const auto& options = device_->own.options;
  auto ranks = group_->left.size();
  auto number = group_->next[position()];
  if (output.size() != ranks * shard.size())
    throw device_error(errc::invalid_argument, "all_gather",
                       "the output has " + std::to_string(output.size()) + " bytes; expected " +
                           std::to_string(ranks) + " shards of " + std::to_string(shard.size()));
  device_->require_memory("all_gather", "the output", output, memory_kind::device);
  device_->require_memory("all_gather", "the shard", shard, memory_kind::device);
  device_->own.faults.enter(device_call::gather);
  require_partners(number);
  require_same(join(number), tag, shard.size());

  auto collective = group_->open[number];
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
  device_->submit(host, on, op);

  collective->members[position()] = {op, before};
  ++group_->next[position()];
  if (++collective->arrived < ranks)
    return;
  collective->joined->arrived = true;
  group_->open.erase(number);
  group_->machine->somebody_arrived.notify_all();
}

} // namespace ferry
