// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>

namespace ferry {
namespace {

using json = nlohmann::ordered_json;

double seconds(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string time_text(nanoseconds time) {
  const auto s = seconds(time);
  if (s >= 1)
    return formatted("%.3f s", s);
  return s >= 1e-3 ? formatted("%.3f ms", s * 1e3) : formatted("%.1f us", s * 1e6);
}

std::string percent_text(double part) {
  return formatted("%.1f %%", part * 100);
}

/// Names may hold anything, and go to a terminal: no control, in one byte or in the two of UTF-8,
/// and nothing that turns the direction of what follows.
std::string printable(const std::string& text) {
  std::string shown;
  const auto at = [&](std::size_t i) {
    return static_cast<unsigned char>(i < text.size() ? text[i] : 0);
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_c1 = at(i) == 0xc2 && at(i + 1) >= 0x80 && at(i + 1) <= 0x9f;
    const bool turns =
        at(i) == 0xe2 && ((at(i + 1) == 0x80 && (at(i + 2) == 0x8e || at(i + 2) == 0x8f ||
                                                 (at(i + 2) >= 0xa8 && at(i + 2) <= 0xae))) ||
                          (at(i + 1) == 0x81 && at(i + 2) >= 0xa6 && at(i + 2) <= 0xa9));
    if (is_c1 || turns)
      i += is_c1 ? 1 : 2;
    shown += is_c1 || turns || at(i) < 0x20 || at(i) == 0x7f ? '?' : text[i];
  }
  return shown;
}

struct cause_sum {
  std::uint64_t count = 0;
  nanoseconds wait{};
  std::map<std::string, nanoseconds> advice; ///< With the wait that it is given for.
};

std::map<wait_cause, cause_sum> causes_of(const trace_report& report) {
  std::map<wait_cause, cause_sum> found;
  for (const auto& each : report.late) {
    auto& sum = found[each.cause];
    ++sum.count;
    sum.wait += each.wait;
    sum.advice[each.advice] += each.wait;
  }
  return found;
}

/// Returns the advice for most of the wait.
std::string main_advice(const cause_sum& sum) {
  const auto most =
      std::ranges::max_element(sum.advice, {}, [](const auto& each) { return each.second; });
  return most == sum.advice.end() ? "" : most->first;
}

std::string words_of(wait_cause cause) {
  std::string words(to_string(cause));
  std::ranges::replace(words, '_', ' ');
  return words;
}

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json as_json(const rank_part& part) {
  const auto& overlap = part.overlap;
  const auto of_blocks = [&](double figure) {
    return overlap.blocks == 0 ? json(nullptr) : json(figure);
  };
  return {{"rank", part.rank},
          {"blocks", overlap.blocks},
          {"steps", part.steps},
          {"elapsed_s", seconds(part.elapsed)},
          {"compute_s", seconds(overlap.compute)},
          {"transfer_s", seconds(overlap.transfer)},
          {"gather_s", seconds(overlap.gather)},
          {"exposed_wait_s", of_blocks(seconds(overlap.exposed_wait))},
          {"lower_bound_s", of_blocks(seconds(overlap.lower_bound()))},
          {"distance_to_bound", of_blocks(part.distance_to_bound())},
          {"overlap_efficiency", of_blocks(overlap.efficiency())},
          {"link_use", of_blocks(part.link_use())}};
}

json as_json(const trace& run, nanoseconds begin, const late_block& late) {
  return {{"rank", late.rank},
          {"block", late.block},
          {"path", run.block_name(late.block)},
          {"ticket", late.ticket},
          {"at_s", seconds(late.asked - begin)},
          {"wait_s", seconds(late.wait)},
          {"cause", to_string(late.cause)},
          {"by_block", or_null(late.by_block)},
          {"by_rank", or_null(late.by_rank)},
          {"why", late.why},
          {"advice", late.advice}};
}

void line(std::string& table, const std::string& name, const std::string& value) {
  table += "  " + name + std::string(name.size() < 22 ? 22 - name.size() : 1, ' ') + value + '\n';
}

} // namespace

std::string notes_on(const trace& run) {
  std::string notes;
  const auto add = [&](const std::string& note) { notes += (notes.empty() ? "" : "; ") + note; };
  if (!run.complete)
    add("the trace ends before the run did");
  if (run.dropped != 0)
    add(std::to_string(run.dropped) + " spans found no room and are missing");
  if (run.uses.empty())
    add(run.complete ? "no block was streamed" : "no use of a block was recorded");
  return notes;
}

std::vector<std::pair<std::string, std::string>> summary_lines(const trace& run,
                                                               const trace_report& report) {
  if (report.ranks.empty())
    return {};
  const auto& part = report.ranks.front();
  const auto& overlap = part.overlap;
  std::vector<std::pair<std::string, std::string>> lines;
  if (report.ranks.size() > 1)
    lines.emplace_back("ranks", std::to_string(report.ranks.size()) + ", figures of rank " +
                                    std::to_string(part.rank));
  if (part.steps != 0)
    lines.emplace_back("steps", std::to_string(part.steps));
  const auto of_blocks = [&](std::string text) {
    return overlap.blocks == 0 ? std::string("-") : std::move(text);
  };
  lines.emplace_back("block uses", std::to_string(overlap.blocks));
  lines.emplace_back("elapsed", of_blocks(time_text(part.elapsed)));
  lines.emplace_back("compute", time_text(overlap.compute));
  lines.emplace_back("transfer", time_text(overlap.transfer));
  if (overlap.gather != nanoseconds::zero())
    lines.emplace_back("gather", time_text(overlap.gather));
  lines.emplace_back("exposed wait", of_blocks(time_text(overlap.exposed_wait)));
  lines.emplace_back("overlap efficiency", of_blocks(percent_text(overlap.efficiency())));
  lines.emplace_back("link use", of_blocks(percent_text(part.link_use())));
  lines.emplace_back("lower bound", of_blocks(time_text(overlap.lower_bound())));
  lines.emplace_back("distance to the bound", of_blocks(percent_text(part.distance_to_bound())));
  const auto late =
      static_cast<std::size_t>(std::ranges::count(report.late, part.rank, &late_block::rank));
  auto late_text = std::to_string(late);
  if (report.ranks.size() > 1)
    late_text += ", of all ranks " + std::to_string(report.late.size());
  lines.emplace_back("late blocks", std::move(late_text));
  lines.emplace_back("spans",
                     std::to_string(run.device.size() + run.uses.size() + run.messages.size()));
  return lines;
}

std::string to_table(const trace& run, const trace_report& report, const std::string& title,
                     std::size_t most) {
  const std::string of_all = report.ranks.size() > 1 ? ", all ranks" : "";
  std::string table = printable(title) + '\n';
  for (const auto& [name, value] : summary_lines(run, report))
    line(table, name, value);
  if (const auto notes = notes_on(run); !notes.empty())
    line(table, "note", notes);
  if (report.late.empty())
    return table;
  table += "\nwhy blocks were late" + of_all + '\n';
  for (const auto& [cause, sum] : causes_of(report)) {
    line(table, words_of(cause),
         std::to_string(sum.count) + (sum.count == 1 ? " block, " : " blocks, ") +
             time_text(sum.wait));
    if (const auto advice = main_advice(sum); !advice.empty())
      line(table, "", advice);
  }
  std::vector<const late_block*> longest;
  for (const auto& each : report.late)
    longest.push_back(&each);
  std::ranges::stable_sort(longest, std::greater{}, &late_block::wait);
  if (longest.size() > most)
    longest.resize(most);
  if (!longest.empty())
    table += "\nlongest waits" + of_all + '\n';
  const auto begin = run.begin();
  for (const auto* each : longest)
    line(table, time_text(each->wait),
         printable(run.block_name(each->block)) + " at " + time_text(each->asked - begin) +
             (report.ranks.size() > 1 ? ", rank " + std::to_string(each->rank) : "") + ": " +
             printable(each->why));
  return table;
}

std::string to_json(const trace& run, const trace_report& report) {
  const auto begin = run.begin();
  json all = json::object();
  all["complete"] = run.complete;
  all["dropped_spans"] = run.dropped;
  all["spans"] = run.device.size() + run.uses.size() + run.messages.size();
  if (!report.ranks.empty())
    all.update(as_json(report.ranks.front()));
  all["late_blocks"] = report.late.size();
  all["causes"] = json::object();
  for (const auto& [cause, sum] : causes_of(report))
    all["causes"][std::string(to_string(cause))] = {
        {"blocks", sum.count}, {"wait_s", seconds(sum.wait)}, {"advice", main_advice(sum)}};
  all["ranks_report"] = json::array();
  for (const auto& each : report.ranks)
    all["ranks_report"].push_back(as_json(each));
  all["blocks_report"] = json::array();
  for (const auto& each : report.blocks)
    all["blocks_report"].push_back({{"rank", each.rank},
                                    {"block", each.block},
                                    {"path", run.block_name(each.block)},
                                    {"uses", each.uses},
                                    {"late", each.late},
                                    {"exposed_wait_s", seconds(each.wait)},
                                    {"transfer_s", seconds(each.transfer)},
                                    {"compute_s", seconds(each.compute)}});
  all["late"] = json::array();
  for (const auto& each : report.late)
    all["late"].push_back(as_json(run, begin, each));
  return all.dump(2, ' ', false, json::error_handler_t::replace);
}

} // namespace ferry
