// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/event.hpp>
#include <ferry/platform/log.hpp>
#include <ferry/platform/stream.hpp>

#include "contract/device_rig.hpp"
#include "cuda/open_gpu.hpp"
#include "support/catch.hpp"
#include "support/fake_cuda.hpp"
#include "support/fake_gpu.hpp"
#include "support/read_only_pages.hpp"

#include <string>

namespace ferry::test {
namespace {

/// Registered pages that are given back, as their owner does, until that works.
class registered {
public:
  registered(device& owner, const_bytes pages) : owner_(&owner), pages_(pages) {
    owner.register_pages(pages);
  }
  registered(const registered&) = delete;
  registered& operator=(const registered&) = delete;
  ~registered() {
    if (failure_of([&] { owner_->unregister_pages(pages_); }))
      static_cast<void>(failure_of([&] { owner_->unregister_pages(pages_); }));
  }

private:
  device* owner_;
  const_bytes pages_;
};

/// Opens a GPU, uses all that it has, and closes it. Throws what fails.
void whole_life(const fake_cuda& cuda, bool observed) {
  auto opened = cuda::open_gpu(cuda.api(), {}, {});
  if (!opened)
    throw ferry_error(opened.error());
  auto& gpu = **opened;
  recording_observer observer;
  const auto detach = [&](recording_observer* each) { gpu.detach(*each); };
  std::unique_ptr<recording_observer, decltype(detach)> attached(nullptr, detach);
  if (observed) {
    gpu.attach(observer);
    attached.reset(&observer);
  }

  const read_only_pages pages(2, 7);
  const auto slot = on_device(gpu);
  const auto weights = pinned(gpu, 1);
  const auto seen = pinned(gpu, 0);
  const registered mapped(gpu, pages.bytes());
  stream copies(gpu, "copies");
  stream compute(gpu, "compute");
  event ready(gpu);
  event used(gpu);
  try {
    static_cast<void>(gpu.memory());
    static_cast<void>(gpu.pages_registered(pages.bytes()));
    for (const auto& source : {const_bytes(weights.bytes()), pages.at(1)}) {
      copies.wait(used, contract_edge);
      copies.copy({.target = slot.bytes(),
                   .source = source,
                   .from = source.data() == pages.at(1).data() ? memory_kind::registered
                                                               : memory_kind::pinned,
                   .tag = {}});
      copies.record(ready);
      compute.wait(ready, contract_edge);
      compute.copy(download(seen, slot));
      compute.record(used);
    }
    static_cast<void>(used.ready());
    used.synchronize(contract_edge);
    compute.synchronize(contract_edge);
    if (!holds(gpu, seen, 7))
      throw device_error(errc::internal, "copy", "wrong bytes");
  } catch (const ferry_error&) {
    // Whoever gives memory back has waited for the work that touches it.
    const_cast<fake_cuda&>(cuda).finish();
    throw;
  }
}

bool ends_something(const std::string& call) {
  return call.starts_with("cudaEventDestroy") || call.starts_with("cudaStreamDestroy");
}

TEST_CASE("a GPU of which any one call fails leaves nothing behind and says which it was") {
  const auto observed = GENERATE(false, true);
  const auto status = GENERATE(cudaErrorUnknown, cudaErrorMemoryAllocation);
  log_at_least(log_level::off);
  std::size_t failed = 0;
  for (std::size_t n = 0;; ++n) {
    fake_cuda cuda;
    cuda.fail_any(n, status);

    const auto refused = failure_of([&] { whole_life(cuda, observed); });

    const auto calls = cuda.calls();
    if (n >= calls.size()) {
      CHECK_FALSE(refused);
      break;
    }
    ++failed;
    INFO("call " << n << " fails: " << calls[n]);
    // An event or stream that CUDA does not end cannot be ended. All else is tried again.
    CHECK(cuda.left().size() == (ends_something(calls[n]) ? 1 : 0));
    CHECK(cuda.misuse() == call_list{});
    CHECK(cuda.pending() == cudaSuccess);
    CHECK((fake_cuda::capture_mode_is_default() || calls[n].ends_with("mode=0")));
    if (refused) {
      CHECK(refused->code != errc::internal);
      CHECK_THAT(refused->detail, Catch::Contains(calls[n].substr(0, calls[n].find(' '))));
    }
  }
  log_at_least(log_level::warn);
  CHECK(failed > 60);
}

TEST_CASE("a GPU that is lost at any call ends without a crash and refuses from there on") {
  const auto observed = GENERATE(false, true);
  log_at_least(log_level::off);
  for (std::size_t n = 0;; ++n) {
    fake_cuda cuda;
    cuda.lose_at(n, cudaErrorIllegalAddress);

    const auto refused = failure_of([&] { whole_life(cuda, observed); });

    if (n >= cuda.count())
      break;
    INFO("the GPU is lost at call " << n << ": " << cuda.calls()[n]);
    CHECK(cuda.misuse() == call_list{});
    if (refused)
      CHECK((refused->code == errc::device_failure || refused->code == errc::device_poisoned));
  }
  log_at_least(log_level::warn);
}

} // namespace
} // namespace ferry::test
