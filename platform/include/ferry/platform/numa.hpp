// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ferry {

/// From which nodes a thread's new pages come, as the kernel has it.
struct numa_policy {
  static constexpr int most_nodes = 1024; ///< Their numbers are below this.

  int mode = 0; ///< `MPOL_...`
  std::array<unsigned long, most_nodes / std::numeric_limits<unsigned long>::digits> nodes{};

  friend bool operator==(const numa_policy&, const numa_policy&) = default;
};

/// What the kernel is asked about nodes. Members return 0 or an `errno`. Thread-safe.
class numa_kernel {
public:
  virtual ~numa_kernel() = default;

  /// Reads the policy of the calling thread.
  [[nodiscard]] virtual int read_policy(numa_policy& now) const noexcept = 0;

  /// Gives the calling thread a policy.
  [[nodiscard]] virtual int use_policy(const numa_policy& next) const noexcept = 0;

  /// Sets each of `nodes` to the node of the page, or below 0 where there is no page yet.
  /// @pre as many `nodes` as `pages`
  [[nodiscard]] virtual int locate(std::span<void* const> pages,
                                   std::span<int> nodes) const noexcept = 0;
};

/// Returns the kernel that runs this process. It may refuse all of it with `EPERM`: containers
/// often do.
[[nodiscard]] std::shared_ptr<const numa_kernel> running_kernel();

/// The nodes that the host's memory is on. What the kernel refuses is logged once for each call,
/// and then as if nothing was known. Thread-safe.
class numa_nodes {
public:
  /// Reads the nodes that have memory below `root`, which is `/` but for tests:
  /// `sys/devices/system/node/has_memory`. If that is missing or damaged none is known.
  numa_nodes(const std::filesystem::path& root, std::shared_ptr<const numa_kernel> kernel);

  [[nodiscard]] const std::vector<int>& known() const noexcept { return known_; }

  /// Returns the nodes on which the pages of `range` are, each once, ascending. Pages that nobody
  /// has touched are on none. Of a range of more than 512 pages asks for as many, evenly spread.
  /// Empty if the kernel refuses.
  [[nodiscard]] std::vector<int> nodes_of(const_bytes range) const;

private:
  friend class prefer_node;

  void note(std::atomic_flag& told, std::string_view what, int error) const;

  std::vector<int> known_;
  std::shared_ptr<const numa_kernel> kernel_;
  mutable std::atomic_flag policy_told_;
  mutable std::atomic_flag locate_told_;
};

/// As long as it lives, pages that the calling thread is first to touch come from a node if there
/// is room, and from others if not. Ends on the same thread, which then has its policy back.
///
/// Does nothing without a node, where fewer than two are known or it is none of them, where the
/// kernel refuses, and where the user has bound the thread to nodes (`numactl --membind`).
class prefer_node {
public:
  /// `nodes` may be null: then none is known. It outlives the scope.
  prefer_node(const numa_nodes* nodes, std::optional<int> node);
  prefer_node(const prefer_node&) = delete;
  prefer_node& operator=(const prefer_node&) = delete;
  ~prefer_node();

  /// Returns whether the node is preferred now.
  [[nodiscard]] bool holds() const noexcept { return before_.has_value(); }

private:
  const numa_nodes* nodes_;
  std::optional<numa_policy> before_;
};

/// Returns the node of the device at a PCI address such as `0000:3B:00.0`, from what is below
/// `root`. Nothing: the kernel knows of none.
[[nodiscard]] std::optional<int> numa_node_of_pci(const std::filesystem::path& root,
                                                  std::string_view address);

} // namespace ferry
