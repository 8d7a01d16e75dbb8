// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/usable_cores.hpp>

#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <sched.h>

#include <algorithm>
#include <string>
#include <thread>

namespace ferry {
namespace {

/// Lets the calling thread run on its first `count` cores until it goes.
class only_cores {
public:
  explicit only_cores(int count) {
    ::sched_getaffinity(0, sizeof before_, &before_);
    ::cpu_set_t fewer;
    CPU_ZERO(&fewer);
    for (int core = 0; core != CPU_SETSIZE && CPU_COUNT(&fewer) != count; ++core)
      if (CPU_ISSET(core, &before_))
        CPU_SET(core, &fewer);
    ::sched_setaffinity(0, sizeof fewer, &fewer);
  }
  only_cores(const only_cores&) = delete;
  only_cores& operator=(const only_cores&) = delete;
  ~only_cores() { ::sched_setaffinity(0, sizeof before_, &before_); }

  [[nodiscard]] std::size_t before() const { return static_cast<std::size_t>(CPU_COUNT(&before_)); }

private:
  ::cpu_set_t before_;
};

TEST_CASE("the cores of a process are those that it may run on", "[platform][cores]") {
  const test::scratch_directory empty;
  {
    const only_cores one{1};
    CHECK(usable_cores(empty.path()) == 1);
  }
  CHECK(usable_cores(empty.path()) == only_cores{CPU_SETSIZE}.before());
}

TEST_CASE("a quota of processor time leaves fewer cores, in both generations of control groups",
          "[platform][cores]") {
  const test::scratch_directory files;
  const auto put = [&](const std::string& name, const std::string& text) {
    files.write(name, text);
  };
  SECTION("unified") {
    put("proc/self/cgroup", "0::/pod/app\n");
    put("sys/fs/cgroup/pod/cpu.max", "190000 100000\n");
    put("sys/fs/cgroup/pod/app/cpu.max", "max 100000\n");
  }
  SECTION("one hierarchy a controller") {
    put("proc/self/cgroup", "3:cpu,cpuacct:/pod/app\n0::/\n");
    put("sys/fs/cgroup/cpu/pod/app/cpu.cfs_quota_us", "150000\n");
    put("sys/fs/cgroup/cpu/pod/app/cpu.cfs_period_us", "100000\n");
  }
  SECTION("less than a core") {
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/cpu.max", "20000 100000\n");
  }
  CHECK(usable_cores(files.path()) == 1);
}

TEST_CASE("a quota that is none, or more than there are cores, limits nothing",
          "[platform][cores]") {
  const test::scratch_directory files;
  const auto all = only_cores{CPU_SETSIZE}.before();
  files.write("proc/self/cgroup", "0::/app\n3:cpu:/app\n");
  files.write("sys/fs/cgroup/app/cpu.max", GENERATE("max 100000\n", "99900000 100000\n", "", "7"));
  files.write("sys/fs/cgroup/cpu/app/cpu.cfs_quota_us", "-1\n");
  files.write("sys/fs/cgroup/cpu/app/cpu.cfs_period_us", "100000\n");
  CHECK(usable_cores(files.path()) == all);
}

} // namespace
} // namespace ferry
