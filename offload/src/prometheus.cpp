// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/prometheus.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ferry {
namespace {

/// Metrics, one after another: each with a sample of every rank.
class exposition {
public:
  explicit exposition(std::span<const rank_metrics> ranks, bool labelled)
      : ranks_(ranks), labelled_(labelled) {}

  template <class Value>
  void counter(std::string_view name, std::string_view help, const Value& value) {
    add(name, help, "counter", value);
  }
  template <class Value>
  void gauge(std::string_view name, std::string_view help, const Value& value) {
    add(name, help, "gauge", value);
  }
  /// Of the components of each rank.
  template <class Value>
  void components(std::string_view name, std::string_view help, const Value& value) {
    const auto none = [](const rank_metrics& of) { return of.state.components.empty(); };
    if (std::ranges::all_of(ranks_, none))
      return;
    head(name, help, "gauge");
    for (const auto& each : ranks_)
      for (const auto& [path, component] : each.state.components)
        sample(name, each, label("component", path), static_cast<double>(value(component)));
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

private:
  /// `value` gives a number, or an optional one: no sample where there is none.
  template <class Value>
  void add(std::string_view name, std::string_view help, std::string_view type,
           const Value& value) {
    bool is_new = true;
    for (const auto& each : ranks_) {
      const std::optional<double> number = value(each);
      if (!number)
        continue;
      if (std::exchange(is_new, false))
        head(name, help, type);
      sample(name, each, "", *number);
    }
  }
  void head(std::string_view name, std::string_view help, std::string_view type) {
    text_.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ");
    text_.append(name).append(" ").append(type).append("\n");
  }
  void sample(std::string_view name, const rank_metrics& of, std::string labels, double value) {
    if (labelled_)
      labels += (labels.empty() ? "" : ",") + label("rank", std::to_string(of.rank));
    std::array<char, 40> number{};
    std::snprintf(number.data(), number.size(), "%.17g", value);
    text_.append(name);
    if (!labels.empty())
      text_.append("{").append(labels).append("}");
    text_.append(" ").append(number.data()).append("\n");
  }
  static std::string label(std::string_view name, std::string_view value);

  std::span<const rank_metrics> ranks_;
  bool labelled_;
  std::string text_;
};

std::string exposition::label(std::string_view name, std::string_view value) {
  std::string text(name);
  text += "=\"";
  for (const char each : value) {
    if (each == '\\' || each == '"')
      text += '\\';
    if (each == '\n')
      text += "\\n";
    else
      text += each;
  }
  return text + "\"";
}

double seconds(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

template <class Member>
auto of_state(Member offload_state::* member) {
  return [member](const rank_metrics& of) { return static_cast<double>(of.state.*member); };
}

auto of_all(nanoseconds overlap_summary::* member) {
  return [member](const rank_metrics& of) { return seconds(of.requests.all.*member); };
}

void add_requests(exposition& to) {
  to.counter("ferry_requests_total", "Requests that ended.",
             [](const auto& of) { return static_cast<double>(of.requests.requests); });
  to.counter("ferry_block_uses_total", "Uses of streamed blocks.",
             [](const auto& of) { return static_cast<double>(of.requests.all.blocks); });
  to.counter("ferry_compute_seconds_total",
             "Time in the bodies of streamed blocks, and of all else in steps.",
             of_all(&overlap_summary::compute));
  to.counter("ferry_transfer_seconds_total", "Time of the copies of blocks.",
             of_all(&overlap_summary::transfer));
  to.counter("ferry_gather_seconds_total", "Time of the gathers of blocks.",
             of_all(&overlap_summary::gather));
  to.counter("ferry_exposed_wait_seconds_total", "Time that compute stood still for blocks.",
             of_all(&overlap_summary::exposed_wait));
  const auto of_last = [](auto figure) {
    return [figure](const rank_metrics& of) {
      return of.requests.last ? std::optional<double>(figure(*of.requests.last)) : std::nullopt;
    };
  };
  to.gauge("ferry_last_request_exposed_wait_seconds", "The same, of the last request.",
           of_last([](const overlap_summary& last) { return seconds(last.exposed_wait); }));
  to.gauge("ferry_last_request_overlap_efficiency",
           "What part of what could be hidden was, in the last request.",
           of_last([](const overlap_summary& last) { return last.efficiency(); }));
}

std::string text_of(std::span<const rank_metrics> ranks, bool labelled) {
  exposition all(ranks, labelled);
  add_requests(all);
  all.counter("ferry_prefetches_total", "Fetches submitted ahead, since the enable.",
              of_state(&offload_state::prefetches));
  all.counter("ferry_blocking_loads_total",
              "Fetches that began when their block was asked for, since the enable.",
              of_state(&offload_state::blocking_loads));
  all.counter("ferry_collectives_total", "Gathers of this rank, since the enable.",
              of_state(&offload_state::collectives));
  all.counter("ferry_gathered_bytes_total", "Bytes that they brought.",
              of_state(&offload_state::gathered_bytes));
  all.gauge("ferry_enabled", "Whether a backend is enabled.", of_state(&offload_state::enabled));
  all.gauge("ferry_failed", "Whether a transfer failed, so that only a disable works.",
            [](const auto& of) { return of.state.first_failure ? 1.0 : 0.0; });
  all.gauge("ferry_in_request", "Whether a request runs.", of_state(&offload_state::in_request));
  all.gauge("ferry_requests_waiting", "Requests that wait for their turn.",
            of_state(&offload_state::requests_waiting));
  all.gauge("ferry_slots", "Slots on the device.", of_state(&offload_state::slots));
  all.gauge("ferry_slots_free", "Slots that hold no block.", of_state(&offload_state::slots_free));
  all.gauge("ferry_slot_bytes", "Size of one slot.", of_state(&offload_state::slot_bytes));
  all.gauge("ferry_resident_bytes", "Weights that stay on the device.",
            of_state(&offload_state::resident_bytes));
  all.gauge("ferry_pinned_bytes", "Pinned host memory.", of_state(&offload_state::pinned_bytes));
  all.components("ferry_component_device_bytes", "Weights of a component on the device.",
                 [](const auto& component) { return component.device_bytes; });
  return all.take();
}

} // namespace

std::string prometheus_text(const offload_state& state, const request_sums& requests) {
  const rank_metrics alone{.rank = 0, .state = state, .requests = requests};
  return text_of({&alone, 1}, false);
}

std::string prometheus_text(std::span<const rank_metrics> ranks) {
  return text_of(ranks, true);
}

} // namespace ferry
