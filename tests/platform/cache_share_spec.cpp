// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/cache_share.hpp"

#include "support/catch.hpp"

#include <array>

using namespace ferry;

namespace {

constexpr std::array<std::byte, 100> file{};

const_bytes part(std::size_t offset, std::size_t bytes) {
  return const_bytes(file).subspan(offset, bytes);
}

} // namespace

TEST_CASE("the pieces that came again first stay in the page cache, as many as there is room for") {
  cache_share cache(50);
  for (const auto offset : {0U, 20U, 40U, 60U, 70U})
    CHECK_FALSE(cache.keeps(part(offset, 10)));
  CHECK_FALSE(cache.keeps(part(80, 20)));
  for (int round = 0; round != 3; ++round) {
    CHECK(cache.keeps(part(0, 10)));
    CHECK(cache.keeps(part(20, 10)));
    CHECK(cache.keeps(part(40, 10)));
    CHECK(cache.keeps(part(60, 10)));
    CHECK(cache.keeps(part(70, 10)));
  }
}

TEST_CASE("what comes once takes no room from what comes round") {
  cache_share cache(30);
  CHECK_FALSE(cache.keeps(part(50, 30)));
  for (int round = 0; round != 3; ++round)
    CHECK(cache.keeps(part(0, 30)) == (round > 0));
  CHECK_FALSE(cache.keeps(part(50, 30)));
}

TEST_CASE("without a limit every piece stays, without room none does") {
  cache_share all(std::nullopt);
  cache_share none(0);
  CHECK(all.keeps(part(0, 100)));
  CHECK_FALSE(none.keeps(part(0, 100)));
  CHECK_FALSE(none.keeps(part(0, 100)));
}
