// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/block_marks.hpp>
#include <ferry/offload/config_legacy.hpp>
#include <ferry/platform/device.hpp>
#include <ferry/platform/log.hpp>
#include <ferry/platform/open_device.hpp>
#include <ferry/torch/torch_cuda.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "caught.hpp"
#include "models/compute_threads.hpp"
#include "models/load_model.hpp"
#include "page_cache_room.hpp"
#include "plan_rates.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry {

namespace {

template <class T>
T median(std::vector<T>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Returns the coefficient of variation of lognormal `values`, from their middle half: single
/// copies that took ages, because their pages were read from disk, say nothing.
double variation(std::vector<double>& values) {
  std::ranges::sort(values);
  const auto quarter = values.size() / 4;
  constexpr double quartiles = 1.349; // Between those of a normal distribution, in deviations.
  const auto deviation =
      std::log(values[values.size() - 1 - quarter] / values[quarter]) / quartiles;
  return std::sqrt(std::exp(deviation * deviation) - 1);
}

constexpr double most_jitter = 10; // That anybody may give.

/// Collects what copies of blocks and their bodies take on a device. Thread-safe.
class block_watch final : public operation_observer {
public:
  void on_operation(const operation_span& span) override {
    const std::lock_guard lock(mutex_);
    if (span.tag.block == operation_tag::no_block)
      return;
    if (span.kind == operation_kind::copy) {
      if (span.bytes != 0 && span.end > span.start)
        links_.push_back(static_cast<double>(span.bytes) /
                         std::chrono::duration<double>(span.end - span.start).count());
    } else if (block_marks::is_gate_mark(span)) {
      if (const auto use = marks_.add(span))
        bodies_[use->block].push_back(use->ended - use->begun);
    }
  }
  void on_stream(stream_id, std::string_view) override {}

  /// Puts what was seen of blocks that are called `paths` into `rates`: the bodies of those of
  /// denoisers, which have no empty path. Returns what was not seen.
  [[nodiscard]] std::vector<std::string> put_into(machine_rates& rates,
                                                  const std::vector<std::string>& paths) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> unseen;
    if (links_.empty()) {
      unseen.emplace_back("link");
    } else {
      rates.link = median(links_);
      rates.jitter = std::min(variation(links_), most_jitter);
      rates.latency = {};
    }
    std::vector<nanoseconds> all;
    for (auto& [block, times] : bodies_)
      if (block < paths.size() && !paths[block].empty())
        all.push_back(rates.computes[paths[block]] = median(times));
    if (all.empty())
      unseen.emplace_back("compute");
    else
      rates.compute = median(all); // Of blocks that did not run.
    return unseen;
  }

private:
  std::mutex mutex_;
  std::vector<double> links_; ///< Bytes per second of each copy.
  block_marks marks_;
  std::map<std::uint32_t, std::vector<nanoseconds>> bodies_;
};

/// What denoisers are streamed under while they are measured, the first that fits: the text
/// encoders on the device, streamed as well, and everything through one slot.
constexpr std::array measured_configurations = {
    R"({"mode":"layer","components":["dit"],"slots":2})",
    R"({"mode":"layer","components":["dit","text_encoder"],"slots":2})",
    R"({"mode":"layer","components":["dit","text_encoder"],"slots":1})"};

/// Says in the log which rates are as they were.
void tell_assumed(std::vector<std::string> unseen, std::size_t ranks, bool on_host) {
  if (ranks > 1)
    unseen.insert(unseen.end(), {"gather", "gather-latency", "host-link"});
  if (ranks > 1 && on_host)
    unseen.emplace_back("compute where ranks share the cores (it is that of one rank alone)");
  if (unseen.empty())
    return;
  std::string all;
  for (const auto& each : unseen)
    all += (all.empty() ? "" : ", ") + each;
  log(log_level::warn, "ferry.app",
      "rates that were not measured and are assumed unless they are given: " + all);
}

result<void> enable_what_fits(runtime& through, const diffusion_model& model) {
  result<void> enabled;
  for (const auto* const text : measured_configurations) {
    auto config = resolve_config(text, {});
    if (!config)
      return tl::unexpected(config.error());
    enabled = through.enable(std::make_shared<torch_pipeline>(model.description()), config->config);
    if (enabled || enabled.error().code != errc::out_of_device_memory)
      break;
  }
  return enabled;
}

/// Runs `asked` with each pass by itself: the marks of a block then stand for one body.
void run_pass_by_pass(const diffusion_model& model, const request& asked) {
  std::array<grouped_request, 1> alone{{{.asked = asked}}};
  model.run_together(alone, {.passes_per_fetch = 1});
  if (alone.front().failed)
    std::rethrow_exception(alone.front().failed);
}

/// Runs a short request of the family with its denoisers streamed. Returns what their blocks are
/// called, and nothing for those of other components.
result<std::vector<std::string>> run_streamed(const std::shared_ptr<device>& target,
                                              std::optional<std::uint64_t> device_memory,
                                              const diffusion_model& model,
                                              std::shared_ptr<caller_streams> callers) {
  runtime through(target, {.device_memory = device_memory, .callers = std::move(callers)});
  if (auto started = through.start(); !started)
    return tl::unexpected(started.error());
  if (auto enabled = enable_what_fits(through, model); !enabled)
    return tl::unexpected(enabled.error());
  const auto asked = model.defaults();
  const auto begun = through.begin_request({.steps = static_cast<std::uint32_t>(asked.steps)});
  if (!begun)
    return tl::unexpected(begun.error());
  run_pass_by_pass(model, asked);
  const auto state = through.state();
  auto ended = through.end_request();
  auto disabled = through.disable();
  if (!state)
    return tl::unexpected(state.error());
  if (!ended)
    return tl::unexpected(ended.error());
  if (!disabled)
    return tl::unexpected(disabled.error());
  auto paths = state->blocks;
  const auto roles = model.description().roles.value_or(component_roles{});
  for (auto& path : paths)
    if (std::ranges::none_of(roles.dits,
                             [&](const auto& dit) { return path.starts_with(dit + "."); }))
      path.clear();
  return paths;
}

} // namespace

result<void> measure_rates(const measured_machine& where, std::size_t ranks, machine_rates& rates) {
  try {
    limit_compute_threads();
    const auto model = load_model(where.checkpoint, where.computes);
    if (!model)
      return tl::unexpected(model.error());
    auto opened = open_device(
        where.device, {.memory = where.device_memory,
                       .page_cache = page_cache_room(where.checkpoint, read_host_limits("/")),
                       .model = where.sim_model.value_or("")});
    if (!opened)
      return tl::unexpected(opened.error());
    const std::shared_ptr<device> target = std::move(*opened);
    auto callers = streams_of_callers(target);
    if (!callers)
      return tl::unexpected(callers.error());
    (*model)->compute_on(torch_device_of(*target));
    block_watch watch;
    target->attach(watch);
    auto paths = run_streamed(target, where.device_memory, **model, std::move(*callers));
    target->detach(watch);
    if (!paths && paths.error().code == errc::invalid_pipeline)
      paths = std::vector<std::string>{}; // Nothing can be streamed, and so nothing is seen.
    if (!paths)
      return tl::unexpected(paths.error());
    tell_assumed(watch.put_into(rates, *paths), ranks,
                 target->traits().computes_on_host && !target->traits().virtual_time);
    return {};
  } catch (const std::exception&) {
    return tl::unexpected(caught());
  }
}

} // namespace ferry
