// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/host_lease.hpp>

#include "support/catch.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace ferry {
namespace {

using Catch::Contains;
using strings = std::vector<std::string>;

static_assert(!std::is_copy_constructible_v<host_lease>);
static_assert(!std::is_move_constructible_v<host_lease>);
static_assert(!std::is_copy_constructible_v<lease_carrier>);

const leased_tensor_form matrix{
    .type = dtype::f32, .shape = {2, 2}, .strides = {2, 1}, .bytes = 16};

/// Weights of one matrix, and a log of what is given back.
struct artifact {
  [[nodiscard]] leased_weights weights() const {
    return {"resolution-7", {{"transformer.weight", {matrix, bytes}}}, {{"blob", bytes, true}}};
  }
  [[nodiscard]] host_lease::closer note(const std::string& what) {
    return [this, what] { closed.push_back(what); };
  }
  [[nodiscard]] std::unique_ptr<host_lease> open() {
    return host_lease::open(weights(), {{"transformer.weight", matrix}},
                            {{note("map"), note("file")}, note("lock")})
        .value();
  }

  std::vector<std::byte> bytes = std::vector<std::byte>(16);
  strings closed;
};

TEST_CASE("a lease that matches its manifest shows its tensors, regions and provenance",
          "[offload][host_lease]") {
  artifact stored;

  const auto lease = stored.open();

  CHECK(lease->weights().resolution_id == "resolution-7");
  CHECK(lease->weights().tensors.at("transformer.weight").bytes.data() == stored.bytes.data());
  CHECK(lease->weights().regions.front().file == "blob");
  CHECK_FALSE(lease->closed());
}

TEST_CASE("a lease that differs from its manifest is refused by tensor and given back",
          "[offload][host_lease]") {
  artifact stored;
  auto weights = stored.weights();
  auto& tensor = weights.tensors.at("transformer.weight");
  std::string what;
  SECTION("type") {
    tensor.form.type = dtype::f16;
    what = "F16[2,2]";
  }
  SECTION("shape") {
    tensor.form.shape = {4};
    what = "[4]";
  }
  SECTION("strides") {
    tensor.form.strides = {1, 2};
    what = "strides [1,2]";
  }
  SECTION("size") {
    tensor.bytes = tensor.bytes.first(8);
    what = "8 bytes long";
  }
  SECTION("missing") {
    weights.tensors.clear();
    what = "missing";
  }
  SECTION("surplus") {
    weights.tensors.emplace("transformer.weights", tensor);
    what = "no such tensor";
  }

  const auto opened = host_lease::open(std::move(weights), {{"transformer.weight", matrix}},
                                       {{stored.note("map")}, stored.note("lock")});

  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == errc::invalid_checkpoint);
  CHECK_THAT(opened.error().detail, Contains("transformer.weight") && Contains(what));
  CHECK(stored.closed == strings{"map", "lock"});
}

TEST_CASE("a lease closes in reverse order, the lock last, and once", "[offload][host_lease]") {
  artifact stored;
  const auto lease = stored.open();

  CHECK(lease->close());
  CHECK(lease->close());

  CHECK(lease->closed());
  CHECK(stored.closed == strings{"file", "map", "lock"});
}

TEST_CASE("a lease closes when it is destroyed", "[offload][host_lease]") {
  artifact stored;

  stored.open().reset();

  CHECK(stored.closed == strings{"file", "map", "lock"});
}

TEST_CASE("a closer that fails does not keep the others from running", "[offload][host_lease]") {
  artifact stored;
  const auto lease =
      host_lease::open(stored.weights(), {{"transformer.weight", matrix}},
                       {{stored.note("map"), [] { throw std::runtime_error{"unmap failed"}; }},
                        stored.note("lock")})
          .value();

  const auto closed = lease->close();

  REQUIRE_FALSE(closed);
  CHECK(closed.error() == failure{errc::incomplete, "unmap failed"});
  CHECK(stored.closed == strings{"map", "lock"});
  CHECK(lease->close());
}

TEST_CASE("a child process leaves the lock of an inherited lease to its parent",
          "[offload][host_lease]") {
  int unlocked = 0;
  const auto lease = host_lease::open({}, {}, {{}, [&unlocked] { ++unlocked; }}).value();

  const auto child = ::fork();
  if (child == 0) {
    static_cast<void>(lease->close());
    ::_exit(unlocked);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);

  CHECK(WEXITSTATUS(status) == 0);
  CHECK(lease->close());
  CHECK(unlocked == 1);
}

TEST_CASE("a carrier hands its lease over once", "[offload][host_lease]") {
  artifact stored;
  lease_carrier carrier{stored.open()};

  auto taken = carrier.take();

  REQUIRE(taken);
  CHECK_FALSE(carrier.holds());
  CHECK(carrier.take().error().code == errc::stale_handle);
  CHECK(carrier.close());
  CHECK(stored.closed.empty());
}

TEST_CASE("a carrier closes the lease that nobody took, once", "[offload][host_lease]") {
  artifact stored;
  {
    lease_carrier carrier{stored.open()};
    CHECK(carrier.close());
    CHECK(carrier.close());
    CHECK(carrier.take().error().code == errc::stale_handle);
  }

  CHECK(stored.closed == strings{"file", "map", "lock"});
}

TEST_CASE("a carrier that is dropped closes its lease", "[offload][host_lease]") {
  artifact stored;

  {
    const lease_carrier carrier{stored.open()};
  }

  CHECK(stored.closed.back() == "lock");
}

} // namespace
} // namespace ferry
