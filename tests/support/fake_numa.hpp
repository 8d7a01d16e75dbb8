// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/numa.hpp>
#include <ferry/platform/sim_options.hpp>

#include "support/scratch_directory.hpp"

#include <linux/mempolicy.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ferry::test {

/// Returns the policy that prefers `node`, one of the first.
[[nodiscard]] inline numa_policy preferring(int node) {
  numa_policy made{.mode = MPOL_PREFERRED};
  made.nodes[0] = 1UL << node;
  return made;
}

/// A kernel that does as a test says and remembers what it was asked. All threads have one policy.
/// Thread-safe; what a test reads or sets is of a moment when nobody calls.
struct fake_numa_kernel final : numa_kernel {
  [[nodiscard]] int read_policy(numa_policy& out) const noexcept override {
    const std::scoped_lock lock{mutex_};
    ++calls;
    if (refuses_read == 0)
      out = now;
    return refuses_read;
  }
  [[nodiscard]] int use_policy(const numa_policy& next) const noexcept override {
    const std::scoped_lock lock{mutex_};
    ++calls;
    if (refuses_use != 0)
      return refuses_use;
    now = next;
    on_change();
    return 0;
  }
  [[nodiscard]] int locate(std::span<void* const> pages,
                           std::span<int> nodes) const noexcept override {
    const std::scoped_lock lock{mutex_};
    ++calls;
    asked.insert(asked.end(), pages.begin(), pages.end());
    for (auto& each : nodes)
      each = node_of_next();
    return refuses_locate;
  }

  mutable numa_policy now;
  mutable int calls = 0;
  mutable std::vector<void*> asked; ///< Pages, in order.
  int refuses_read = 0;             ///< An `errno`.
  int refuses_use = 0;
  int refuses_locate = 0;
  std::function<int()> node_of_next = [] { return 0; }; ///< Of the page asked for.
  std::function<void()> on_change = [] {};              ///< Called when `now` is another.

private:
  mutable std::mutex mutex_;
};

/// Returns a simulated device that says it is near to `node`.
[[nodiscard]] inline sim_options near_to(std::optional<int> node) {
  sim_options made;
  made.node = node;
  return made;
}

/// Returns the nodes of a machine whose kernel lists those with memory as `list`.
[[nodiscard]] inline std::shared_ptr<const numa_nodes>
nodes_listed(const std::string& list, std::shared_ptr<const numa_kernel> kernel) {
  const scratch_directory root;
  root.write("sys/devices/system/node/has_memory", list + "\n");
  return std::make_shared<numa_nodes>(root.path(), std::move(kernel));
}

} // namespace ferry::test
