// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/trace_reader.hpp"

#include "event_scanner.hpp"
#include "ferry/offload/trace_writer.hpp"
#include "strict_json.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>

namespace ferry {
namespace {

using nlohmann::json;

/// Four months, and three years for all lengths together, so that sums and small multiples of them
/// stay in range.
constexpr double most_microseconds = 1e13;
constexpr nanoseconds most_in_all = std::chrono::hours{3 * 365 * 24};
constexpr std::uint32_t rank_numbers = 65'536;
/// In one trace: each is looked at by itself.
constexpr std::size_t most_ranks = 1024;
constexpr std::size_t longest_word = 4096;

[[noreturn]] void refuse(std::string detail, errc code = errc::invalid_argument) {
  throw ferry_error{{.code = code, .detail = std::move(detail)}};
}

/// Takes the events of a file into a `trace`.
class trace_builder {
public:
  /// @throws ferry_error without a subject
  void add(const json& event);

  /// Returns whether the first event was one of a trace.
  [[nodiscard]] bool begun() const noexcept { return begun_; }

  /// @pre everything was added
  [[nodiscard]] trace take() {
    made_.sort();
    return std::move(made_);
  }

private:
  void head(const json& event);
  void metadata(const json& event, std::string_view name);
  void span(const json& event, std::string_view name);
  [[nodiscard]] std::uint32_t rank_of(const json& event);

  /// Refuses lengths that nobody could add up.
  void count(nanoseconds length) {
    if (length > most_in_all - in_all_)
      refuse("has spans of more than three years together");
    in_all_ += length;
  }

  /// Takes notice of how many spans of a rank were lost so far.
  void drop(std::uint32_t rank, std::uint64_t so_far) {
    auto& before = dropped_[rank];
    made_.dropped += so_far - std::min(before, so_far);
    before = so_far;
  }

  trace made_;
  std::map<std::uint32_t, std::uint64_t> dropped_;
  std::set<std::uint32_t> ranks_;
  nanoseconds in_all_{};
  bool begun_ = false;
};

const json& member(const json& of, const char* key) {
  static const json nothing;
  if (!of.is_object())
    return nothing;
  const auto found = of.find(key);
  return found == of.end() ? nothing : *found;
}

template <class Integer>
Integer whole(const json& of, const char* key,
              std::uint64_t most = std::uint64_t{std::numeric_limits<Integer>::max()}) {
  const auto& value = member(of, key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    refuse(unexpected_value(key, value, "a whole number up to " + std::to_string(most)));
  return value.get<Integer>();
}

template <class Integer>
Integer whole_or(const json& of, const char* key, Integer otherwise) {
  return member(of, key).is_null() ? otherwise : whole<Integer>(of, key);
}

nanoseconds time(const json& of, const char* key) {
  const auto& value = member(of, key);
  const auto microseconds = value.is_number() ? value.get<double>() : NAN;
  if (!(std::abs(microseconds) <= most_microseconds))
    refuse(unexpected_value(key, value, "microseconds, at most four months of them"));
  return nanoseconds{std::llround(microseconds * 1e3)};
}

std::string_view word(const json& of, const char* key) {
  const auto& value = member(of, key);
  const auto* const text = value.is_string() ? value.get_ptr<const std::string*>() : nullptr;
  if (text == nullptr || text->size() > longest_word)
    refuse(unexpected_value(key, value,
                            "a string of at most " + std::to_string(longest_word) + " bytes"));
  return *text;
}

std::uint32_t trace_builder::rank_of(const json& event) {
  const auto rank = whole<std::uint32_t>(event, "pid", rank_numbers - 1);
  if (ranks_.insert(rank).second && ranks_.size() > most_ranks)
    refuse("has more than " + std::to_string(most_ranks) + " ranks; expected fewer in one trace");
  return rank;
}

std::uint32_t track_of(const json& event) {
  return whole<std::uint32_t>(event, "tid");
}

std::uint32_t block_of(const json& args) {
  return whole_or(args, "block", operation_tag::no_block);
}

std::uint64_t ticket_of(const json& args) {
  return whole_or(args, "ticket", std::uint64_t{0});
}

void trace_builder::add(const json& event) {
  if (!begun_)
    return head(event);
  const auto phase = word(event, "ph");
  const auto name = word(event, "name");
  if (phase == "M")
    metadata(event, name);
  else if (phase == "X")
    span(event, name);
  else if (phase == "i")
    made_.marks.push_back({rank_of(event), track_of(event), made_.keep(name), time(event, "ts")});
  else if (phase == "C")
    made_.counters.push_back({rank_of(event), made_.keep(name), time(event, "ts"),
                              whole<std::uint64_t>(member(event, "args"), "value")});
}

void trace_builder::head(const json& event) {
  if (member(event, "name") != "ferry_trace")
    refuse("is no trace of Ferry: it does not begin with the event 'ferry_trace'");
  const auto& args = member(event, "args");
  if (member(args, "format") != trace_format)
    refuse("is a trace of another version: " +
               unexpected_value("format", member(args, "format"), std::to_string(trace_format)) +
               "; read it with the Ferry that wrote it",
           errc::unsupported);
  if (!member(args, "epoch_ns").is_null())
    made_.epoch = nanoseconds{whole<std::int64_t>(args, "epoch_ns")};
  begun_ = true;
}

void trace_builder::metadata(const json& event, std::string_view name) {
  const auto& args = member(event, "args");
  if (name == "thread_name")
    made_.tracks.push_back({rank_of(event), track_of(event),
                            word(args, "row") == "actor" ? trace_row::actor : trace_row::stream,
                            std::string(word(args, "name"))});
  else if (name == "ferry_block")
    made_.blocks.emplace(whole<std::uint32_t>(args, "block"), word(args, "path"));
  else if (name == "ferry_dropped")
    drop(rank_of(event), whole<std::uint64_t>(args, "spans"));
  else if (name == "ferry_end")
    made_.complete = true;
}

void trace_builder::span(const json& event, std::string_view name) {
  const auto category = word(event, "cat");
  if (category == "wait")
    return;
  const auto& args = member(event, "args");
  const auto start = time(event, "ts");
  const auto length = time(event, "dur");
  if (length < nanoseconds::zero())
    refuse(unexpected_value("dur", member(event, "dur"), "a length of at least 0"));
  if (category == "block") {
    const auto asked = time(args, "asked");
    if (asked > start)
      refuse(unexpected_value("asked", member(args, "asked"), "a time not after ts"));
    count(length + (start - asked));
    made_.uses.push_back({rank_of(event), track_of(event), block_of(args), ticket_of(args), asked,
                          start, start + length});
  } else if (category == "message") {
    count(length);
    message_span made{.rank = rank_of(event),
                      .track = track_of(event),
                      .what = made_.keep(name),
                      .block = block_of(args),
                      .ticket = ticket_of(args),
                      .demanded = member(args, "demanded") == true,
                      .sent = time(args, "sent"),
                      .started = start,
                      .finished = start + length};
    if (!member(args, "slot").is_null())
      made.slot = whole<std::uint32_t>(args, "slot");
    made_.messages.push_back(made);
  } else {
    count(length);
    made_.device.push_back({rank_of(event), track_of(event),
                            category == "copy"      ? operation_kind::copy
                            : category == "gather"  ? operation_kind::gather
                            : category == "discard" ? operation_kind::discard
                                                    : operation_kind::compute,
                            made_.keep(name), block_of(args), ticket_of(args),
                            whole<std::uint64_t>(args, "bytes"), time(args, "enqueued"), start,
                            start + length});
  }
}

result<trace> read_events(std::istream& in) {
  event_scanner events(in);
  trace_builder made;
  std::size_t number = 0;
  try {
    while (const auto text = events.next()) {
      if (++number > most_trace_events)
        refuse("has more than " + std::to_string(most_trace_events) +
               " events; record fewer steps at a time");
      const auto event = json::parse(*text, nullptr, false);
      if (event.is_discarded())
        refuse("is no JSON that can be read");
      made.add(event);
    }
  } catch (ferry_error& wrong) {
    auto reason = wrong.reason();
    if (made.begun())
      reason.detail = "line " + std::to_string(events.line()) + ": " + reason.detail;
    return tl::unexpected(std::move(reason));
  }
  if (number == 0)
    return tl::unexpected(
        failure{.code = errc::invalid_argument, .detail = "ends before its first event"});
  return made.take();
}

} // namespace

result<trace> read_trace(std::istream& in, std::string_view subject) {
  auto read = read_events(in);
  if (!read)
    read.error().detail = std::string(subject) + " " + read.error().detail;
  return read;
}

result<trace> read_trace(const std::filesystem::path& path) {
  const auto subject = "'" + path.string() + "'";
  std::error_code error;
  const auto missing = [&](const std::string& why) {
    return tl::unexpected(
        failure{.code = errc::not_found, .detail = subject + " cannot be read: " + why});
  };
  if (!std::filesystem::is_regular_file(path, error))
    return missing(error ? error.message() : "it is no regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return missing("permission denied");
  return read_trace(file, subject);
}

} // namespace ferry
