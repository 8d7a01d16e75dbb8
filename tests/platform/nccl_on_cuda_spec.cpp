// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// NCCL's communicator on the CUDA device itself, each over a fake of its library.

#include <ferry/platform/event.hpp>

#include "support/catch.hpp"
#include "support/fake_gpu_ranks.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace ferry::test {
namespace {

using Catch::Contains;
using namespace std::chrono_literals;

constexpr nanoseconds endless = 5min;

/// At the end nothing may be left or misused.
struct gpu_ranks : fake_gpu_ranks {
  explicit gpu_ranks(int size) : fake_gpu_ranks(size, endless) {}
  gpu_ranks(const gpu_ranks&) = delete;
  gpu_ranks& operator=(const gpu_ranks&) = delete;
  ~gpu_ranks() {
    group.ends.clear();
    group.devices.clear();
    CHECK(cuda.misuse() == std::vector<std::string>{});
    CHECK(cuda.left() == std::vector<std::string>{});
    CHECK(library.open_comms() == 0);
  }

  /// Returns the calls so far that end something.
  [[nodiscard]] std::vector<std::string> ends() const {
    auto calls = cuda.calls();
    std::erase_if(calls, [](const auto& call) {
      return std::ranges::none_of(
          std::vector{"Abort", "Destroy", "Finalize", "Free", "Unregister"},
          [&](std::string_view word) { return call.find(word) != std::string::npos; });
    });
    for (auto& call : calls)
      call.erase(std::min(call.find(' '), call.size()));
    return calls;
  }
};

/// A gather that is enqueued on the device alone, which has everything that it needs.
void gather_alone(cuda_device& gpu, communicator& end) {
  constexpr std::size_t bytes = 64;
  const auto output =
      gpu.allocate(memory_kind::device, bytes * static_cast<std::size_t>(end.size()));
  const auto shard = gpu.allocate(memory_kind::device, bytes);
  end.all_gather(gpu.create_stream("gathers"), output, shard, {.what = "gather"});
}

TEST_CASE("ranks gather each other's bytes on the streams of their own GPUs", "[cuda][nccl]") {
  const auto size = GENERATE(1, 2, 3);
  gpu_ranks ranks(size);
  std::vector<int> right(static_cast<std::size_t>(size));

  on_all_ranks(ranks.group, [&](int rank) {
    auto own = at_work(ranks.group, rank, 300);
    own.play(0);
    own.play(1);
    own.finish();
    right[static_cast<std::size_t>(rank)] = own.right(0) && own.right(1);
  });

  CHECK(std::ranges::count(right, 1) == size);
  for (const auto& end : ranks.group.ends)
    CHECK_FALSE(end->asynchronous_failure());
}

TEST_CASE("an abort ends a gather on the GPU of a rank that waits for another", "[cuda][nccl]") {
  gpu_ranks ranks(2);
  {
    auto own = at_work(ranks.group, 0, 300);
    own.play(0);

    ranks.group.ends[1]->abort({.code = errc::io_failure, .detail = "the disk is full"});
    own.finish();
  }

  CHECK(ranks.group.ends[0]->asynchronous_failure()->detail == "the disk is full");
  ranks.group.ends.clear();
  ranks.group.devices.clear();
  for (const auto rank : {0, 1})
    CHECK(ranks.library.count("ncclCommAbort", rank) == 1);
}

TEST_CASE("a GPU that goes first closes its communicators before anything else of its own",
          "[cuda][nccl]") {
  gpu_ranks ranks(1);
  gather_alone(ranks.gpu(0), *ranks.group.ends[0]);
  static_cast<void>(ranks.gpu(0).create_event());
  ranks.cuda.forget_calls();

  ranks.group.devices.clear();

  CHECK(ranks.ends() == std::vector<std::string>{
                            "ncclCommFinalize", "ncclCommDestroy",  // By the watch, which then
                            "cudaEventDestroy", "cudaEventDestroy", // gives back its own events.
                            "cudaEventDestroy", "cudaStreamDestroy", "cudaFree", "cudaFree"});
}

TEST_CASE("a GPU that goes before the end of a gather aborts it first, and fails the other ranks",
          "[cuda][nccl]") {
  gpu_ranks ranks(2);
  gather_alone(ranks.gpu(0), *ranks.group.ends[0]);
  ranks.cuda.forget_calls();

  ranks.group.devices[0].reset();

  const auto ends = ranks.ends();
  const auto aborted = std::ranges::find(ends, "ncclCommAbort");
  CHECK(aborted < std::ranges::find(ends, "cudaStreamDestroy"));
  CHECK(aborted < std::ranges::find(ends, "cudaFree"));
  const auto cause = ranks.group.ends[1]->asynchronous_failure();
  REQUIRE(cause);
  CHECK_THAT(cause->detail, Contains("the device of rank 0 was closed before the end"));
}

} // namespace
} // namespace ferry::test
