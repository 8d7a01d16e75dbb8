// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "page_cache_room.hpp"

#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ferry {
namespace {

host_limits with(std::optional<std::uint64_t> available) {
  return {.limit = {}, .available = available, .decided_by = "memory.max"};
}

TEST_CASE("weights that half of the memory has room for may all stay in the page cache",
          "[app][page_cache]") {
  const test::scratch_directory checkpoint;
  checkpoint.write("transformer/one.safetensors", std::string(600, 'w'));
  checkpoint.write("transformer/two.safetensors", std::string(400, 'w'));
  checkpoint.write("transformer/config.json", std::string(5000, '{'));

  CHECK(page_cache_room(checkpoint.path(), with(2000)) == std::nullopt);
  CHECK(page_cache_room(checkpoint.path(), with(1998)) == 999);
  CHECK(page_cache_room(checkpoint.path(), with(0)) == 0);
  CHECK(page_cache_room(checkpoint.path(), with(std::nullopt)) == std::nullopt);
  CHECK(page_cache_room(checkpoint.path() / "missing", with(10)) == std::nullopt);
}

} // namespace
} // namespace ferry
