// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/leased_stack.hpp"

#include <ferry/platform/memory.hpp>
#include <ferry/platform/sim_device.hpp>

#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <memory>
#include <string>

namespace ferry::bench {
namespace {

using Catch::Contains;

constexpr std::size_t blocks = 4;
const auto block_bytes = 3 * page_bytes();

struct weights_in_a_file {
  test::scratch_directory scratch;
  std::shared_ptr<const mapped_file> file = std::make_shared<const mapped_file>(
      scratch.write("weights.bin", std::string(blocks* block_bytes, 'w')));
  std::shared_ptr<sim_device> gpu = std::make_shared<sim_device>(sim_options{});
};

TEST_CASE("the two sides of P15 move the same bytes, one of them past the host's own copies",
          "[actors][benchmarks]") {
  const auto how = GENERATE(page_access::registered, page_access::staged);
  const weights_in_a_file on;
  leased_stack stack(on.gpu, on.file, blocks, how, {});

  stack.request(3);

  CHECK(on.gpu->counters().registered_bytes ==
        (how == page_access::registered ? blocks * block_bytes : 0));
  CHECK((on.gpu->counters().pinned_bytes > 0) == (how == page_access::staged));
  // The ring has fetched the first two blocks of the next request.
  CHECK(on.gpu->counters().h2d_bytes == (3 * blocks + 2) * block_bytes);
  CHECK(on.gpu->race_count() == 0);
}

TEST_CASE("P15 does not compare with pages that could not be registered", "[actors][benchmarks]") {
  const weights_in_a_file on;
  on.gpu->inject({.call = device_call::register_pages});

  CHECK_THROWS_WITH(leased_stack(on.gpu, on.file, blocks, page_access::registered, {}),
                    Contains("register_pages"));
}

} // namespace
} // namespace ferry::bench
