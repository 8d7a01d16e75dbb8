// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/rollback.hpp>

#include "support/catch.hpp"

#include <string>

namespace ferry {
namespace {

TEST_CASE("undos run in reverse, and only without a commit", "[offload][rollback]") {
  std::string log;
  auto committed = GENERATE(false, true);

  {
    rollback steps;
    steps.on_failure([&] { log += 'a'; });
    steps.on_failure([&] { log += 'b'; });
    if (committed)
      steps.commit();
  }

  CHECK(log == (committed ? "" : "ba"));
}

} // namespace
} // namespace ferry
