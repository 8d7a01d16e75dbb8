// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/device.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

// What a run leaves behind for whoever wants to see it. All times of one trace are on one clock.
// The words `what` are literals, or belong to the `trace` that holds the span.

enum class trace_row : std::uint8_t { stream, actor };

/// A row of the timeline. Its id is unique within its rank.
struct trace_track {
  std::uint32_t rank = 0;
  std::uint32_t id = 0;
  trace_row row = trace_row::stream;
  std::string name = {};

  friend bool operator==(const trace_track&, const trace_track&) = default;
};

/// One operation of a device that took time: a copy, a gather, or the work of a block.
struct device_span {
  std::uint32_t rank = 0;
  std::uint32_t track = 0;
  operation_kind kind = operation_kind::copy;
  std::string_view what = {};
  std::uint32_t block = operation_tag::no_block;
  std::uint64_t ticket = 0; ///< 0 if none.
  std::uint64_t bytes = 0;
  nanoseconds enqueued{};
  nanoseconds start{};
  nanoseconds end{};

  friend bool operator==(const device_span&, const device_span&) = default;
};

/// One use of a block, between the marks of its gate.
struct block_span {
  std::uint32_t rank = 0;
  std::uint32_t track = 0; ///< Of the compute stream.
  std::uint32_t block = operation_tag::no_block;
  std::uint64_t ticket = 0;
  nanoseconds asked{}; ///< Compute had nothing left to do but this block.
  nanoseconds begun{}; ///< The block was there.
  nanoseconds ended{};

  [[nodiscard]] nanoseconds wait() const noexcept { return begun - asked; }

  friend bool operator==(const block_span&, const block_span&) = default;
};

/// One message in the hands of an actor.
struct message_span {
  std::uint32_t rank = 0;
  std::uint32_t track = 0;
  std::string_view what = {}; ///< The type of the message.
  std::uint32_t block = operation_tag::no_block;
  std::uint64_t ticket = 0; ///< 0 if none.
  std::optional<std::uint32_t> slot = {};
  bool demanded = false; ///< It fetches a block that nothing had been submitted for.
  nanoseconds sent{};    ///< `started` where nobody knows.
  nanoseconds started{};
  nanoseconds finished{};

  friend bool operator==(const message_span&, const message_span&) = default;
};

/// A point in time on a stream: a step begins, a stage ends.
struct trace_mark {
  std::uint32_t rank = 0;
  std::uint32_t track = 0;
  std::string_view what = {};
  nanoseconds at{};

  friend bool operator==(const trace_mark&, const trace_mark&) = default;
};

/// A value from this time on.
struct trace_counter {
  std::uint32_t rank = 0;
  std::string_view what = {};
  nanoseconds at{};
  std::uint64_t value = 0;

  friend bool operator==(const trace_counter&, const trace_counter&) = default;
};

/// The counter of what the process had its disks read since its trace began. Only where time is
/// real.
inline constexpr std::string_view disk_counter = "bytes read from disk";

/// A run as it was recorded, each list in order of time. Moves; its words move with it.
struct trace {
  trace() = default;
  trace(const trace&) = delete;
  trace& operator=(const trace&) = delete;
  trace(trace&&) = default;
  trace& operator=(trace&&) = default;
  ~trace() = default;

  /// Keeps a word for as long as the trace lives.
  [[nodiscard]] std::string_view keep(std::string_view word);

  /// Brings each list into order of time.
  void sort();

  /// Takes over the spans of other ranks, whose clock showed `later` less at the same moment.
  void merge(trace other, nanoseconds later);

  /// Returns when the first of it happens and when the last has ended; zeros where nothing does.
  [[nodiscard]] nanoseconds begin() const noexcept;
  [[nodiscard]] nanoseconds end() const noexcept;

  /// Returns the path of a block, or `block 7` if nobody told.
  [[nodiscard]] std::string block_name(std::uint32_t block) const;

  std::vector<trace_track> tracks;
  std::map<std::uint32_t, std::string> blocks; ///< Paths, by id; the same on all ranks.
  std::vector<device_span> device;
  std::vector<block_span> uses;
  std::vector<message_span> messages;
  std::vector<trace_mark> marks;
  std::vector<trace_counter> counters;
  std::uint64_t dropped = 0; ///< Spans that found no room while the run went on.
  bool complete = false;     ///< The run wrote the end.
  /// Of the clock's zero, since 1970. Nothing where time is virtual.
  std::optional<nanoseconds> epoch;

private:
  std::set<std::string, std::less<>> words_;
};

/// Returns why `other`, whose clock showed `later` less at the same moment, cannot be of the run of
/// `one` and of other ranks: the sentence goes on behind the names of the two. Empty if it can.
[[nodiscard]] std::string why_not_of_one_run(const trace& one, const trace& other,
                                             nanoseconds later);

} // namespace ferry
