// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "contract/communicator_rig.hpp"
#include "support/gpu_ranks.hpp"
#include "support/skip.hpp"

#include <utility>

namespace ferry::test {
namespace {

std::string why_no_ranks() {
  const auto reason = why_no_gpu();
  if (!reason.empty())
    return reason;
  const auto version = nccl_version();
  return version ? "" : version.error().detail;
}

[[maybe_unused]] const auto needs_gpus = skip_all_if(why_no_ranks);

} // namespace

/// Ranks on a GPU each: what takes more of them than there are is skipped, test by test.
struct ranks_on_gpus {
  static bool skipped(int size) { return skipped_without(static_cast<std::size_t>(size)); }

  static connected_ranks open(int size, nanoseconds patience) {
    std::vector<int> indices;
    for (int index = 0; index < size; ++index)
      indices.push_back(index);
    auto joined = join_on_gpus(indices, patience);
    connected_ranks group;
    for (auto& gpu : joined.gpus)
      group.devices.push_back(std::move(gpu));
    for (auto& end : joined.ends)
      group.ends.push_back(std::move(end.value()));
    return group;
  }
};

} // namespace ferry::test

#define FERRY_COMMUNICATOR_SUBJECTS ranks_on_gpus
#include "contract/communicator_contract.hpp"
