// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace ferry {

/// One side of a race: an operation on a stream, or an access of a host thread.
struct race_access {
  std::string kind;      ///< "copy", "compute", "discard", "gather", "host read", "release", ...
  operation_tag tag;     ///< As given by the program.
  std::string where;     ///< Name of the stream, or of the host thread for a host access.
  std::string issued_by; ///< Name of the host thread that made the call.
  bool on_stream = false;
  bool writes = false;
  std::uint64_t number = 0;   ///< Counts the operations of the stream (calls of the thread) from 1.
  std::uintptr_t address = 0; ///< Of the whole access, which may be more than what conflicts.
  std::size_t bytes = 0;
};

/// Two accesses to the same bytes, at least one of them a write, that nothing orders.
struct race {
  race_access first;
  race_access second;         ///< The one at which the race was noticed.
  std::uintptr_t address = 0; ///< Of the bytes that both touch.
  std::size_t bytes = 0;
  /// What the second knew of the stream of the first: its operations up to this one. What it lacked
  /// begins behind it. Zero if the first is no operation of a stream.
  std::uint64_t known = 0;
  std::string place;        ///< The same in words: "device block 3, bytes 256 to 512".
  std::string missing_edge; ///< "'compute' must wait for an event recorded on 'copy' after ...".
  std::uint64_t seed = 0;   ///< Of the device.
};

/// Returns both accesses, the place, the missing edge and the seed, for people.
[[nodiscard]] std::string describe(const race& r);

} // namespace ferry
