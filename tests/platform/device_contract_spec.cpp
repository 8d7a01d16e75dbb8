// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/host_device.hpp>
#include <ferry/platform/sim_device.hpp>

#ifdef FERRY_WITH_CUDA
#  include "cuda/open_gpu.hpp"
#  include "support/fake_cuda.hpp"
#endif

#include <cstdio>
#include <memory>

namespace ferry::test {

struct on_sim {
  static std::unique_ptr<device> open(std::size_t memory) {
    auto options = sim_options{};
    options.memory = memory;
    return std::make_unique<sim_device>(options);
  }
};

struct on_host {
  static std::unique_ptr<device> open(std::size_t memory) {
    return std::make_unique<host_device>(host_device_options{.memory = memory});
  }
};

#ifdef FERRY_WITH_CUDA

/// A fake that outlives its device, and ends the process if anything was left or misused.
class strict_fake : public fake_cuda {
public:
  strict_fake() = default;
  strict_fake(const strict_fake&) = delete;
  strict_fake& operator=(const strict_fake&) = delete;
  ~strict_fake() {
    for (const auto& told : {misuse(), left()})
      for (const auto& each : told)
        std::fprintf(stderr, "fake CUDA: %s\n", each.c_str());
    FERRY_ASSERT(misuse().empty() && left().empty());
  }
};

struct on_fake_cuda {
  static std::unique_ptr<device> open(std::size_t memory) {
    static std::unique_ptr<strict_fake> fake;
    fake.reset();
    fake = std::make_unique<strict_fake>();
    return cuda::open_gpu(fake->api(), {.memory = memory}, {}).value();
  }
};

#endif

} // namespace ferry::test

#ifdef FERRY_WITH_CUDA
#  define FERRY_DEVICE_SUBJECTS on_sim, on_host, on_fake_cuda
#else
#  define FERRY_DEVICE_SUBJECTS on_sim, on_host
#endif
#include "contract/device_contract.hpp"
