// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/catch.hpp"
#include "support/child_processes.hpp"
#include "support/gpu.hpp"
#include "support/scratch_directory.hpp"

#include <chrono>
#include <csignal>
#include <string>

namespace ferry::test {
namespace {

/// Two processes on a GPU each, the second of which may be killed in a round.
class two_ranks {
public:
  explicit two_ranks(int killed_in) {
    for (const auto rank : {0, 1})
      processes_.start({FERRY_GPU_RANK_PROCESS, directory_.path().string(), std::to_string(rank),
                        "2", std::to_string(rank == 1 ? killed_in : -1)});
  }

  [[nodiscard]] process_end wait(std::size_t rank) { return processes_.wait(rank); }

private:
  scratch_directory directory_;
  child_processes processes_;
};

TEST_CASE("ranks that are processes on a GPU each gather each other's shards", "[gpu][nccl]") {
  if (skipped_without(2))
    return;
  two_ranks ranks(-1);

  for (const auto rank : {0, 1}) {
    const auto end = ranks.wait(static_cast<std::size_t>(rank));
    INFO(end.out);
    CHECK(end.code == 0);
  }
}

TEST_CASE("a rank on a GPU that is killed in a gather ends the other with its number, at once",
          "[gpu][nccl]") {
  if (skipped_without(2))
    return;
  two_ranks ranks(GENERATE(0, 7));

  CHECK(ranks.wait(1).signal == SIGKILL);
  const auto died = std::chrono::steady_clock::now();
  const auto other = ranks.wait(0);

  CHECK(std::chrono::steady_clock::now() - died < std::chrono::seconds(20));
  CHECK(other.code == 1);
  CHECK_THAT(other.out, Catch::Contains("the process of rank 1 has ended"));
}

} // namespace
} // namespace ferry::test
