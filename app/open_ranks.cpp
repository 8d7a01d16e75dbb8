// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "open_ranks.hpp"

#include <ferry/platform/cuda_device.hpp>
#include <ferry/platform/host_communicator.hpp>
#include <ferry/platform/nccl_communicator.hpp>
#include <ferry/platform/open_device.hpp>
#include <ferry/platform/sim_communicator.hpp>
#include <ferry/platform/sim_device.hpp>
#include <ferry/torch/torch_cuda.hpp>

#include "launched_ranks.hpp"
#include "page_cache_room.hpp"
#include "run_options.hpp"

#include <future>
#include <string>
#include <utility>

namespace ferry {

namespace {

tl::unexpected<failure> refuse(errc code, std::string detail) {
  return tl::unexpected(failure{.code = code, .detail = std::move(detail)});
}

result<std::shared_ptr<device>> open_one(const run_options& options,
                                         std::optional<std::uint64_t> memory) {
  auto target = open_device(
      options.device, {.memory = memory,
                       .page_cache = page_cache_room(options.checkpoint, read_host_limits("/")),
                       .model = options.sim_model.value_or("")});
  if (!target)
    return tl::unexpected(target.error());
  return std::shared_ptr<device>(std::move(*target));
}

/// Connects ranks that are threads of this process.
opened_ranks connect(std::vector<std::shared_ptr<device>> devices,
                     std::vector<std::unique_ptr<communicator>> ends) {
  opened_ranks made{.size = static_cast<int>(devices.size()), .here = {}};
  auto meetings = make_memory_rendezvous(made.size);
  for (std::size_t i = 0; i < devices.size(); ++i)
    made.here.push_back({.number = static_cast<int>(i),
                         .target = std::move(devices[i]),
                         .group = rank_group{.meeting = std::move(meetings[i]),
                                             .gathers = std::move(ends[i]),
                                             .patience = patience_to_start}});
  return made;
}

result<opened_ranks> open_sims(const run_options& options, std::size_t count,
                               std::optional<std::uint64_t> memory) {
  auto model = parse_sim_options(options.sim_model.value_or(""));
  if (!model)
    return tl::unexpected(model.error());
  if (memory)
    model->memory = *memory;
  const auto machine = make_sim_machine(model->seed);
  std::vector<std::shared_ptr<device>> devices;
  std::vector<sim_device*> sims;
  for (std::size_t i = 0; i < count; ++i) {
    auto made = std::make_shared<sim_device>(machine, "sim" + std::to_string(i), *model);
    sims.push_back(made.get());
    devices.push_back(std::move(made));
  }
  return connect(std::move(devices), make_sim_communicators(sims, patience_to_gather));
}

result<opened_ranks> open_hosts(const run_options& options, std::size_t count,
                                std::optional<std::uint64_t> memory) {
  std::vector<std::shared_ptr<device>> devices;
  std::vector<host_device*> hosts;
  for (std::size_t i = 0; i < count; ++i) {
    auto target = open_one(options, memory);
    if (!target)
      return tl::unexpected(target.error());
    hosts.push_back(dynamic_cast<host_device*>(target->get()));
    if (hosts.back() == nullptr)
      return refuse(errc::unsupported, "--ranks is " + std::to_string(count) + " and the device " +
                                           options.device + "; expected sim, host or cuda");
    devices.push_back(std::move(*target));
  }
  return connect(std::move(devices), make_host_communicators(hosts, patience_to_gather));
}

/// Whether ranks are to be on GPUs, a different one each.
bool on_gpus(const run_options& options) {
  return options.device == "cuda" ||
         (options.device.empty() && list_cuda_devices().front().available);
}

result<std::vector<std::shared_ptr<cuda_device>>>
open_each_gpu(const run_options& options, std::size_t count, std::optional<std::uint64_t> memory) {
  const auto found = list_cuda_devices();
  if (found.front().available && found.size() < count)
    return refuse(errc::unsupported, "--ranks is " + std::to_string(count) + " and there are " +
                                         std::to_string(found.size()) +
                                         " GPUs; expected at most as many ranks as GPUs");
  std::vector<std::shared_ptr<cuda_device>> gpus;
  auto own = options;
  for (std::size_t i = 0; i < count; ++i) {
    own.device = "cuda:" + std::to_string(i);
    auto target = open_one(own, memory);
    if (!target)
      return tl::unexpected(target.error());
    gpus.push_back(std::dynamic_pointer_cast<cuda_device>(std::move(*target)));
  }
  return gpus;
}

/// Connects the ranks at once: NCCL waits for all of them. libtorch comes first, so that its NCCL
/// is the one that is found.
result<opened_ranks> open_gpus(const run_options& options, std::size_t count,
                               std::optional<std::uint64_t> memory) {
  auto gpus = open_each_gpu(options, count, memory);
  if (!gpus)
    return tl::unexpected(gpus.error());
  if (auto loaded = load_torch_cuda(); !loaded)
    return tl::unexpected(loaded.error());
  std::vector<std::shared_ptr<rendezvous>> meetings;
  for (auto& meeting : make_memory_rendezvous(static_cast<int>(count)))
    meetings.push_back(std::move(meeting));
  std::vector<std::future<result<std::unique_ptr<communicator>>>> joining;
  for (std::size_t i = 0; i < count; ++i)
    joining.push_back(std::async(std::launch::async, [&, i] {
      return open_nccl_communicator(*(*gpus)[i], meetings[i],
                                    {.patience = patience_to_gather, .to_join = patience_to_join});
    }));
  std::vector<result<std::unique_ptr<communicator>>> joined;
  for (auto& each : joining)
    joined.push_back(each.get());
  opened_ranks made{.size = static_cast<int>(count), .here = {}};
  for (std::size_t i = 0; i < count; ++i) {
    if (!joined[i])
      return tl::unexpected(joined[i].error());
    made.here.push_back({.number = static_cast<int>(i),
                         .target = (*gpus)[i],
                         .group = rank_group{.meeting = meetings[i],
                                             .gathers = std::move(*joined[i]),
                                             .patience = patience_to_start}});
  }
  return made;
}

result<opened_ranks> open_launched(const launched_rank& self, const run_options& options,
                                   std::optional<std::uint64_t> memory) {
  auto own = options;
  if (on_gpus(options))
    own.device = "cuda:" + std::to_string(gpu_of(self, list_cuda_devices().size()));
  auto target = open_one(own, memory);
  if (!target)
    return tl::unexpected(target.error());
  const auto gpu = dynamic_cast<cuda_device*>(target->get()) != nullptr;
  if (!gpu && dynamic_cast<host_device*>(target->get()) == nullptr)
    return refuse(errc::unsupported,
                  "the launcher started " + std::to_string(self.size) +
                      " processes and the device is " + options.device +
                      "; expected host or cuda, or --ranks for ranks that are threads");
  // Before the ranks join, so that libtorch's NCCL is the one that is found.
  if (gpu)
    if (auto loaded = load_torch_cuda(); !loaded)
      return tl::unexpected(loaded.error());
  return opened_ranks{.size = self.size,
                      .here = {{.number = self.rank, .target = std::move(*target), .group = {}}}};
}

} // namespace

result<opened_ranks> open_ranks(const run_options& options,
                                std::optional<std::uint64_t> device_memory) {
  const auto launched = rank_of_several();
  if (!launched)
    return tl::unexpected(launched.error());
  if (*launched)
    return open_launched(**launched, options, device_memory);
  const auto count = options.ranks.value_or(1);
  if (count > 1) {
    const auto ranks = static_cast<std::size_t>(count);
    if (options.device == "sim")
      return open_sims(options, ranks, device_memory);
    return on_gpus(options) ? open_gpus(options, ranks, device_memory)
                            : open_hosts(options, ranks, device_memory);
  }
  auto target = open_one(options, device_memory);
  if (!target)
    return tl::unexpected(target.error());
  return opened_ranks{.size = 1,
                      .here = {{.number = 0, .target = std::move(*target), .group = {}}}};
}

} // namespace ferry
