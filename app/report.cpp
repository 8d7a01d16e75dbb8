// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "report.hpp"

#include <ferry/platform/quantity.hpp>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <numeric>
#include <span>
#include <sstream>
#include <string_view>

namespace ferry {

namespace {

using json = nlohmann::ordered_json;

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

std::string percent_text(double fraction) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", fraction * 100);
  return text.data();
}

std::string decimal_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

std::optional<double> passes_per_fetch(const run_report& r) {
  if (r.block_uses == 0)
    return std::nullopt;
  return static_cast<double>(r.block_passes) / static_cast<double>(r.block_uses);
}

std::string counted(std::uint64_t count, std::string_view what) {
  return (std::to_string(count) + " ").append(what) + (count == 1 ? "" : "s");
}

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0)
    return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::uint64_t blocks_in_place(const run_report& r) {
  std::uint64_t count = 0;
  for (const auto& [path, component] : r.components)
    count += component.blocks_in_place;
  return count;
}

std::uint64_t streamed_blocks(const run_report& r) {
  std::uint64_t count = 0;
  for (const auto& [path, component] : r.components)
    if (component.streamed_bytes > 0)
      count += component.blocks - component.resident_blocks;
  return count;
}

void line(std::string& table, std::string_view name, std::string_view value) {
  constexpr std::size_t width = 27;
  table += "  ";
  table += name;
  table.append(width - std::min(width, name.size()), ' ');
  table += value;
  table += '\n';
}

std::string yes_or_no(const std::optional<bool>& value) {
  return *value ? "yes" : "NO";
}

json as_json(const std::optional<chosen_report>& chosen) {
  if (!chosen)
    return nullptr;
  return {{"config", chosen->config.empty() ? json(nullptr) : json::parse(chosen->config)},
          {"options", chosen->options},
          {"step_s", chosen->step_s},
          {"peak_device_weight_bytes", chosen->peak_device_weight_bytes}};
}

json as_json(const run_report& r) {
  json components = json::object();
  for (const auto& [path, c] : r.components)
    components[path] = {{"bytes", c.bytes},
                        {"selected", c.selected},
                        {"on_demand", c.on_demand},
                        {"blocks", c.blocks},
                        {"streamed_bytes", c.streamed_bytes},
                        {"largest_block_bytes", c.largest_block_bytes},
                        {"resident_blocks", c.resident_blocks},
                        {"blocks_in_place", c.blocks_in_place}};
  return {
      {"strategy", r.strategy},
      {"chosen", as_json(r.chosen)},
      {"device", r.device},
      {"compute_dtype", r.compute_dtype},
      {"compute_dtype_reason", r.compute_reason.empty() ? json(nullptr) : json(r.compute_reason)},
      {"rank", r.rank},
      {"ranks", r.ranks},
      {"steps", r.steps},
      {"requests", r.requests},
      {"components", components},
      {"total_weight_bytes", r.total_weight_bytes},
      {"peak_device_weight_bytes", r.peak_device_weight_bytes},
      {"slot_bytes", r.slot_bytes},
      {"pinned_bytes", r.pinned_bytes},
      {"pageable_stores", r.pageable_stores},
      {"staged_stores", r.staged_stores},
      {"misplaced_stores", r.misplaced_stores},
      {"peak_host_bytes", r.peak_host_bytes},
      {"wall_s", r.wall_s},
      {"first_step_end_s", r.first_step_end_s},
      {"step_s", r.step_s},
      {"resident_step_s", r.resident_step_s},
      {"h2d_bytes", r.h2d_bytes},
      {"d2h_bytes", r.d2h_bytes},
      {"collectives", r.collectives},
      {"allgather_bytes", r.allgather_bytes},
      {"prefetches", r.prefetches},
      {"blocking_loads", r.blocking_loads},
      {"passes_per_fetch", or_null(passes_per_fetch(r))},
      {"exposed_wait_s", or_null(r.exposed_wait_s)},
      {"overlap_efficiency", or_null(r.overlap_efficiency)},
      {"lower_bound_s", or_null(r.lower_bound_s)},
      {"device_allocations_after_warmup", r.device_allocations_after_warmup},
      {"tickets_in_flight", r.tickets_in_flight},
      {"races", r.races},
      {"output_sha256", r.output_sha256.empty() ? json(nullptr) : json(r.output_sha256)},
      {"output_equals_resident", or_null(r.output_equals_resident)},
      {"reference_max_abs_error", or_null(r.reference_max_abs_error)},
  };
}

/// What is wrong on any rank is wrong.
run_report overall(const std::vector<run_report>& ranks) {
  auto all = ranks.front();
  for (const auto& each : std::span(ranks).subspan(1)) {
    all.races += each.races;
    if (each.output_equals_resident == false)
      all.output_equals_resident = false;
    if (each.reference_max_abs_error > all.reference_max_abs_error)
      all.reference_max_abs_error = each.reference_max_abs_error;
  }
  return all;
}

} // namespace

std::string compute_dtype_text(const std::string& type, const std::string& reason) {
  return reason.empty() ? type : type + ": " + reason;
}

std::string time_text(double seconds) {
  std::array<char, 32> text{};
  if (seconds < 1e-3)
    std::snprintf(text.data(), text.size(), "%.1f us", seconds * 1e6);
  else if (seconds < 1)
    std::snprintf(text.data(), text.size(), "%.2f ms", seconds * 1e3);
  else
    std::snprintf(text.data(), text.size(), "%.2f s", seconds);
  return text.data();
}

std::string to_json(const std::vector<run_report>& ranks) {
  auto report = as_json(overall(ranks));
  if (ranks.size() > 1)
    for (const auto& each : ranks)
      report["ranks_report"].push_back(as_json(each));
  return report.dump(2);
}

std::string to_table(const run_report& r) {
  const auto ranks =
      r.ranks == 1 ? "" : ", rank " + std::to_string(r.rank) + " of " + std::to_string(r.ranks);
  std::string table = "\n" + r.strategy + " on " + r.device + ranks + ", " +
                      counted(r.requests, "request") + ", " + counted(r.steps, "step") + "\n";
  if (r.chosen) {
    line(table, "chosen", r.chosen->config.empty() ? "nothing is offloaded" : r.chosen->options);
    line(table, "step, predicted", time_text(r.chosen->step_s));
    line(table, "peak, predicted", size_text(r.chosen->peak_device_weight_bytes));
  }
  line(table, "weights", size_text(r.total_weight_bytes));
  line(table, "computes in", compute_dtype_text(r.compute_dtype, r.compute_reason));
  if (const auto blocks = streamed_blocks(r); blocks > 0 && r.may_be_in_place)
    line(table, "computed with in place",
         std::to_string(blocks_in_place(r)) + " of " + counted(blocks, "block"));
  line(table, "peak on the device", size_text(r.peak_device_weight_bytes));
  if (r.slot_bytes > 0)
    line(table, "one slot", size_text(r.slot_bytes));
  line(table, "pinned", size_text(r.pinned_bytes));
  if (r.pageable_stores > 0)
    line(table, "host copies not pinned", std::to_string(r.pageable_stores));
  if (r.staged_stores > 0)
    line(table, "host copies staged", std::to_string(r.staged_stores));
  if (r.misplaced_stores > 0)
    line(table, "pinned on another node", std::to_string(r.misplaced_stores));
  line(table, "peak of the process", size_text(r.peak_host_bytes));
  if (r.first_step_end_s > 0)
    line(table, "first step ended after", time_text(r.first_step_end_s));
  if (!r.step_s.empty())
    line(table, "step (median)", time_text(median(r.step_s)));
  if (!r.resident_step_s.empty())
    line(table, "step, all on the device", time_text(median(r.resident_step_s)));
  line(table, "moved to the device", size_text(r.h2d_bytes));
  if (r.collectives > 0)
    line(table, "gathered", size_text(r.allgather_bytes));
  const auto of_blocks = [&](const std::string& text) { return r.exposed_wait_s ? text : "-"; };
  line(table, "prefetches", of_blocks(std::to_string(r.prefetches)));
  line(table, "blocking loads", of_blocks(std::to_string(r.blocking_loads)));
  line(table, "passes per fetch", of_blocks(decimal_text(passes_per_fetch(r).value_or(0))));
  line(table, "exposed wait", of_blocks(time_text(r.exposed_wait_s.value_or(0))));
  line(table, "overlap", of_blocks(percent_text(r.overlap_efficiency.value_or(0))));
  if (r.output_equals_resident)
    line(table, "equals the resident run", yes_or_no(r.output_equals_resident));
  if (r.reference_max_abs_error) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.2e", *r.reference_max_abs_error);
    line(table, "worst error to reference", text.data());
  }
  if (!r.output_sha256.empty())
    line(table, "output sha256", r.output_sha256);
  return table;
}

// Not of `getrusage`, which also remembers what the process was before it became this program.
std::uint64_t peak_resident_bytes() {
  constexpr std::string_view field = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field))
      return std::stoull(line.substr(field.size())) * 1024;
  return 0;
}

double seconds_since_process_start() {
  constexpr int started_field = 22; // Of /proc/self/stat, in clock ticks since the machine started.
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  std::istringstream words(line.substr(line.rfind(')') + 1));
  std::string word;
  for (int field = 3; field <= started_field; ++field)
    words >> word;
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         std::stod(word) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

} // namespace ferry
