// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <type_traits>

namespace ferry::test {

/// Checks that nobody holds anything of `gpu` any more, and that there was no race.
inline void check_nothing_left(const sim_device& gpu) {
  const auto left = gpu.counters();
  CHECK(left.device_bytes == 0);
  CHECK(left.pinned_bytes == 0);
  CHECK(left.streams == 0);
  CHECK(left.events == 0);
  for (const auto& found : gpu.races())
    UNSCOPED_INFO(describe(found));
  CHECK(gpu.race_count() == 0);
}

template <class Gpu>
[[nodiscard]] std::uint64_t seed_of(const Gpu& gpu) {
  if constexpr (requires { gpu.seed(); })
    return gpu.seed();
  else
    return 0;
}

/// Runs `attempt` once for every device call it makes, failing a later call each time, and `check`
/// after each failure. Ends with the first run in which nothing fails. An attempt fails by throwing
/// a `ferry_error` or by returning false. `gpu` is a `sim_device` or a `failing_device`.
/// @return how many calls were made to fail
template <class Gpu, class Attempt, class Check>
std::uint64_t at_every_fault_point(Gpu& gpu, Attempt attempt, Check check) {
  auto succeeds = [&] {
    try {
      if constexpr (std::is_same_v<decltype(attempt()), bool>)
        return attempt();
      else
        return attempt(), true;
    } catch (const ferry_error&) {
      return false;
    }
  };
  for (std::uint64_t n = 0;; ++n) {
    INFO("device call " << n << " fails, seed " << seed_of(gpu));
    gpu.fail_after(n);
    auto succeeded = succeeds();
    auto failed = gpu.cancel_failure();
    if (!failed) {
      REQUIRE(succeeded);
      return n;
    }
    CHECK_FALSE(succeeded);
    check();
  }
}

} // namespace ferry::test
