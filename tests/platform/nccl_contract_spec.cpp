// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "contract/communicator_rig.hpp"
#include "support/fake_gpu_ranks.hpp"
#include "support/nccl_ranks.hpp"

#include <memory>
#include <utility>

namespace ferry::test {

/// Ranks through NCCL, as far as a fake can be it, on host devices.
struct ranks_on_nccl {
  static connected_ranks open(int size, nanoseconds patience) {
    return nccl_ranks(size, {.patience = patience}).take();
  }
};

/// The same on the CUDA device. The fakes outlive the ranks, and end the process if anything was
/// left or misused.
struct ranks_on_fake_gpus {
  struct strict_fakes : fake_gpu_ranks {
    using fake_gpu_ranks::fake_gpu_ranks;
    strict_fakes(const strict_fakes&) = delete;
    strict_fakes& operator=(const strict_fakes&) = delete;
    ~strict_fakes() { FERRY_ASSERT(cuda.misuse().empty() && cuda.left().empty()); }
  };

  static connected_ranks open(int size, nanoseconds patience) {
    static std::unique_ptr<strict_fakes> fakes;
    fakes.reset();
    fakes = std::make_unique<strict_fakes>(size, patience);
    return std::move(fakes->group);
  }
};

} // namespace ferry::test

#define FERRY_COMMUNICATOR_SUBJECTS ranks_on_nccl, ranks_on_fake_gpus
#include "contract/communicator_contract.hpp"
