// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/error.hpp"
#include "process/file_descriptor.hpp"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// Which process this is: told to other ranks, so that they notice its end.
struct process_identity {
  std::string place; ///< The machine since it booted and its process namespace: where `id` counts.
  ::pid_t id = 0;
  std::uint64_t started = 0; ///< In ticks since the boot; tells two processes with one `id` apart.

  friend bool operator==(const process_identity&, const process_identity&) = default;
};

[[nodiscard]] process_identity this_process();

[[nodiscard]] std::string to_text(const process_identity& process);
[[nodiscard]] result<process_identity> read_process_identity(std::string_view text);

/// The processes of the other ranks. Sees at once that one has ended, also when its parent has not
/// collected it yet. Thread-safe but for `watch`.
class peer_processes {
public:
  /// Watches nobody.
  peer_processes() = default;

  /// Watches every process that can be watched from here: those of this machine but this one.
  /// @throws device_error `unsupported` if the operating system has no process handles
  explicit peer_processes(std::span<const process_identity> ranks);

  /// Watches the process of a rank as well, in place of one that it was thought to be.
  /// @throws device_error as the constructor
  void watch(int rank, const process_identity& process);

  /// Whether any process is watched.
  [[nodiscard]] bool watched() const noexcept;

  /// Whether the process of a rank is known to have ended.
  [[nodiscard]] bool gone(int rank) const noexcept;

private:
  struct peer {
    bool ended_before = false;
    file_descriptor handle = {}; ///< None if it is not watched.
  };

  std::vector<peer> peers_;
};

} // namespace ferry
