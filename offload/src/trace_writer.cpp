// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/trace_writer.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <ostream>
#include <string>
#include <utility>

namespace ferry {
namespace {

constexpr std::string_view fetch_message = "fetch_block";

// A whole trace is an object, as the tools of others expect. One that may end anywhere is an array:
// those can be read without their end.
constexpr std::string_view whole_head = R"({"traceEvents":[)";
constexpr std::string_view open_head = "[               ";
static_assert(whole_head.size() == open_head.size());

/// More than there are slots: of fetches whose block has yet to run.
constexpr std::size_t most_tickets = 4096;

constexpr std::size_t flush_at = std::size_t{1} << 16;

template <std::integral Integer>
void append_number(std::string& to, Integer number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  to.append(digits.data(), end);
}

/// In microseconds, exactly.
void append_time(std::string& to, nanoseconds time) {
  auto left = time.count();
  if (left < 0) {
    to += '-';
    left = -left;
  }
  append_number(to, left / 1000);
  to += '.';
  const auto rest = left % 1000;
  to += static_cast<char>('0' + rest / 100);
  to += static_cast<char>('0' + rest / 10 % 10);
  to += static_cast<char>('0' + rest % 10);
}

std::string_view category_of(operation_kind kind) {
  switch (kind) {
    case operation_kind::copy:
      return "copy";
    case operation_kind::gather:
      return "gather";
    case operation_kind::discard:
      return "discard";
    case operation_kind::compute:
    case operation_kind::mark:
      break;
  }
  return "compute";
}

} // namespace

/// One line of the file, put together in the writer's buffer.
struct trace_writer::event {
  event(trace_writer& writer, char phase, std::string_view name, std::uint32_t rank,
        std::uint32_t track)
      : to(writer.buffer_) {
    if (std::exchange(writer.begun_, true))
      to += ",\n";
    to += R"({"ph":")";
    to += phase;
    to += R"(","name":)";
    to += writer.quoted(name);
    number("pid", rank);
    number("tid", track);
  }

  event& key(std::string_view name) {
    if (!first)
      to += ',';
    first = false;
    to += '"';
    to += name;
    to += "\":";
    return *this;
  }
  event& text(std::string_view name, std::string_view json) {
    key(name);
    to += json;
    return *this;
  }
  template <std::integral Integer>
  event& number(std::string_view name, Integer value) {
    key(name);
    append_number(to, value);
    return *this;
  }
  event& time(std::string_view name, nanoseconds value) {
    key(name);
    append_time(to, value);
    return *this;
  }
  event& span(nanoseconds start, nanoseconds end) {
    return time("ts", start).time("dur", end - start);
  }
  /// Everything that follows describes the event further.
  event& args() {
    key("args");
    to += '{';
    first = true;
    in_args = true;
    return *this;
  }
  event& use(std::uint32_t block, std::uint64_t ticket) {
    if (block != operation_tag::no_block)
      number("block", block);
    if (ticket != 0)
      number("ticket", ticket);
    return *this;
  }

  void close() { to += in_args ? "}}" : "}"; }

  std::string& to;
  bool first = false;
  bool in_args = false;
};

trace_writer::trace_writer(std::ostream& out, std::optional<nanoseconds> epoch)
    : out_(&out), begins_at_(out.tellp()) {
  buffer_ = begins_at_ == std::ostream::pos_type(-1) ? whole_head : open_head;
  buffer_ += '\n';
  event head(*this, 'M', "ferry_trace", 0, 0);
  head.args().number("format", trace_format);
  if (epoch)
    head.number("epoch_ns", epoch->count());
  put(head);
  flush();
}

void trace_writer::add(const trace_track& track) {
  if (!std::exchange(ranks_[track.rank].named, true))
    put(event(*this, 'M', "process_name", track.rank, 0)
            .args()
            .text("name", quoted("rank " + std::to_string(track.rank))));
  put(event(*this, 'M', "thread_name", track.rank, track.id)
          .args()
          .text("name", quoted(track.name))
          .text("row", track.row == trace_row::stream ? R"("stream")" : R"("actor")"));
  // Streams come first, each kind in the order of its ids.
  put(event(*this, 'M', "thread_sort_index", track.rank, track.id)
          .args()
          .number("sort_index", track.id));
}

void trace_writer::name_block(std::uint32_t block, std::string_view path) {
  put(event(*this, 'M', "ferry_block", 0, 0)
          .args()
          .number("block", block)
          .text("path", quoted(path)));
}

void trace_writer::add(const device_span& span) {
  put(event(*this, 'X', span.what, span.rank, span.track)
          .text("cat", quoted(category_of(span.kind)))
          .span(span.start, span.end)
          .args()
          .time("enqueued", span.enqueued)
          .number("bytes", span.bytes)
          .use(span.block, span.ticket));
  auto& rank = ranks_[span.rank];
  if (span.kind == operation_kind::copy) {
    rank.moved += span.bytes;
    add(trace_counter{span.rank, "bytes moved", span.end, rank.moved});
  }
  // A block may come in many copies: the arrow leads over the first.
  auto* const last = span.kind == operation_kind::copy     ? &rank.fetched
                     : span.kind == operation_kind::gather ? &rank.gathered
                                                           : nullptr;
  if (last == nullptr || span.ticket == 0 || std::exchange(*last, span.ticket) == span.ticket)
    return;
  arrow('t', span.rank, span.track, span.ticket, span.start);
  if (span.kind != operation_kind::copy)
    return;
  rank.changes.emplace(std::pair(span.start, true), span.ticket);
  rank.last_fetch = std::max(rank.last_fetch, span.start);
  count_slots(span.rank, std::min(rank.last_fetch, rank.last_use));
}

void trace_writer::add(const block_span& span) {
  if (span.wait() > nanoseconds::zero())
    put(event(*this, 'X', "wait", span.rank, span.track)
            .text("cat", R"("wait")")
            .span(span.asked, span.begun)
            .args()
            .use(span.block, span.ticket));
  put(event(*this, 'X', "block", span.rank, span.track)
          .text("cat", R"("block")")
          .span(span.begun, span.ended)
          .args()
          .time("asked", span.asked)
          .use(span.block, span.ticket));
  if (span.ticket == 0)
    return;
  arrow('f', span.rank, span.track, span.ticket, span.begun);
  auto& rank = ranks_[span.rank];
  rank.changes.emplace(std::pair(span.ended, false), span.ticket);
  rank.last_use = std::max(rank.last_use, span.ended);
  count_slots(span.rank, std::min(rank.last_fetch, rank.last_use));
}

void trace_writer::add(const message_span& span) {
  auto made = event(*this, 'X', span.what, span.rank, span.track);
  made.text("cat", R"("message")")
      .span(span.started, span.finished)
      .args()
      .time("sent", span.sent)
      .use(span.block, span.ticket);
  if (span.slot)
    made.number("slot", *span.slot);
  if (span.demanded)
    made.text("demanded", "true");
  put(made);
  if (span.what != fetch_message || span.ticket == 0)
    return;
  arrow('s', span.rank, span.track, span.ticket, span.started);
  if (!span.slot)
    return;
  auto& slots = ranks_[span.rank].slot_of;
  slots[span.ticket] = *span.slot;
  if (slots.size() > most_tickets)
    slots.erase(slots.begin());
}

// By the device: the host runs ahead of it. Copies come in their order, and uses in theirs, so that
// up to the earlier of the two last ones nothing is to come.
void trace_writer::count_slots(std::uint32_t rank, nanoseconds until) {
  auto& state = ranks_[rank];
  auto& changes = state.changes;
  while (!changes.empty() && changes.begin()->first.first <= until) {
    const auto [when, taken] = changes.begin()->first;
    const auto slot = state.slot_of.find(changes.begin()->second);
    changes.erase(changes.begin());
    if (slot == state.slot_of.end())
      continue;
    if (taken) {
      state.slots.insert(slot->second);
    } else {
      state.slots.erase(slot->second);
      state.slot_of.erase(slot);
    }
    add(trace_counter{rank, "slots in use", when, state.slots.size()});
  }
}

void trace_writer::add(const trace_mark& mark) {
  put(event(*this, 'i', mark.what, mark.rank, mark.track)
          .text("cat", R"("mark")")
          .text("s", R"("t")")
          .time("ts", mark.at));
}

void trace_writer::add(const trace_counter& counter) {
  put(event(*this, 'C', counter.what, counter.rank, 0)
          .text("cat", R"("counter")")
          .time("ts", counter.at)
          .args()
          .number("value", counter.value));
}

void trace_writer::drop(std::uint32_t rank, std::uint64_t so_far) {
  if (so_far == std::exchange(ranks_[rank].dropped, so_far))
    return;
  put(event(*this, 'M', "ferry_dropped", rank, 0).args().number("spans", so_far));
}

void trace_writer::finish() {
  for (const auto& [rank, state] : ranks_)
    count_slots(rank, nanoseconds::max());
  event end(*this, 'M', "ferry_end", 0, 0);
  put(end);
  const bool can_return = begins_at_ != std::ostream::pos_type(-1);
  buffer_ += "\n]}\n";
  flush();
  if (!can_return)
    return;
  out_->seekp(begins_at_);
  *out_ << whole_head;
  out_->seekp(0, std::ios::end);
  out_->flush();
}

void trace_writer::flush() {
  out_->write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  out_->flush();
  buffer_.clear();
}

void trace_writer::arrow(char phase, std::uint32_t rank, std::uint32_t track, std::uint64_t ticket,
                         nanoseconds at) {
  auto made = event(*this, phase, "block", rank, track);
  made.text("cat", R"("block")").time("ts", at).key("id");
  buffer_ += '"';
  append_number(buffer_, rank);
  buffer_ += '.';
  append_number(buffer_, ticket);
  buffer_ += '"';
  if (phase == 'f')
    made.text("bp", R"("e")");
  put(made);
}

void trace_writer::put(event& made) {
  made.close();
  if (buffer_.size() >= flush_at)
    flush();
}

const std::string& trace_writer::quoted(std::string_view text) {
  if (const auto known = quoted_.find(text); known != quoted_.end())
    return known->second;
  const auto json =
      nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return quoted_.emplace(text, json).first->second;
}

} // namespace ferry
