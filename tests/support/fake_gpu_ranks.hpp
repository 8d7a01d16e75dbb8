// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "contract/communicator_rig.hpp"
#include "cuda/open_gpu.hpp"
#include "nccl/join.hpp"
#include "support/fake_cuda.hpp"
#include "support/fake_nccl.hpp"

#include <functional>
#include <future>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry::test {

/// Ranks on threads of this process, each on a CUDA device of its own, over a fake of CUDA on which
/// a fake of NCCL enqueues.
struct fake_gpu_ranks {
  fake_gpu_ranks(int size, nanoseconds patience) : cuda({.devices = size}), library(on(cuda)) {
    std::vector<std::shared_ptr<rendezvous>> meetings;
    for (auto& meeting : make_memory_rendezvous(size))
      meetings.push_back(std::move(meeting));
    for (int rank = 0; rank < size; ++rank)
      group.devices.push_back(cuda::open_gpu(cuda.api(), {.index = rank}, {}).value());
    std::vector<std::future<result<std::unique_ptr<communicator>>>> joining;
    for (int rank = 0; rank < size; ++rank)
      joining.push_back(std::async(std::launch::async, [&, rank] {
        return nccl::join(library.library(), gpu(rank), meetings[static_cast<std::size_t>(rank)],
                          {.patience = patience}, this_process());
      }));
    for (auto& each : joining)
      group.ends.push_back(each.get().value());
  }

  static fake_nccl::backend on(fake_cuda& cuda) {
    return {.enqueue =
                [&](void* stream, std::function<void()> begin, std::function<bool()> over) {
                  cuda.launch(static_cast<cudaStream_t>(stream), std::move(begin), std::move(over));
                },
            .current = [] { return fake_cuda::current_device(); },
            .note = [&](std::string_view call) { cuda.note(call); }};
  }

  [[nodiscard]] cuda_device& gpu(int rank) {
    return dynamic_cast<cuda_device&>(*group.devices[static_cast<std::size_t>(rank)]);
  }

  fake_cuda cuda;
  fake_nccl library;
  connected_ranks group;
};

} // namespace ferry::test
