// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/nccl_communicator.hpp>
#include <ferry/platform/rendezvous.hpp>

#include "support/gpu.hpp"

#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace ferry::test {

/// Ranks of this process on GPUs, and what became of their joining.
struct joined_gpus {
  std::vector<std::unique_ptr<cuda_device>> gpus;
  std::vector<result<std::unique_ptr<communicator>>> ends;
};

/// Lets ranks join through NCCL, each on the GPU of an index.
[[nodiscard]] inline joined_gpus join_on_gpus(const std::vector<int>& indices,
                                              nanoseconds patience) {
  joined_gpus joined;
  std::vector<std::shared_ptr<rendezvous>> meetings;
  for (auto& meeting : make_memory_rendezvous(static_cast<int>(indices.size())))
    meetings.push_back(std::move(meeting));
  for (const auto index : indices)
    joined.gpus.push_back(open_gpu(index, std::size_t{64} << 20));
  std::vector<std::future<result<std::unique_ptr<communicator>>>> joining;
  for (std::size_t rank = 0; rank < indices.size(); ++rank)
    joining.push_back(std::async(std::launch::async, [&, rank] {
      return open_nccl_communicator(*joined.gpus[rank], meetings[rank], {.patience = patience});
    }));
  for (auto& each : joining)
    joined.ends.push_back(each.get());
  return joined;
}

} // namespace ferry::test
