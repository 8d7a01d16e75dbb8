// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/resident_weights.hpp>
#include <ferry/platform/caller_streams.hpp>
#include <ferry/platform/cuda_device.hpp>

#include "cuda/open_gpu.hpp"
#include "support/byte_blocks.hpp"
#include "support/catch.hpp"
#include "support/fake_cuda.hpp"
#include "support/fake_pipeline.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// The whole runtime over the CUDA device, on a fake of the CUDA runtime that does the work of a
// stream only when somebody waits for it.
namespace ferry {
namespace {

using namespace std::chrono_literals;
using test::byte_blocks;
using test::fake_cuda;

/// Streams of the caller that the device has adopted, as those of a framework are.
class foreign_streams final : public caller_streams {
public:
  foreign_streams(fake_cuda& cuda, cuda_device& gpu, std::size_t count) : cuda_(cuda), gpu_(gpu) {
    for (std::size_t i = 0; i != count; ++i) {
      const auto native = cuda_.make_stream();
      all_.emplace_back(native, gpu_.adopt_stream(native, "caller " + std::to_string(i)));
    }
  }
  ~foreign_streams() override {
    cuda_.finish();
    for (const auto& [native, stream] : all_) {
      gpu_.destroy_stream(stream);
      cuda_.drop_stream(native);
    }
  }

  [[nodiscard]] stream_id current() override {
    gpu_.require_open(all_[now_].second);
    return all_[now_].second;
  }
  [[nodiscard]] cudaStream_t native() const { return all_[now_].first; }
  void change() { now_ = (now_ + 1) % all_.size(); }

private:
  fake_cuda& cuda_;
  cuda_device& gpu_;
  std::vector<std::pair<cudaStream_t, stream_id>> all_;
  std::size_t now_ = 0;
};

struct fake_run {
  explicit fake_run(const byte_blocks& blocks_, std::size_t streams = 2, std::size_t slots = 2)
      : blocks(blocks_), gpu(cuda::open_gpu(cuda.api(), {}, {}).value()),
        callers(std::make_shared<foreign_streams>(cuda, *gpu, streams)),
        subject(gpu, {.slots = slots, .callers = callers, .acquire_deadline = 5s}) {
    REQUIRE(subject.start());
    auto opened = subject.enable(blocks.pinned(*gpu));
    REQUIRE(opened);
    gate = *opened;
  }

  /// Runs a block whose body, on the caller's stream, counts bytes that are not the block's and
  /// then poisons them.
  void run(std::size_t block) {
    const auto bytes = gate->acquire(block_id{static_cast<std::uint32_t>(block)});
    const auto value = std::byte{blocks.value_of(block)};
    cuda.launch(callers->native(), [this, bytes, value] {
      wrong += static_cast<std::uint64_t>(
          std::ranges::count_if(bytes, [value](std::byte each) { return each != value; }));
      std::ranges::fill(bytes, std::byte{0xff});
    });
    gate->release(block_id{static_cast<std::uint32_t>(block)});
  }

  const byte_blocks& blocks;
  std::atomic<std::uint64_t> wrong{0};
  fake_cuda cuda;
  std::shared_ptr<cuda_device> gpu;
  std::shared_ptr<foreign_streams> callers;
  runtime subject;
  std::shared_ptr<block_gate> gate;
};

TEST_CASE("blocks on streams of the caller read their own bytes through the CUDA runtime",
          "[actors][cuda][B01][B02]") {
  const auto streams = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{3});
  const byte_blocks blocks{{5}, 1};
  fake_run run{blocks, streams};
  REQUIRE(run.subject.begin_request());

  for (std::size_t i = 0; i != 30; ++i) {
    run.run(i % 5);
    run.callers->change();
  }
  REQUIRE(run.subject.end_request());
  REQUIRE(run.subject.disable());

  CHECK(run.wrong == 0);
  CHECK(run.cuda.misuse().empty());
  CHECK(run.gpu->counters().device_bytes == 0);
}

TEST_CASE("a steady step makes no call of the CUDA runtime that waits or allocates",
          "[actors][cuda][hot_path]") {
  const byte_blocks blocks{{6}, 0};
  fake_run run{blocks, 1};
  REQUIRE(run.subject.begin_request());
  for (std::size_t i = 0; i != 12; ++i)
    run.run(i % 6);
  run.cuda.forget_calls();

  for (std::size_t i = 0; i != 60; ++i)
    run.run(i % 6);

  for (const auto* forbidden : {"cudaStreamSynchronize", "cudaEventSynchronize", "cudaMalloc",
                                "cudaFree", "cudaHostRegister", "cudaHostUnregister",
                                "cudaStreamCreateWithFlags", "cudaEventCreateWithFlags"}) {
    INFO(forbidden);
    CHECK(run.cuda.count(forbidden) == 0);
  }
  CHECK(run.cuda.count("cudaMemcpyAsync") >= 50);
  REQUIRE(run.subject.end_request());
}

TEST_CASE("a block costs the CUDA runtime one copy, two records and two waits",
          "[actors][cuda][hot_path]") {
  constexpr std::size_t uses = 60;
  const byte_blocks blocks{{6}, 0};
  fake_run run{blocks, 1};
  REQUIRE(run.subject.begin_request());
  for (std::size_t i = 0; i != 12; ++i)
    run.run(i % 6);
  run.cuda.forget_calls();

  for (std::size_t i = 0; i != uses; ++i)
    run.run(i % 6);
  REQUIRE(run.subject.end_request());

  CHECK(run.cuda.count("cudaMemcpyAsync") <= uses + 2);
  CHECK(run.cuda.count("cudaEventRecord") <= 2 * (uses + 2));
  CHECK(run.cuda.count("cudaStreamWaitEvent") <= 2 * (uses + 2));
}

TEST_CASE("a block is refused while the caller's stream is being captured, and runs afterwards",
          "[actors][cuda][capture]") {
  const byte_blocks blocks{{3}, 0};
  fake_run run{blocks, 1};
  run.run(0);

  run.cuda.begin_capture(run.callers->native());
  CHECK_THROWS_WITH(run.gate->acquire(block_id{1}), Catch::Contains("captured into a CUDA graph"));
  CHECK(run.cuda.end_capture(run.callers->native()));

  for (std::size_t i = 0; i != 9; ++i)
    run.run(i % 3);
  REQUIRE(run.subject.disable());
  CHECK(run.wrong == 0);
}

TEST_CASE("weights that are resident as a whole are on the GPU when their tensors are bound to it",
          "[actors][cuda][resident]") {
  const auto root = test::node("test.root")->child("blocks", test::blocks(2));
  const auto first = root->at("blocks.0")->own_tensors().at("weight");
  const auto second = root->at("blocks.1")->own_tensors().at("weight");
  test::fake_pipeline subject{root};
  fake_cuda cuda;
  const auto gpu = cuda::open_gpu(cuda.api(), {}, {}).value();

  {
    const resident_weights everything{subject, *gpu};

    CHECK(std::ranges::count(first->bytes(), std::byte{1}) == std::ssize(first->bytes()));
    CHECK(std::ranges::count(second->bytes(), std::byte{2}) == std::ssize(second->bytes()));
  }
  CHECK(cuda.misuse().empty());
}

TEST_CASE("whatever call of the CUDA runtime fails, a run ends with an error and leaves nothing",
          "[actors][cuda][faults]") {
  const byte_blocks blocks{{3}, 1};
  std::size_t tried = 0;
  for (auto failed = true; failed; ++tried) {
    INFO("call " << tried << " fails");
    fake_cuda cuda;
    const std::shared_ptr<cuda_device> gpu = cuda::open_gpu(cuda.api(), {}, {}).value();
    const auto callers = std::make_shared<foreign_streams>(cuda, *gpu, 1);
    const auto before = gpu->counters();
    const auto called = cuda.count();
    cuda.fail_any(tried, cudaErrorUnknown);

    auto ok = true;
    try {
      runtime subject{gpu, {.slots = 2, .callers = callers, .acquire_deadline = 5s}};
      ok = subject.start().has_value();
      const auto gate = subject.enable(blocks.pinned(*gpu));
      ok = gate && subject.begin_request() && ok;
      for (std::size_t i = 0; gate && i != 6; ++i) {
        static_cast<void>((*gate)->acquire(block_id{static_cast<std::uint32_t>(i % 3)}));
        (*gate)->release(block_id{static_cast<std::uint32_t>(i % 3)});
      }
      ok = subject.end_request() && ok;
      ok = subject.disable() && ok;
      ok = subject.stop(10s) && ok;
    } catch (const ferry_error&) {
      ok = false;
    }
    failed = cuda.count() - called > tried;

    const auto left = gpu->counters();
    CHECK(left.device_bytes == before.device_bytes);
    CHECK(left.pinned_bytes == before.pinned_bytes);
    CHECK(left.streams == before.streams);
    CHECK(left.events == before.events);
    CHECK(cuda.misuse().empty());
    CHECK((ok || failed));
  }

  CHECK(tried > 50);
}

} // namespace
} // namespace ferry
