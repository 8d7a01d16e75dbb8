// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/host_communicator.hpp>
#include <ferry/platform/sim_communicator.hpp>

#include "contract/communicator_rig.hpp"

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace ferry::test {

struct ranks_on_sim {
  static connected_ranks open(int size, nanoseconds patience) {
    auto options = sim_options{};
    options.memory = std::size_t{64} << 20;
    const auto machine = make_sim_machine(options.seed);
    connected_ranks group;
    std::vector<sim_device*> devices;
    for (int rank = 0; rank < size; ++rank) {
      auto opened = std::make_unique<sim_device>(machine, "sim:" + std::to_string(rank), options);
      devices.push_back(opened.get());
      group.devices.push_back(std::move(opened));
    }
    group.ends = make_sim_communicators(devices, patience);
    return group;
  }
};

inline std::vector<host_device*> add_host_devices(connected_ranks& group, int size) {
  std::vector<host_device*> devices;
  for (int rank = 0; rank < size; ++rank) {
    auto opened =
        std::make_unique<host_device>(host_device_options{.memory = std::size_t{64} << 20});
    devices.push_back(opened.get());
    group.devices.push_back(std::move(opened));
  }
  return devices;
}

struct ranks_on_host {
  static connected_ranks open(int size, nanoseconds patience) {
    connected_ranks group;
    const auto devices = add_host_devices(group, size);
    group.ends = make_host_communicators(devices, patience);
    return group;
  }
};

/// Ranks that join as processes do, although they are threads of this one.
struct ranks_that_join {
  static connected_ranks open(int size, nanoseconds patience) {
    connected_ranks group;
    const auto devices = add_host_devices(group, size);
    const auto meetings = make_memory_rendezvous(size);
    std::vector<std::future<result<std::unique_ptr<communicator>>>> joining;
    for (std::size_t rank = 0; rank < devices.size(); ++rank)
      joining.push_back(std::async(std::launch::async, [&, rank] {
        return join_process_communicator(*devices[rank], *meetings[rank], "weights", patience);
      }));
    for (auto& joined : joining)
      group.ends.push_back(std::move(joined.get().value()));
    return group;
  }
};

} // namespace ferry::test

#define FERRY_COMMUNICATOR_SUBJECTS ranks_on_sim, ranks_on_host, ranks_that_join
#include "contract/communicator_contract.hpp"
