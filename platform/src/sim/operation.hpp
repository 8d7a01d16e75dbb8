// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/device.hpp"
#include "sim/clock.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ferry::sim {

class link;
struct gather_group;

/// What race reports say about a stream or a host thread, also after it is gone.
struct control_facts {
  std::string name;
  bool is_stream = false;
};

/// One access to one range of memory, as the shadow remembers it.
struct access_record {
  const char* kind = "";
  operation_tag tag;
  std::shared_ptr<const control_facts> where;
  std::shared_ptr<const control_facts> issued_by;
  std::uint64_t number = 0;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool writes = false;
  epoch when;
};

/// Returns how long `bytes` take at so many bytes per second.
[[nodiscard]] inline nanoseconds transfer_time(std::size_t bytes, double bandwidth) {
  return nanoseconds{std::llround(static_cast<double>(bytes) / bandwidth * 1e9)};
}

enum class operation_role : std::uint8_t { work, record, wait };

/// An entry of a stream: its bytes run when somebody settles it, its times are set when somebody
/// asks for them. Both happen once and independently of each other.
struct operation {
  operation_role role = operation_role::work;
  operation_span span = {};
  std::shared_ptr<const control_facts> stream;
  std::uint64_t number = 0;
  std::uint64_t sequence = 0; ///< Over the whole machine, in the order of the calls.
  std::uint64_t device = 0;   ///< Index of the device in its machine.
  epoch when;
  epoch enqueued;

  std::shared_ptr<operation> previous;
  std::shared_ptr<operation> awaited; ///< The record that a wait stands for.
  std::shared_ptr<gather_group> group;

  mutable_bytes target;
  const_bytes source;
  conversion convert = conversion::none;
  bool target_gone = false;
  bool source_gone = false;
  bool ran = false;

  std::shared_ptr<link> over;
  std::uint64_t key = 0; ///< Breaks ties of the virtual clock; the same in every run.
  nanoseconds earliest = nanoseconds::zero();
  nanoseconds duration = nanoseconds::zero();
  std::vector<operation*> successors;
  std::size_t untimed_predecessors = 0;
  bool timed = false;
  bool selected = false;
};

using operation_ref = std::shared_ptr<operation>;

} // namespace ferry::sim
