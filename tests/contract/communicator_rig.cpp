// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "contract/communicator_rig.hpp"

#include <ferry/platform/error.hpp>

#include "contract/device_rig.hpp"

#include <algorithm>
#include <cstring>
#include <future>

namespace ferry::test {
namespace {

/// Memory of any size, also none.
memory_block some(device& owner, memory_kind kind, std::size_t bytes) {
  return {owner, kind, std::max<std::size_t>(bytes, 1)};
}

} // namespace

void on_all_ranks(const connected_ranks& group, const std::function<void(int rank)>& body) {
  std::vector<std::future<void>> threads;
  for (std::size_t rank = 0; rank < group.devices.size(); ++rank)
    threads.push_back(std::async(std::launch::async, body, static_cast<int>(rank)));
  for (auto& thread : threads)
    thread.get();
}

rank_at_work::rank_at_work(device& owner, communicator& end, std::size_t shard_bytes)
    : device_(&owner), end_(&end), shard_bytes_(shard_bytes),
      shard_(some(owner, memory_kind::device, shard_bytes)),
      output_(some(owner, memory_kind::device, shard_bytes * static_cast<std::size_t>(end.size()))),
      queue_(owner, "rank " + std::to_string(end.rank())) {}

rank_at_work at_work(const connected_ranks& group, int rank, std::size_t shard_bytes) {
  const auto position = static_cast<std::size_t>(rank);
  return {*group.devices[position], *group.ends[position], shard_bytes};
}

void rank_at_work::play(std::uint32_t round) {
  const auto ranks = static_cast<std::size_t>(end_->size());
  auto& now = rounds_.emplace_back(some(*device_, memory_kind::pinned, shard_bytes_),
                                   some(*device_, memory_kind::pinned, ranks * shard_bytes_));
  const auto staged = now.staged.bytes().first(shard_bytes_);
  const auto seen = now.seen.bytes().first(ranks * shard_bytes_);
  device_->host_write(staged, {.what = "stage"});
  std::ranges::copy(shard_of(end_->rank(), round, shard_bytes_), staged.begin());

  queue_.copy({.target = shard_.bytes().first(shard_bytes_),
               .source = staged,
               .to = memory_kind::device,
               .from = memory_kind::pinned,
               .tag = {.what = "shard"}});
  gather(round);
  queue_.copy({.target = seen,
               .source = output_.bytes().first(seen.size()),
               .to = memory_kind::pinned,
               .from = memory_kind::device,
               .tag = {.what = "keep"}});
}

void rank_at_work::gather(std::uint32_t block) {
  const auto ranks = static_cast<std::size_t>(end_->size());
  end_->all_gather(queue_.id(), output_.bytes().first(ranks * shard_bytes_),
                   shard_.bytes().first(shard_bytes_), {.what = "gather", .block = block});
}

void rank_at_work::finish() {
  try {
    queue_.synchronize(contract_edge);
  } catch (const device_error& error) {
    if (error.code() != errc::deadline_exceeded)
      throw;
  }
}

bool rank_at_work::right(std::uint32_t round) {
  const auto seen = const_bytes(rounds_.at(round).seen.bytes());
  device_->host_read(seen, {.what = "check"});
  auto right = true;
  for (int rank = 0; rank < end_->size(); ++rank) {
    const auto expected = shard_of(rank, round, shard_bytes_);
    const auto place = static_cast<std::size_t>(rank) * shard_bytes_;
    right = right && std::memcmp(expected.data(), seen.data() + place, shard_bytes_) == 0;
  }
  return right;
}

std::vector<std::byte> shard_of(int rank, std::uint32_t round, std::size_t bytes) {
  constexpr std::size_t period = 251; // Prime, so that no place in a shard looks like another.
  std::vector<std::byte> shard(bytes);
  for (std::size_t i = 0; i < std::min(bytes, period); ++i)
    shard[i] = std::byte((static_cast<std::size_t>(rank) * 59 + round * 31 + i * (i + 1)) & 0x7F);
  for (auto filled = period; filled < bytes; filled *= 2)
    std::memcpy(shard.data() + filled, shard.data(), std::min(filled, bytes - filled));
  return shard;
}

} // namespace ferry::test
