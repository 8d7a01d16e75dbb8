// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "contract/communicator_rig.hpp"
#include "support/gpu_ranks.hpp"
#include "support/skip.hpp"

#include <utility>

namespace ferry::test {
namespace {

/// The largest group of the contract, each rank on a GPU of its own.
constexpr std::size_t gpus_needed = 4;

std::string why_too_few_gpus() {
  const auto found = list_cuda_devices();
  if (!found.front().available)
    return "no GPU: " + found.front().description;
  if (found.size() < gpus_needed)
    return "needs " + std::to_string(gpus_needed) + " GPUs, found " + std::to_string(found.size());
  const auto version = nccl_version();
  return version ? "" : version.error().detail;
}

[[maybe_unused]] const auto needs_gpus = skip_all_if(why_too_few_gpus);

} // namespace

struct ranks_on_gpus {
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
