// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// What a build without the NCCL backend has in its place.

#include "ferry/platform/nccl_communicator.hpp"

namespace ferry {

namespace {

tl::unexpected<failure> refuse() {
  return tl::unexpected(
      failure{.code = errc::unsupported,
              .detail = "this build of Ferry has no NCCL backend, which ranks on GPUs need"});
}

} // namespace

result<std::unique_ptr<communicator>> open_nccl_communicator(cuda_device&,
                                                             std::shared_ptr<rendezvous> meeting,
                                                             const nccl_communicator_options&) {
  auto refused = refuse();
  meeting->poison(refused.value());
  return refused;
}

result<std::string> nccl_version() {
  return refuse();
}

} // namespace ferry
