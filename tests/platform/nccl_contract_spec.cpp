// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "contract/communicator_rig.hpp"
#include "support/nccl_ranks.hpp"

namespace ferry::test {

/// Ranks through NCCL, as far as a fake can be it.
struct ranks_on_nccl {
  static connected_ranks open(int size, nanoseconds patience) {
    return nccl_ranks(size, {.patience = patience}).take();
  }
};

} // namespace ferry::test

#define FERRY_COMMUNICATOR_SUBJECTS ranks_on_nccl
#include "contract/communicator_contract.hpp"
