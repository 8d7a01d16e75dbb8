// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "process/shared_memory.hpp"

#include <ferry/platform/error.hpp>

#include "support/catch.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ferry {
namespace {

using Catch::Contains;

constexpr std::size_t size = 8192;

/// Returns memory that another process might offer to share.
file_descriptor offered(std::size_t bytes, int seals) {
  auto file = file_descriptor(::memfd_create("offered", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(file.number(), static_cast<::off_t>(bytes)) == 0);
  REQUIRE(::fcntl(file.number(), F_ADD_SEALS, seals) == 0);
  return file;
}

TEST_CASE("what one maps another sees", "[process]") {
  const shared_memory made(size);
  const shared_memory mapped(file_descriptor(::dup(made.descriptor())), size);

  made.bytes()[size - 1] = std::byte{7};

  CHECK(mapped.bytes()[size - 1] == std::byte{7});
}

TEST_CASE("shared memory of another length than expected is refused with both", "[process]") {
  const auto found = GENERATE(size - 1, size + 1);

  CHECK_THROWS_WITH(shared_memory(offered(found, F_SEAL_SHRINK), size),
                    Contains("found " + std::to_string(found) + " bytes, expected 8192"));
}

TEST_CASE("shared memory that could be cut short under those who map it is refused", "[process]") {
  CHECK_THROWS_WITH(shared_memory(offered(size, F_SEAL_GROW), size), Contains("cannot shrink"));
  CHECK_NOTHROW(shared_memory(offered(size, F_SEAL_SHRINK), size));
}

TEST_CASE("a file that knows no seals is refused as shared memory", "[process]") {
  auto file = file_descriptor(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto length = static_cast<std::size_t>(::lseek(file.number(), 0, SEEK_END));

  CHECK_THROWS_AS(shared_memory(std::move(file), length), device_error);
}

} // namespace
} // namespace ferry
