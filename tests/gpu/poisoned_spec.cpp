// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "support/catch.hpp"
#include "support/child_processes.hpp"

#include <sstream>
#include <string>

namespace ferry::test {

using Catch::Contains;

TEST_CASE("a kernel that accesses what is not there loses the GPU to its process, which ends",
          "[gpu]") {
  child_processes processes;
  processes.start({FERRY_POISONED_PROCESS});

  const auto end = processes.wait(0);

  CAPTURE(end.out);
  CHECK(end.code == 0);
  std::istringstream lines(end.out);
  std::string first, later, opened;
  std::getline(lines, first);
  std::getline(lines, later);
  std::getline(lines, opened);
  CHECK_THAT(first, Contains("cudaErrorIllegalAddress"));
  CHECK_THAT(later, Contains("device_poisoned") && Contains("cudaErrorIllegalAddress"));
  CHECK_THAT(opened, Contains("this process cannot use cuda:0"));
}

} // namespace ferry::test
