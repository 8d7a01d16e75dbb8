// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/stream.hpp>

#include "contract/device_rig.hpp"
#include "cuda/touch_pages.hpp"
#include "support/catch.hpp"
#include "support/fake_gpu.hpp"
#include "support/read_only_pages.hpp"
#include "support/standard_error.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

namespace ferry::test {
namespace {

/// Returns how many pages of `range` are resident, or nothing where some are not mapped.
std::optional<std::size_t> resident_pages(const_bytes range) {
  std::vector<unsigned char> found((range.size() + page_bytes() - 1) / page_bytes());
  if (::mincore(const_cast<std::byte*>(range.data()), range.size(), found.data()) != 0)
    return std::nullopt;
  return static_cast<std::size_t>(
      std::ranges::count_if(found, [](unsigned char page) { return (page & 1) != 0; }));
}

// Device memory

TEST_CASE("device memory is allocated as it is asked for, once") {
  fake_gpu gpu;

  const auto arena = memory_block(*gpu, memory_kind::device, 1000003);

  CHECK(gpu.work() == call_list{"cudaMalloc bytes=1000003"});
}

TEST_CASE("a full GPU says what was asked, is free, is there, and who holds the rest") {
  fake_gpu gpu({.memory = 1000000});
  void* others = nullptr;
  static_cast<void>(gpu.cuda.api().cudaMalloc(&others, 300000));
  auto held = memory_block(*gpu, memory_kind::device, 200000);

  const auto refused = failure_of([&] { memory_block(*gpu, memory_kind::device, 600000); });

  REQUIRE(refused);
  CHECK(refused->code == errc::out_of_device_memory);
  CHECK(refused->vendor_code == cudaErrorMemoryAllocation);
  CHECK_THAT(refused->detail,
             Catch::Contains("asked for 600000 bytes; 500000 of 1000000 are free; Ferry holds "
                             "200000 in 1 blocks, everything else on the device 300000"));
  CHECK(gpu.cuda.pending() == cudaSuccess);
  held = memory_block();
  CHECK_NOTHROW(memory_block(*gpu, memory_kind::device, 600000));
  static_cast<void>(gpu.cuda.api().cudaFree(others));
}

TEST_CASE("a ceiling keeps a GPU's other memory out of reach without asking CUDA for it") {
  fake_gpu gpu;
  auto& capped = gpu.open(0, 1000);
  const auto held = memory_block(capped, memory_kind::device, 600);
  gpu.cuda.forget_calls();

  const auto refused = failure_of([&] { memory_block(capped, memory_kind::device, 500); });

  CHECK(refused.value().code == errc::out_of_device_memory);
  CHECK_THAT(refused->detail, Catch::Contains("asked for 500 bytes; 400 of the 1000 that Ferry "
                                              "may use on cuda:0 are free"));
  CHECK(gpu.cuda.count("cudaMalloc") == 0);
  CHECK(capped.memory().total == 1000);
  CHECK(capped.memory().free == 400);
}

TEST_CASE("of two allocations at once that only one has room for below a ceiling one is refused") {
  fake_gpu gpu;
  auto& capped = gpu.open(0, 1000);
  auto refused = std::optional<failure>();
  gpu.cuda.meanwhile("cudaMalloc", [&] {
    refused = failure_of([&] { memory_block(capped, memory_kind::device, 500); });
  });

  const auto held = memory_block(capped, memory_kind::device, 600);

  CHECK(refused.value().code == errc::out_of_device_memory);
  CHECK(capped.counters().device_bytes == 600);
}

TEST_CASE("an allocation that fails below a ceiling leaves its room to others") {
  fake_gpu gpu;
  auto& capped = gpu.open(0, 1000);
  gpu.cuda.fail("cudaMalloc", GENERATE(cudaErrorMemoryAllocation, cudaErrorUnknown));

  const auto refused = failure_of([&] { memory_block(capped, memory_kind::device, 600); });

  CHECK(refused.has_value());
  CHECK_NOTHROW(memory_block(capped, memory_kind::device, 1000));
}

TEST_CASE("memory is asked for, registered and given back with its own GPU current") {
  fake_cuda cuda({.devices = 2});
  const auto second = cuda::open_gpu(cuda.api(), {.index = 1}, {}).value();
  const read_only_pages pages(1);
  auto block = memory_block();
  const auto touches_only_its_own = [&](const auto& act) {
    fake_cuda::make_current(0); // Which has no context, and gets one from any call.
    act();
    return cuda.contexts() == std::set{1};
  };

  CHECK(touches_only_its_own([&] { static_cast<void>(second->memory()); }));
  CHECK(touches_only_its_own([&] { second->register_pages(pages.bytes()); }));
  CHECK(touches_only_its_own([&] { CHECK(second->pages_registered(pages.bytes())); }));
  CHECK(touches_only_its_own([&] { second->unregister_pages(pages.bytes()); }));
  for (const auto kind : {memory_kind::pinned, memory_kind::device}) {
    CHECK(touches_only_its_own([&] { block = memory_block(*second, kind, 100); }));
    CHECK(touches_only_its_own([&] { block = memory_block(); }));
  }
  CHECK(cuda.misuse().empty());
  fake_cuda::make_current(0);
}

TEST_CASE("device memory that CUDA does not take back is tried again at the end") {
  fake_gpu gpu;
  gpu.cuda.fail("cudaFree", cudaErrorUnknown);

  const auto written = standard_error_of([&] { memory_block(*gpu, memory_kind::device, 100); });

  CHECK_THAT(written, Catch::Contains("cudaFree"));
  CHECK(gpu->counters().device_bytes == 0);
  CHECK(gpu.cuda.left().size() == 1);
  gpu.close();
  CHECK(gpu.cuda.left().empty());
}

// Pinned memory

TEST_CASE("every page of touched memory is resident, also where several threads share the work") {
  const auto bytes = GENERATE(std::size_t{1}, std::size_t{4096} * 3 + 5, std::size_t{70} << 20);
  auto* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto fresh = mutable_bytes(static_cast<std::byte*>(data), bytes);

  touch_pages(fresh);

  CHECK(resident_pages(fresh) == (bytes + page_bytes() - 1) / page_bytes());
  ::munmap(data, bytes);
}

TEST_CASE("pinned memory is registered with exactly the size that was asked for") {
  const auto bytes = GENERATE(std::size_t{1}, std::size_t{1000003}, (std::size_t{2} << 20) + 1);
  fake_gpu gpu;

  const auto block = memory_block(*gpu, memory_kind::pinned, bytes);

  CHECK(gpu.work() == call_list{"cudaHostRegister bytes=" + std::to_string(bytes) + " flags=0"});
  CHECK(resident_pages(block.bytes()) == (bytes + page_bytes() - 1) / page_bytes());
}

TEST_CASE("a pin that fails leaves nothing mapped or pending, and copies go on") {
  const auto reason = GENERATE(cudaErrorMemoryAllocation, cudaErrorNotPermitted,
                               cudaErrorOperatingSystem, cudaErrorUnknown);
  fake_gpu gpu;
  const auto slot = on_device(*gpu);
  const auto first = pinned(*gpu, 1);
  const auto second = pinned(*gpu, 2);
  gpu.cuda.fail("cudaHostRegister", reason);

  const auto refused = failure_of([&] { static_cast<void>(pinned(*gpu, 3)); });

  CHECK(refused.value().code == errc::out_of_host_memory);
  CHECK(refused->vendor_code == reason);
  CHECK_THAT(refused->detail, Catch::Contains("Ferry has pinned 8192 in 2 blocks"));
  CHECK(gpu.cuda.pending() == cudaSuccess);
  CHECK(gpu->counters().pinned_bytes == 2 * contract_block);
  stream queue(*gpu, "queue");
  queue.copy(upload(slot, first));
  queue.copy(download(second, slot));
  queue.synchronize(contract_edge);
  CHECK(holds(*gpu, second, 1));
}

TEST_CASE("a host with little memory to pin says how much is pinned already") {
  fake_gpu gpu({.pinnable = 10000});
  const auto first = memory_block(*gpu, memory_kind::pinned, 6000);

  const auto refused = failure_of([&] { memory_block(*gpu, memory_kind::pinned, 6000); });

  CHECK(refused.value().code == errc::out_of_host_memory);
  CHECK_THAT(refused->detail, Catch::Contains("asked for 6000 bytes; Ferry has pinned 6000 in 1"));
}

TEST_CASE("pinned memory that cannot be unregistered stays mapped and is tried again at the end") {
  fake_gpu gpu;
  auto block = memory_block(*gpu, memory_kind::pinned, page_bytes());
  const auto bytes = const_bytes(block.bytes());
  gpu.cuda.fail("cudaHostUnregister", cudaErrorUnknown);

  const auto written = standard_error_of([&] { block = memory_block(); });

  CHECK_THAT(written, Catch::Contains("cudaHostUnregister"));
  CHECK(resident_pages(bytes) == 1);
  CHECK(gpu->counters().pinned_bytes == 0);
  gpu.close();
  CHECK(resident_pages(bytes) == std::nullopt);
}

// Pages of others

TEST_CASE("pages are registered read-only, whole, and by one call") {
  fake_gpu gpu;
  const read_only_pages pages(3);

  gpu->register_pages(pages.bytes());

  CHECK(gpu.work() ==
        call_list{"cudaHostRegister bytes=" + std::to_string(3 * page_bytes()) + " flags=8"});
  gpu->unregister_pages(pages.bytes());
}

TEST_CASE("a GPU without read-only registration refuses pages by the name of the attribute") {
  fake_gpu gpu({.read_only_registration = false});
  const read_only_pages pages(1);

  const auto refused = failure_of([&] { gpu->register_pages(pages.bytes()); });

  CHECK_FALSE(gpu->traits().registers_pages);
  CHECK(refused.value().code == errc::unsupported);
  CHECK_THAT(refused->detail, Catch::Contains("cudaDevAttrHostRegisterReadOnlySupported is 0"));
  CHECK(gpu.cuda.count("cudaHostRegister") == 0);
}

TEST_CASE("pages are registered and given back over and over, and nothing is ever pending") {
  fake_gpu gpu;
  const read_only_pages pages(2);

  for (int i = 0; i < 20; ++i) {
    gpu->register_pages(pages.bytes());
    CHECK(gpu.cuda.pending() == cudaSuccess);
    gpu->unregister_pages(pages.bytes());
    CHECK(gpu.cuda.pending() == cudaSuccess);
  }

  CHECK(gpu.cuda.count("cudaHostRegister") == 20);
  CHECK(gpu.cuda.count("cudaHostUnregister") == 20);
}

TEST_CASE("pages that somebody else has registered are refused, and taken once they are free") {
  fake_gpu gpu;
  const read_only_pages pages(1);
  auto* const address = const_cast<std::byte*>(pages.bytes().data());
  static_cast<void>(gpu.cuda.api().cudaHostRegister(address, page_bytes(), 0));

  const auto refused = failure_of([&] { gpu->register_pages(pages.bytes()); });

  CHECK(refused.value().code == errc::invalid_argument);
  CHECK_THAT(refused->detail, Catch::Contains("cudaErrorHostMemoryAlreadyRegistered"));
  CHECK(gpu.cuda.pending() == cudaSuccess);
  CHECK_FALSE(gpu->pages_registered(pages.bytes()));
  static_cast<void>(gpu.cuda.api().cudaHostUnregister(address));
  CHECK_NOTHROW(gpu->register_pages(pages.bytes()));
  gpu->unregister_pages(pages.bytes());
}

TEST_CASE("pages that cannot be unregistered stay registered, and can be tried again") {
  fake_gpu gpu;
  const read_only_pages pages(1);
  gpu->register_pages(pages.bytes());
  gpu.cuda.fail("cudaHostUnregister", cudaErrorUnknown);

  const auto refused = failure_of([&] { gpu->unregister_pages(pages.bytes()); });

  CHECK(refused.value().code == errc::device_failure);
  CHECK(gpu->pages_registered(pages.bytes()));
  CHECK(gpu->counters().registered_bytes == page_bytes());
  CHECK_NOTHROW(gpu->unregister_pages(pages.bytes()));
  CHECK(gpu->counters().registered_bytes == 0);
}

TEST_CASE("pages that CUDA does not know as pinned are not told as registered") {
  fake_gpu gpu;
  const read_only_pages pages(2);
  auto* const address = const_cast<std::byte*>(pages.bytes().data());
  gpu->register_pages(pages.bytes());
  REQUIRE(gpu->pages_registered(pages.at(1)));

  static_cast<void>(gpu.cuda.api().cudaHostUnregister(address));

  CHECK_FALSE(gpu->pages_registered(pages.at(1)));
  static_cast<void>(
      gpu.cuda.api().cudaHostRegister(address, 2 * page_bytes(), cudaHostRegisterReadOnly));
  CHECK(gpu->pages_registered(pages.at(1)));
  gpu->unregister_pages(pages.bytes());
}

TEST_CASE("what has no bytes is never given to CUDA") {
  fake_gpu gpu;
  stream queue(*gpu, "queue");
  gpu.cuda.forget_calls();

  queue.copy({.target = {}, .source = {}, .tag = {}});
  queue.copy({.target = {}, .source = {}, .from = memory_kind::pageable, .tag = {}});
  const memory_block none(*gpu, memory_kind::pinned, 0);
  CHECK(failure_of([&] { static_cast<void>(gpu->allocate(memory_kind::pinned, 0)); }).has_value());
  CHECK(failure_of([&] { gpu->register_pages({}); }).has_value());

  CHECK(gpu.work().empty());
  CHECK(gpu->counters().copies == 2);
  CHECK(gpu->counters().blocking_copies == 0);
}

} // namespace
} // namespace ferry::test
