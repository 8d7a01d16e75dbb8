// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/host_communicator.hpp"

#include "ferry/platform/host_communicator.hpp"
#include "host/host_collective.hpp"

#include <string>
#include <utility>

namespace ferry {

host_communicator::host_communicator(host_device& device, std::shared_ptr<exchange> shared)
    : device_(&device), exchange_(std::move(shared)) {}

host_communicator::~host_communicator() {
  exchange_->leave(next_);
}

void host_communicator::all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                                   operation_tag tag) {
  const auto ranks = static_cast<std::size_t>(size());
  if (output.size() != ranks * shard.size())
    throw device_error(errc::invalid_argument, "all_gather",
                       "the output has " + std::to_string(output.size()) + " bytes; expected " +
                           std::to_string(ranks) + " shards of " + std::to_string(shard.size()));
  if (const auto cause = exchange_->failed())
    throw device_error(errc::transfer_aborted, "all_gather",
                       "the group has failed: " + describe(*cause));
  // What this rank lost, the others miss.
  const auto leave = [shared = exchange_](failure cause) {
    cause.rank = shared->rank();
    shared->fail(cause);
  };
  try {
    host_collective::enqueue(*device_, stream, tag, (ranks - 1) * shard.size(),
                             [shared = exchange_, leave, number = next_, output, shard,
                              tag](const std::optional<failure>& lost) {
                               if (lost)
                                 leave(*lost);
                               else
                                 shared->gather(number, output, shard, tag);
                             });
  } catch (const device_error& error) {
    leave(error.reason());
    throw;
  }
  ++next_;
}

void host_communicator::abort(const failure& cause) noexcept {
  exchange_->fail(cause);
}

std::optional<failure> host_communicator::asynchronous_failure() const {
  return exchange_->failed();
}

std::vector<std::unique_ptr<communicator>>
make_host_communicators(std::span<host_device* const> ranks, nanoseconds patience) {
  FERRY_ASSERT(!ranks.empty());
  const auto size = static_cast<int>(ranks.size());
  const auto shared = std::make_shared<shared_memory>(exchange_board::size(size));
  shared->close_descriptor();
  std::vector<std::unique_ptr<communicator>> ends;
  for (auto* device : ranks)
    ends.push_back(std::make_unique<host_communicator>(
        *device, std::make_shared<exchange>(shared, static_cast<int>(ends.size()), size, patience,
                                            peer_processes())));
  return ends;
}

} // namespace ferry
