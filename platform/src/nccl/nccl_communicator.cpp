// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "nccl/nccl_communicator.hpp"

#include <functional>
#include <string>
#include <utility>

namespace ferry::nccl {
namespace {

/// Whether the shard lies in the output, but not where it belongs there.
bool astray(mutable_bytes output, const_bytes shard, int rank) {
  const auto* const place = output.data() + static_cast<std::size_t>(rank) * shard.size();
  const std::less<> before;
  const auto apart = !before(shard.data(), output.data() + output.size()) ||
                     !before(output.data(), shard.data() + shard.size());
  return !shard.empty() && !apart && shard.data() != place;
}

} // namespace

nccl_communicator::nccl_communicator(std::shared_ptr<rank_link> link) : link_(std::move(link)) {}

nccl_communicator::~nccl_communicator() {
  link_->leave();
}

void nccl_communicator::all_gather(stream_id stream, mutable_bytes output, const_bytes shard,
                                   operation_tag tag) {
  const auto ranks = static_cast<std::size_t>(size());
  if (output.size() != ranks * shard.size())
    throw device_error(errc::invalid_argument, "all_gather",
                       "the output has " + std::to_string(output.size()) + " bytes; expected " +
                           std::to_string(ranks) + " shards of " + std::to_string(shard.size()));
  if (astray(output, shard, rank()))
    throw device_error(errc::invalid_argument, "all_gather",
                       "the shard overlaps the output; expected it apart, or in its place there");
  link_->all_gather(stream, output, shard, tag);
}

} // namespace ferry::nccl
