// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "contract/communicator_rig.hpp"
#include "nccl/join.hpp"
#include "support/catch.hpp"
#include "support/fake_nccl.hpp"
#include "support/host_gpu.hpp"

#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace ferry::test {

inline constexpr std::size_t gpu_memory = std::size_t{64} << 20;

/// Ranks on threads of this process that join through the fake NCCL, each on a GPU of its own.
class nccl_ranks {
public:
  using opened = result<std::unique_ptr<communicator>>;

  /// Prepares ranks, which do not join.
  explicit nccl_ranks(int size) : library(std::make_shared<fake_nccl>()) {
    for (auto& meeting : make_memory_rendezvous(size))
      meetings.push_back(std::move(meeting));
    for (int rank = 0; rank < size; ++rank)
      gpus.push_back(std::make_unique<host_gpu>(rank, gpu_memory, library));
    selves.assign(static_cast<std::size_t>(size), this_process());
    tables.assign(static_cast<std::size_t>(size), &library->library());
  }

  /// Prepares ranks that join.
  nccl_ranks(int size, const nccl_communicator_options& options) : nccl_ranks(size) {
    for (auto& joined : join(options)) {
      REQUIRE(joined);
      ends.push_back(std::move(*joined));
    }
  }

  /// Lets all ranks join at once, and returns what came of it.
  [[nodiscard]] std::vector<opened> join(const nccl_communicator_options& options) {
    std::vector<std::future<opened>> joining;
    for (std::size_t rank = 0; rank < gpus.size(); ++rank)
      joining.push_back(std::async(std::launch::async, [&, rank] {
        return nccl::join(*tables[rank], *gpus[rank], meetings[rank], options, selves[rank]);
      }));
    std::vector<opened> all;
    for (auto& each : joining)
      all.push_back(each.get());
    return all;
  }

  /// Gives away the devices and ends.
  [[nodiscard]] connected_ranks take() {
    connected_ranks group;
    for (auto& gpu : gpus)
      group.devices.push_back(std::move(gpu));
    group.ends = std::move(ends);
    return group;
  }

  std::shared_ptr<fake_nccl> library;
  std::vector<std::shared_ptr<rendezvous>> meetings;
  std::vector<std::unique_ptr<host_gpu>> gpus;
  std::vector<const nccl::api*> tables;
  std::vector<process_identity> selves; ///< As which process each joins.
  std::vector<std::unique_ptr<communicator>> ends;
};

} // namespace ferry::test
