// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "sim/byte_runner.hpp"

#include "ferry/platform/conversion.hpp"
#include "sim/gather_group.hpp"

#include <algorithm>
#include <cstring>

namespace ferry::sim {
namespace {

bool overlaps(const_bytes range, std::uintptr_t begin, std::uintptr_t end) noexcept {
  auto from = reinterpret_cast<std::uintptr_t>(range.data());
  return !range.empty() && from < end && begin < from + range.size();
}

void take_shards(gather_group& group) {
  for (auto& member : group.members) {
    auto shard = member.op->source;
    auto at = group.gathered.size();
    group.gathered.resize(at + shard.size(), std::byte{0xFF});
    if (!shard.empty() && !member.op->source_gone)
      std::memcpy(group.gathered.data() + at, shard.data(), shard.size());
    member.before.reset();
  }
  group.taken = true;
}

void run_gather(const operation& op) {
  auto& group = *op.group;
  if (!group.given_up && !group.taken)
    take_shards(group);
  if (op.target.empty() || op.target_gone)
    return;
  if (group.given_up)
    poison(op.target);
  else
    std::memcpy(op.target.data(), group.gathered.data(), op.target.size());
}

void run_bytes(const operation& op) {
  if (op.group) {
    run_gather(op);
    return;
  }
  if (op.target.empty() || op.target_gone)
    return;
  if (op.source.empty() || op.source_gone)
    poison(op.target);
  else if (op.convert == conversion::none)
    std::memmove(op.target.data(), op.source.data(), op.target.size());
  else
    convert(op.convert, op.source, op.target);
}

} // namespace

void poison(mutable_bytes range) noexcept {
  if (!range.empty())
    std::memset(range.data(), 0xFF, range.size());
}

byte_runner::byte_runner(std::uint64_t seed, std::size_t limit)
    : order_(mix(seed, "order")), limit_(limit) {}

byte_runner::~byte_runner() {
  // A collective and its operations own each other until they are over.
  for (const auto& queue : queues_) {
    for (const auto& op : queue->waiting)
      op->group.reset();
  }
}

std::shared_ptr<byte_queue> byte_runner::open() {
  queues_.push_back(std::make_shared<byte_queue>());
  return queues_.back();
}

void byte_runner::add(byte_queue& queue, const operation_ref& added) {
  queue.waiting.push_back(added);
  ++waiting_;
  if (waiting_ > limit_)
    run_oldest();
}

bool byte_runner::may_run(const operation& next) {
  if (next.awaited && !next.awaited->ran)
    return false;
  if (!next.group || next.group->given_up || next.group->taken)
    return true;
  return next.group->complete() &&
         std::all_of(next.group->members.begin(), next.group->members.end(),
                     [](const auto& member) { return !member.before || member.before->ran; });
}

void byte_runner::run_front(byte_queue& queue) {
  auto next = std::move(queue.waiting.front());
  queue.waiting.pop_front();
  --waiting_;
  run_bytes(*next);
  next->ran = true;
  if (next->timed) {
    next->awaited.reset();
    next->group.reset();
  }
}

void byte_runner::run_known(const vector_clock& known) {
  std::vector<byte_queue*> allowed;
  while (waiting_ > 0) {
    allowed.clear();
    for (const auto& queue : queues_) {
      if (!queue->waiting.empty() && known.knows(queue->waiting.front()->when) &&
          may_run(*queue->waiting.front()))
        allowed.push_back(queue.get());
    }
    if (allowed.empty())
      break;
    run_front(*allowed[order_.below(allowed.size())]);
  }
  drop_closed();
}

void byte_runner::run_all() {
  for (auto progress = true; progress;) {
    progress = false;
    for (const auto& queue : queues_) {
      while (!queue->waiting.empty() && may_run(*queue->waiting.front())) {
        run_front(*queue);
        progress = true;
      }
    }
  }
  drop_closed();
}

bool byte_runner::step(byte_queue& queue) {
  while (!queue.waiting.empty() && may_run(*queue.waiting.front())) {
    auto works = queue.waiting.front()->role == operation_role::work;
    run_front(queue);
    if (works) {
      while (!queue.waiting.empty() && queue.waiting.front()->role == operation_role::record)
        run_front(queue);
      return true;
    }
  }
  return false;
}

void byte_runner::run_oldest() {
  auto oldest = std::min_element(queues_.begin(), queues_.end(), [](const auto& a, const auto& b) {
    if (a->waiting.empty() || b->waiting.empty())
      return !a->waiting.empty();
    return a->waiting.front()->sequence < b->waiting.front()->sequence;
  });
  // Only a collective that somebody has not joined can be in the way.
  if (may_run(*(*oldest)->waiting.front()))
    run_front(**oldest);
}

void byte_runner::memory_gone(std::uintptr_t begin, std::uintptr_t end) {
  for (const auto& queue : queues_) {
    for (const auto& op : queue->waiting) {
      op->target_gone = op->target_gone || overlaps(op->target, begin, end);
      op->source_gone = op->source_gone || overlaps(op->source, begin, end);
    }
  }
}

void byte_runner::drop_closed() {
  std::erase_if(queues_, [](const auto& queue) { return queue->closed && queue->waiting.empty(); });
}

} // namespace ferry::sim
