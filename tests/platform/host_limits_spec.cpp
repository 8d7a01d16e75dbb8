// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/host_limits.hpp>

#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <string>

namespace ferry {
namespace {

/// The files of a machine, as a test wants them. 8 MiB are available unless a group says less.
struct machine {
  machine() {
    put("proc/meminfo", "MemTotal:       16384 kB\nMemFree:         1024 kB\n"
                        "MemAvailable:    8192 kB\n");
  }
  void put(const std::string& name, const std::string& content) const {
    files.write(name, content);
  }
  [[nodiscard]] host_limits limits() const { return read_host_limits(files.path()); }

  test::scratch_directory files;
};

TEST_CASE("without control groups the machine's available memory is what there is",
          "[platform][host_limits]") {
  const machine bare;

  const auto found = bare.limits();

  CHECK(found.limit == std::nullopt);
  CHECK(found.available == 8u << 20);
  CHECK_THAT(found.decided_by, Catch::Contains("meminfo"));
}

TEST_CASE("a machine that says nothing limits nothing", "[platform][host_limits]") {
  const test::scratch_directory empty;

  CHECK(read_host_limits(empty.path()) == host_limits{});
}

TEST_CASE("the limit of a container is respected in both generations of control groups",
          "[platform][host_limits]") {
  const machine container;
  SECTION("unified") {
    container.put("proc/self/cgroup", "0::/pod/app\n");
    container.put("sys/fs/cgroup/pod/app/memory.max", "5000000\n");
    container.put("sys/fs/cgroup/pod/app/memory.current", "2000000\n");
  }
  SECTION("one hierarchy a controller") {
    container.put("proc/self/cgroup", "3:cpu,memory:/pod/app\n1:pids:/other\n0::/\n");
    container.put("sys/fs/cgroup/memory/pod/app/memory.limit_in_bytes", "5000000\n");
    container.put("sys/fs/cgroup/memory/pod/app/memory.usage_in_bytes", "2000000\n");
  }
  SECTION("seen as the root from inside") {
    container.put("proc/self/cgroup", "0::/docker/0123\n");
    container.put("sys/fs/cgroup/memory.max", "5000000\n");
    container.put("sys/fs/cgroup/memory.current", "2000000\n");
  }

  const auto found = container.limits();

  CHECK(found.limit == 5'000'000);
  CHECK(found.available == 3'000'000);
  CHECK_THAT(found.decided_by, Catch::Contains("memory.max") || Catch::Contains("limit_in_bytes"));
}

TEST_CASE("the tightest group on the way down decides", "[platform][host_limits]") {
  const machine nested;
  nested.put("proc/self/cgroup", "0::/pod/app\n");
  nested.put("sys/fs/cgroup/pod/memory.max", "4000000\n");
  nested.put("sys/fs/cgroup/pod/memory.current", "3500000\n");
  nested.put("sys/fs/cgroup/pod/app/memory.max", "3000000\n");
  nested.put("sys/fs/cgroup/pod/app/memory.current", "1000000\n");

  const auto found = nested.limits();

  CHECK(found.limit == 3'000'000);
  CHECK(found.available == 500'000);
  CHECK_THAT(found.decided_by, Catch::EndsWith("pod/memory.max"));
}

TEST_CASE("a group without a limit changes nothing", "[platform][host_limits]") {
  const machine open;
  open.put("proc/self/cgroup", "4:memory:/a\n0::/b\n");
  open.put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  open.put("sys/fs/cgroup/b/memory.max", "max\n");

  const auto found = open.limits();

  CHECK(found.limit == std::nullopt);
  CHECK(found.available == 8u << 20);
}

TEST_CASE("page cache that can be given up counts as free", "[platform][host_limits]") {
  const machine reader;
  reader.put("proc/self/cgroup", "0::/app\n");
  reader.put("sys/fs/cgroup/app/memory.max", "5000000\n");
  reader.put("sys/fs/cgroup/app/memory.current", "5000000\n");
  reader.put("sys/fs/cgroup/app/memory.stat",
             "anon 1000000\nfile 4000000\nactive_file 1500000\ninactive_file 500000\n");

  CHECK(reader.limits().available == 2'000'000);
}

TEST_CASE("a group that is beyond its limit has nothing left", "[platform][host_limits]") {
  const machine full;
  full.put("proc/self/cgroup", "0::/app\n");
  full.put("sys/fs/cgroup/app/memory.max", "1000000\n");
  full.put("sys/fs/cgroup/app/memory.current", "2000000\n");

  CHECK(full.limits().available == 0);
}

TEST_CASE("damaged files limit nothing", "[platform][host_limits]") {
  const machine odd;
  odd.put("proc/self/cgroup", "nonsense\n:\n0::/app\n4:memory\n");
  odd.put("sys/fs/cgroup/app/memory.max", "");
  odd.put("sys/fs/cgroup/app/memory.current", "many\n");

  CHECK(odd.limits().available == 8u << 20);
}

TEST_CASE("this machine says how much memory is available", "[platform][host_limits]") {
  CHECK(read_host_limits("/").available > 0);
}

} // namespace
} // namespace ferry
