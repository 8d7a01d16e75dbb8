// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/trace.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace ferry {

/// Of the file format. A reader refuses another one.
inline constexpr std::uint32_t trace_format = 1;

/// Where the ids of actors begin in a trace; streams are below.
inline constexpr std::uint32_t first_actor_track = 1'000'000'000;

/// Writes a trace as Chrome/Perfetto JSON while the run goes on: one event a line in an array that
/// may end anywhere, and becomes an object at the end. Ranks are processes there, streams and
/// actors their threads; arrows lead from the message that asks for a block over its copy and its
/// gather to its use. docs/tracing.md lists the events. What is added need not be in order, except
/// for that of one stream. Not thread-safe.
class trace_writer {
public:
  /// Writes to `out`, which outlives this and whose state tells of failures.
  /// @param epoch as `trace::epoch`
  explicit trace_writer(std::ostream& out, std::optional<nanoseconds> epoch = std::nullopt);

  void add(const trace_track& track);
  void name_block(std::uint32_t block, std::string_view path);
  /// Also counts the bytes that a rank has moved.
  void add(const device_span& span);
  /// Shows the wait as a span of its own.
  void add(const block_span& span);
  /// Also notes which slot a fetch goes to.
  void add(const message_span& span);
  void add(const trace_mark& mark);
  void add(const trace_counter& counter);

  /// Says how many spans of a rank found no room so far.
  void drop(std::uint32_t rank, std::uint64_t so_far);

  /// Hands everything to the stream.
  void flush();

  /// Ends the trace. Nothing is added any more.
  void finish();

private:
  struct event;
  struct rank_state {
    bool named = false;
    std::uint64_t moved = 0;
    std::uint64_t dropped = 0;
    std::map<std::uint64_t, std::uint32_t> slot_of; ///< By ticket.
    std::set<std::uint32_t> slots;                  ///< In use.
    /// When the ticket is done with a slot (false) or begins to fill it (true). Not yet counted.
    std::multimap<std::pair<nanoseconds, bool>, std::uint64_t> changes;
    nanoseconds last_fetch = nanoseconds::min();
    nanoseconds last_use = nanoseconds::min();
    std::uint64_t fetched = 0;  ///< Ticket of the last copy.
    std::uint64_t gathered = 0; ///< Ticket of the last gather.
  };

  void put(event& made);
  void arrow(char phase, std::uint32_t rank, std::uint32_t track, std::uint64_t ticket,
             nanoseconds at);
  void name_rank(std::uint32_t rank);
  void count_slots(std::uint32_t rank, nanoseconds until);
  /// Returns `text` as JSON, quoted.
  [[nodiscard]] const std::string& quoted(std::string_view text);

  std::ostream* out_;
  std::ostream::pos_type begins_at_; ///< -1: there is no going back to it.
  std::string buffer_;
  bool begun_ = false;
  std::map<std::string, std::string, std::less<>> quoted_;
  std::map<std::uint32_t, rank_state> ranks_;
};

} // namespace ferry
