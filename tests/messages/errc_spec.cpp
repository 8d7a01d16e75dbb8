// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/messages/errc.hpp>

#include "support/catch.hpp"

namespace ferry {
namespace {

TEST_CASE("a failure crosses actors with its code, detail, block, rank and vendor code",
          "[messages][errc]") {
  const failure sent{errc::device_failure, "copy failed", "blocks.3", 2, 719};

  CHECK(to_failure(to_error(sent)) == sent);
}

TEST_CASE("what a failure does not know stays unknown on the way", "[messages][errc]") {
  const failure sent{errc::busy, "a request is running"};

  CHECK(to_failure(to_error(sent)) == sent);
}

TEST_CASE("errors of the actor framework become the nearest code", "[messages][errc]") {
  CHECK(to_failure(caf::sec::request_timeout).code == errc::deadline_exceeded);
  CHECK(to_failure(caf::sec::request_receiver_down).code == errc::transfer_aborted);
  CHECK(to_failure(caf::sec::runtime_error).code == errc::internal);
  CHECK(to_failure(caf::error{}).code == errc::internal);
}

} // namespace
} // namespace ferry
