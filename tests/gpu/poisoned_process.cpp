// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// A process whose GPU is lost to it by a kernel, for a test. Prints what it is told then, a line
// for each call, and exits with 0 once everything of it is given back.

#include <ferry/platform/cuda_device.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/memory.hpp>
#include <ferry/platform/stream.hpp>

#include "gpu/kernels.hpp"
#include "gpu/rig.hpp"

#include <cstdio>

namespace {

template <class Act>
void tell(const Act& act) {
  try {
    act();
    std::puts("nothing");
  } catch (const ferry::ferry_error& error) {
    std::puts(describe(error.reason()).c_str());
  }
}

} // namespace

int main() {
  using namespace ferry;
  const auto gpu = test::first_gpu();
  stream queue(*gpu, "queue");
  const memory_block weights(*gpu, memory_kind::device, 4096);

  test::stray(gpu->native_stream(queue.id()));
  tell([&] { queue.synchronize({"test"}); });
  tell([&] { const memory_block more(*gpu, memory_kind::device, 4096); });
  const auto again = open_cuda_device({});
  std::puts(again ? "opened" : describe(again.error()).c_str());
}
