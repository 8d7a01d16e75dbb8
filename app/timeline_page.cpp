// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "timeline_page.hpp"

#include "timeline_parts.hpp"
#include "trace_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using json = nlohmann::ordered_json;

/// Of spans, as the page's script numbers them.
enum class shown_kind : std::uint8_t { copy, gather, compute, discard, block, wait, message };

shown_kind shown(operation_kind kind) {
  switch (kind) {
    case operation_kind::copy:
      return shown_kind::copy;
    case operation_kind::gather:
      return shown_kind::gather;
    case operation_kind::discard:
      return shown_kind::discard;
    case operation_kind::compute:
    case operation_kind::mark:
      break;
  }
  return shown_kind::compute;
}

/// Spans as columns, times from the beginning of the run: a tenth of the size of objects.
class span_columns {
public:
  explicit span_columns(const trace& run);

  [[nodiscard]] json take_spans();
  [[nodiscard]] json tracks() const;
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  [[nodiscard]] std::int64_t since_begin(nanoseconds at) const noexcept {
    return (at - begin_).count();
  }
  [[nodiscard]] std::int64_t length() const noexcept { return (end_ - begin_).count(); }
  /// Returns the number of the wait for a block, -1 if there is none.
  [[nodiscard]] std::int64_t wait_of(const late_block& late) const;

private:
  struct row {
    std::uint32_t rank = 0;
    std::uint32_t track = 0;
    std::string_view name;
    shown_kind kind = shown_kind::copy;
    nanoseconds start{};
    nanoseconds end{};
    std::uint32_t block = operation_tag::no_block;
    std::uint64_t ticket = 0;
    std::uint64_t bytes = 0;
    nanoseconds since{};
  };

  void number_tracks(const trace& run);
  std::size_t track_of(std::uint32_t rank, std::uint32_t track);
  std::size_t name_of(std::string_view name);

  std::vector<row> rows_;
  std::vector<trace_track> tracks_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> track_numbers_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t, std::less<>> name_numbers_;
  std::map<std::pair<std::uint32_t, std::int64_t>, std::size_t> waits_; ///< By rank and beginning.
  nanoseconds begin_;                                                   ///< Of the run, as `end_`.
  nanoseconds end_;
};

span_columns::span_columns(const trace& run) : begin_(run.begin()), end_(run.end()) {
  for (const auto& each : run.device)
    rows_.push_back({each.rank, each.track, each.what, shown(each.kind), each.start, each.end,
                     each.block, each.ticket, each.bytes, each.enqueued});
  for (const auto& each : run.uses) {
    rows_.push_back({each.rank, each.track, "block", shown_kind::block, each.begun, each.ended,
                     each.block, each.ticket, 0, each.asked});
    if (each.wait() > nanoseconds::zero())
      rows_.push_back({each.rank, each.track, "wait", shown_kind::wait, each.asked, each.begun,
                       each.block, each.ticket, 0, each.asked});
  }
  for (const auto& each : run.messages)
    rows_.push_back({each.rank, each.track, each.what, shown_kind::message, each.started,
                     each.finished, each.block, each.ticket, 0, each.sent});
  std::ranges::stable_sort(rows_, {}, &row::start);
  for (std::size_t i = 0; i != rows_.size(); ++i) {
    if (rows_[i].kind == shown_kind::wait)
      waits_[{rows_[i].rank, rows_[i].start.count()}] = i;
  }
  number_tracks(run);
}

void span_columns::number_tracks(const trace& run) {
  tracks_ = run.tracks;
  for (std::size_t i = 0; i != tracks_.size(); ++i)
    track_numbers_.emplace(std::pair(tracks_[i].rank, tracks_[i].id), i);
}

std::size_t span_columns::track_of(std::uint32_t rank, std::uint32_t track) {
  const auto [known, is_new] = track_numbers_.emplace(std::pair(rank, track), tracks_.size());
  if (is_new)
    tracks_.push_back({rank, track, trace_row::stream, "track " + std::to_string(track)});
  return known->second;
}

std::size_t span_columns::name_of(std::string_view name) {
  if (const auto known = name_numbers_.find(name); known != name_numbers_.end())
    return known->second;
  names_.emplace_back(name);
  return name_numbers_.emplace(name, names_.size() - 1).first->second;
}

json span_columns::take_spans() {
  std::map<std::string, json> columns;
  for (const auto* name :
       {"track", "name", "kind", "start", "length", "block", "ticket", "bytes", "since"})
    columns[name] = json::array();
  for (const auto& each : rows_) {
    columns["track"].push_back(track_of(each.rank, each.track));
    columns["name"].push_back(name_of(each.name));
    columns["kind"].push_back(static_cast<int>(each.kind));
    columns["start"].push_back(since_begin(each.start));
    columns["length"].push_back((each.end - each.start).count());
    columns["block"].push_back(
        each.block == operation_tag::no_block ? -1 : static_cast<std::int64_t>(each.block));
    columns["ticket"].push_back(each.ticket);
    columns["bytes"].push_back(each.bytes);
    columns["since"].push_back(since_begin(each.since));
  }
  json all = json::object();
  for (auto& [name, column] : columns)
    all[name] = std::move(column);
  return all;
}

json span_columns::tracks() const {
  json all = json::array();
  for (const auto& each : tracks_)
    all.push_back({{"rank", each.rank},
                   {"row", each.row == trace_row::stream ? "stream" : "actor"},
                   {"name", each.name}});
  return all;
}

std::int64_t span_columns::wait_of(const late_block& late) const {
  const auto found = waits_.find({late.rank, late.asked.count()});
  return found == waits_.end() ? -1 : static_cast<std::int64_t>(found->second);
}

json counters_of(const trace& run, const span_columns& columns) {
  std::map<std::pair<std::uint32_t, std::string_view>, json> found;
  for (const auto& each : run.counters) {
    auto& counter = found[{each.rank, each.what}];
    if (counter.is_null())
      counter = {{"rank", each.rank},
                 {"name", each.what},
                 {"at", json::array()},
                 {"value", json::array()}};
    counter["at"].push_back(columns.since_begin(each.at));
    counter["value"].push_back(each.value);
  }
  json all = json::array();
  for (auto& [whose, counter] : found)
    all.push_back(std::move(counter));
  return all;
}

/// Returns from where to where blocks came and were used: what is before and after, such as reading
/// weights and ending, may take far longer. The whole run, if there were none.
json first_view(const trace& run, const span_columns& columns) {
  auto from = nanoseconds::max();
  auto until = nanoseconds::min();
  for (const auto& each : run.uses) {
    from = std::min(from, each.asked);
    until = std::max(until, each.ended);
  }
  if (from > until)
    return {0, columns.length()};
  const auto edge = (until - from).count() / 50;
  return {std::max<std::int64_t>(columns.since_begin(from) - edge, 0),
          std::min(columns.since_begin(until) + edge, columns.length())};
}

json data_of(const trace& run, const trace_report& report) {
  span_columns columns(run);
  json late = json::array();
  for (const auto& each : report.late)
    late.push_back({{"rank", each.rank},
                    {"block", each.block},
                    {"at", columns.since_begin(each.asked)},
                    {"wait", each.wait.count()},
                    {"cause", to_string(each.cause)},
                    {"why", each.why},
                    {"advice", each.advice},
                    {"span", columns.wait_of(each)}});
  json blocks = json::object();
  for (const auto& [block, path] : run.blocks)
    blocks[std::to_string(block)] = path;
  json marks = json::array();
  for (const auto& each : run.marks)
    marks.push_back({{"at", columns.since_begin(each.at)}, {"name", each.what}});
  json summary = json::array();
  for (const auto& [name, value] : summary_lines(run, report))
    summary.push_back({name, value});
  auto spans = columns.take_spans();
  return {{"end", columns.length()},
          {"ranks", report.ranks.size()},
          {"view", first_view(run, columns)},
          {"notes", notes_on(run)},
          {"summary", std::move(summary)},
          {"names", columns.names()},
          {"tracks", columns.tracks()},
          {"blocks", std::move(blocks)},
          {"counters", counters_of(run, columns)},
          {"marks", std::move(marks)},
          {"late", std::move(late)},
          {"spans", std::move(spans)}};
}

/// Returns JSON that ends no element and begins no comment of the page it stands in.
std::string embedded(const json& data) {
  const auto text = data.dump(-1, ' ', true, json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char each : text) {
    if (each == '<')
      safe += "\\u003c";
    else if (each == '>')
      safe += "\\u003e";
    else if (each == '&')
      safe += "\\u0026";
    else
      safe += each;
  }
  return safe;
}

std::string escaped(std::string_view text) {
  // What is no UTF-8 becomes a replacement character on the way through JSON.
  const auto valid = json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace))
                         .get<std::string>();
  std::string safe;
  for (const char each : valid) {
    switch (each) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += each;
    }
  }
  return safe;
}

} // namespace

std::string timeline_page(const trace& run, const trace_report& report, const std::string& title) {
  const std::map<std::string_view, std::string> parts{{"title", escaped(title)},
                                                      {"style", timeline_style},
                                                      {"script", timeline_script},
                                                      {"data", embedded(data_of(run, report))}};
  std::string page;
  std::string_view left = timeline_frame;
  // One pass, so that what is put in is never looked at for places.
  for (auto open = left.find("{{"); open != std::string_view::npos; open = left.find("{{")) {
    const auto close = left.find("}}", open);
    page += left.substr(0, open);
    page += parts.at(left.substr(open + 2, close - open - 2));
    left.remove_prefix(close + 2);
  }
  return page.append(left);
}

} // namespace ferry
