// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/member_differences.hpp>

#include "support/catch.hpp"

#include <string>

namespace ferry {
namespace {

TEST_CASE("objects that differ are told apart by their members, with both values",
          "[offload][ballot]") {
  const auto [own, of_rank_0, expected] = GENERATE(table<std::string, std::string, std::string>({
      {R"({"a":1})", R"({"a":1})", ""},
      {R"({"a":1})", R"({"a":2})", "a 1 (rank 0: 2)"},
      {R"({"a":{"b":"x"},"c":3})", R"({"a":{"b":"y"},"c":3})", R"(a.b "x" (rank 0: "y"))"},
      {R"({"a":1})", R"({"b":[]})", "a 1 (rank 0: nothing), b nothing (rank 0: [])"},
      {R"({"s":[4,4]})", R"({"s":[4,8,4]})", "s [4,4] (rank 0: [4,8,4])"},
      {R"({"s":null})", R"({"s":[]})", "s null (rank 0: [])"},
      {R"({"s":[0,0,0,0,0,0,0,0,0]})", R"({"s":[0,1,0,0,0,0,0,0,0,0]})",
       "s[1] 0 (rank 0: 1), s[9] nothing (rank 0: 0)"},
      {R"({"s":[0,0,0,0,0,0,0,0,0]})", R"({"s":[1,1,1,1,1,1,1,1,1]})",
       "s[0] 0 (rank 0: 1), s[1] 0 (rank 0: 1), s[2] 0 (rank 0: 1), s[3] 0 (rank 0: 1), "
       "s[4] 0 (rank 0: 1) and 4 more"},
      {"torn", R"("0123456789012345678901234567890123456789012345678901234567890")",
       R"("torn" (rank 0: "01234567890123456789012345678901234567890123456789012345678...))"},
  }));
  CAPTURE(own, of_rank_0);

  CHECK(member_differences(own, of_rank_0) == expected);
}

} // namespace
} // namespace ferry
