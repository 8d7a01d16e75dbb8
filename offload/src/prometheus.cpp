// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/prometheus.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace ferry {
namespace {

/// Metrics, one after another.
class exposition {
public:
  void counter(std::string_view name, std::string_view help, double value) {
    head(name, help, "counter");
    sample(name, "", value);
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    head(name, help, "gauge");
    sample(name, "", value);
  }
  void head(std::string_view name, std::string_view help, std::string_view type) {
    text_.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ");
    text_.append(name).append(" ").append(type).append("\n");
  }
  void sample(std::string_view name, const std::string& labels, double value) {
    std::array<char, 40> number{};
    std::snprintf(number.data(), number.size(), "%.17g", value);
    text_.append(name).append(labels).append(" ").append(number.data()).append("\n");
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

private:
  std::string text_;
};

double seconds(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string label(std::string_view name, std::string_view value) {
  std::string text = "{";
  text.append(name).append("=\"");
  for (const char each : value) {
    if (each == '\\' || each == '"')
      text += '\\';
    if (each == '\n')
      text += "\\n";
    else
      text += each;
  }
  return text + "\"}";
}

void add_requests(exposition& to, const request_sums& requests) {
  to.counter("ferry_requests_total", "Requests that ended.",
             static_cast<double>(requests.requests));
  to.counter("ferry_block_uses_total", "Uses of streamed blocks.",
             static_cast<double>(requests.all.blocks));
  to.counter("ferry_compute_seconds_total", "Time in the bodies of streamed blocks.",
             seconds(requests.all.compute));
  to.counter("ferry_transfer_seconds_total", "Time of the copies of blocks.",
             seconds(requests.all.transfer));
  to.counter("ferry_gather_seconds_total", "Time of the gathers of blocks.",
             seconds(requests.all.gather));
  to.counter("ferry_exposed_wait_seconds_total", "Time that compute stood still for blocks.",
             seconds(requests.all.exposed_wait));
  if (!requests.last)
    return;
  to.gauge("ferry_last_request_exposed_wait_seconds", "The same, of the last request.",
           seconds(requests.last->exposed_wait));
  to.gauge("ferry_last_request_overlap_efficiency",
           "What part of what could be hidden was, in the last request.",
           requests.last->efficiency());
}

void add_components(exposition& to, const offload_state& state) {
  if (state.components.empty())
    return;
  to.head("ferry_component_device_bytes", "Weights of a component on the device.", "gauge");
  for (const auto& [path, component] : state.components)
    to.sample("ferry_component_device_bytes", label("component", path),
              static_cast<double>(component.device_bytes));
}

} // namespace

std::string prometheus_text(const offload_state& state, const request_sums& requests) {
  exposition all;
  add_requests(all, requests);
  all.counter("ferry_prefetches_total", "Fetches submitted ahead, since the enable.",
              static_cast<double>(state.prefetches));
  all.counter("ferry_blocking_loads_total",
              "Fetches that began when their block was asked for, since the enable.",
              static_cast<double>(state.blocking_loads));
  all.counter("ferry_collectives_total", "Gathers of this rank, since the enable.",
              static_cast<double>(state.collectives));
  all.counter("ferry_gathered_bytes_total", "Bytes that they brought.",
              static_cast<double>(state.gathered_bytes));
  all.gauge("ferry_enabled", "Whether a backend is enabled.", state.enabled ? 1 : 0);
  all.gauge("ferry_failed", "Whether a transfer failed, so that only a disable works.",
            state.first_failure ? 1 : 0);
  all.gauge("ferry_in_request", "Whether a request runs.", state.in_request ? 1 : 0);
  all.gauge("ferry_requests_waiting", "Requests that wait for their turn.",
            static_cast<double>(state.requests_waiting));
  all.gauge("ferry_slots", "Slots on the device.", static_cast<double>(state.slots));
  all.gauge("ferry_slots_free", "Slots that hold no block.", static_cast<double>(state.slots_free));
  all.gauge("ferry_slot_bytes", "Size of one slot.", static_cast<double>(state.slot_bytes));
  all.gauge("ferry_resident_bytes", "Weights that stay on the device.",
            static_cast<double>(state.resident_bytes));
  all.gauge("ferry_pinned_bytes", "Pinned host memory.", static_cast<double>(state.pinned_bytes));
  add_components(all, state);
  return all.take();
}

} // namespace ferry
