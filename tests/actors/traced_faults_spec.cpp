// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/trace_file.hpp>
#include <ferry/actors/trace_log.hpp>
#include <ferry/offload/trace_reader.hpp>

#include "support/catch.hpp"
#include "support/life_plans.hpp"
#include "support/scratch_directory.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace ferry {
namespace {

using test::life_plan;
using test::message_fault;
using test::supervised_life;

/// Each sweep strikes one place of so many: every place has its own without a trace.
constexpr std::uint64_t stride = 11;

/// Records whatever the actors on this thread do and the device they do it on.
class recording {
public:
  explicit recording(std::shared_ptr<sim_device> gpu)
      : gpu_(std::move(gpu)),
        file_(std::make_shared<trace_file>(path_, trace_file::time::modelled)),
        log_(std::make_unique<trace_log>(file_, 0, *gpu_)) {
    gpu_->attach(*log_);
    trace_log::use_on_this_thread(log_.get());
  }
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;
  ~recording() { end(); }

  /// Ends it and reads what was written.
  [[nodiscard]] result<trace> finish() {
    end();
    if (auto written = file_->finish(); !written)
      return tl::unexpected(written.error());
    return read_trace(path_);
  }

private:
  void end() {
    if (log_ == nullptr)
      return;
    trace_log::use_on_this_thread(nullptr);
    gpu_->detach(*log_);
    log_.reset();
  }

  test::scratch_directory scratch_;
  std::filesystem::path path_ = scratch_.path() / "t.json";
  std::shared_ptr<sim_device> gpu_;
  std::shared_ptr<trace_file> file_;
  std::unique_ptr<trace_log> log_;
};

/// Checks that a life did no harm, also where it met a fault, and left a whole trace of itself.
void check_end(supervised_life& life, bool struck, recording& recorded) {
  const auto bad = struck ? test::harm_done(life) : life.leftovers();
  CHECK(test::joined(bad) == "");
  const auto read = recorded.finish();
  REQUIRE(read);
  CHECK(read->complete);
  CHECK(read->dropped == 0);
  CHECK_FALSE(read->messages.empty());
}

/// Makes one message in `stride` fail. Returns how many did.
std::uint64_t at_some_messages(const life_plan& what, message_fault kind) {
  for (std::uint64_t n = 0;; n += stride) {
    const auto gpu = std::make_shared<sim_device>(sim_options{});
    recording recorded{gpu};
    supervised_life life{what.pipeline(), gpu, what};
    life.faults().fail_after(n, kind);
    const auto succeeded = life.live();
    INFO("message " << n << " (" << life.faults().what() << ") is " << describe(kind));
    const auto struck = life.faults().struck();
    CHECK((struck || succeeded));
    check_end(life, struck, recorded);
    if (!struck)
      return n / stride;
  }
}

TEST_CASE(
    "a life that is recorded takes a message's fault as one that is not, and its trace is whole",
    "[actors][faults][trace]") {
  std::uint64_t points = 0;
  for (const auto& plan : test::all_life_plans())
    for (const auto kind : {message_fault::lost, message_fault::refused, message_fault::killed})
      points += at_some_messages(plan, kind);

  CHECK(points > 150);
}

TEST_CASE(
    "a life that is recorded takes a device's fault as one that is not, and its trace is whole",
    "[actors][faults][trace]") {
  std::uint64_t points = 0;
  for (const auto& plan : test::all_life_plans())
    for (const auto effect : {fault_effect::once, fault_effect::sticky})
      for (std::uint64_t after = 0, struck = 1; struck != 0; after += stride) {
        const auto gpu = std::make_shared<sim_device>(sim_options{});
        recording recorded{gpu};
        supervised_life life{plan.pipeline(), gpu, plan};
        gpu->inject({.after = after, .effect = effect});
        const auto succeeded = life.live();
        struck = gpu->cancel_failure() ? 1 : 0;
        points += struck;
        CHECK((struck != 0 || succeeded));
        if (struck != 0 && effect != fault_effect::once)
          life.end_device();
        INFO("device call " << after << " fails, effect " << static_cast<int>(effect));
        check_end(life, struck != 0, recorded);
      }

  CHECK(points > 120);
}

} // namespace
} // namespace ferry
