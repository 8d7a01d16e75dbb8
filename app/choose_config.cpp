// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "choose_config.hpp"

#include <ferry/platform/log.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "plan_rates.hpp"
#include "request_terms.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace ferry {

namespace {

constexpr std::size_t bytes_in_mib = std::size_t{1} << 20;

bool gathers(const planned_configuration& plan) {
  return plan.config.uses_allgather(component_name::dit);
}

/// Returns how many passes may share a fetch: what was typed, or what all requests have together
/// where that is less.
std::optional<std::size_t> most_passes(const run_options& options, const diffusion_model& model,
                                       const std::vector<asked_request>& asked) {
  if (!options.passes_per_fetch)
    return std::nullopt;
  std::size_t all = 0;
  for (const auto& each : asked)
    all += terms_of(model, each.what).passes;
  return std::min(*options.passes_per_fetch, all);
}

} // namespace

std::string transfer_text(const planned_configuration& plan) {
  if (plan.config.strategy == offload_strategy::none)
    return "";
  return gathers(plan) ? "allgather" : "rank-local";
}

std::string options_text(const planned_configuration& plan, std::size_t ranks,
                         const compute_dtype& computes) {
  std::string text;
  const auto add = [&text](const std::string& option) {
    text += (text.empty() ? "" : " ") + option;
  };
  if (ranks != 1)
    add("--ranks " + std::to_string(ranks));
  if (computes.type)
    add("--compute-dtype " + to_string(computes));
  if (plan.compact.empty())
    return text;
  add("--config '" + plan.compact + "'");
  if (gathers(plan) && plan.config.chunk_bytes != offload_config{}.chunk_bytes)
    add("--dlo-chunk-size-mb " + std::to_string(plan.config.chunk_bytes / bytes_in_mib));
  if (plan.passes_per_fetch != plan.passes_of_step)
    add("--passes-per-fetch " + std::to_string(plan.passes_per_fetch));
  return text;
}

void warn_of_unplanned(const std::optional<std::string>& model) {
  for (const auto& key : keys_without_effect(model))
    log(log_level::warn, "ferry.app", "sim." + key + " counts for nothing in a plan");
}

result<void> check_beside_automatic(const legacy_options& beside) {
  const legacy_options unset;
  const std::array given = {
      std::pair{"--enable-cpu-offload", beside.enable_cpu_offload},
      std::pair{"--enable-layerwise-offload", beside.enable_layerwise_offload},
      std::pair{"--enable-distributed-layerwise-offload",
                beside.enable_distributed_layerwise_offload},
      std::pair{"--dlo-no-use-allgather", !beside.dlo_use_allgather},
      std::pair{"--dlo-resident-layers", beside.dlo_resident_layers != unset.dlo_resident_layers},
      std::pair{"--dlo-chunk-size-mb", beside.dlo_chunk_size_mb != unset.dlo_chunk_size_mb},
      std::pair{"--dlo-pin-budget-gb", beside.dlo_pin_budget_gb.has_value()},
      std::pair{"--dlo-pin-failure-policy",
                beside.dlo_pin_failure_policy != unset.dlo_pin_failure_policy},
      std::pair{"--no-pin-memory", !beside.pin_cpu_memory},
  };
  for (const auto& [option, is_given] : given)
    if (is_given)
      return tl::unexpected(
          failure{.code = errc::invalid_config,
                  .detail = std::string(option) +
                            " is given beside --config auto, which chooses everything by itself; "
                            "leave it out, or take a configuration that ferry plan prints"});
  return {};
}

result<planned_configuration>
choose_config(const run_options& options, const diffusion_model& model,
              const std::vector<asked_request>& asked, std::optional<std::uint64_t> device_memory,
              const compute_dtype& computes, device& target, std::size_t ranks) {
  auto rates = read_rates({.model = options.sim_model});
  if (!rates)
    return tl::unexpected(rates.error());
  if (!target.traits().virtual_time)
    if (auto measured = measure_rates({.checkpoint = options.checkpoint,
                                       .device = target.traits().name,
                                       .device_memory = device_memory,
                                       .sim_model = options.sim_model,
                                       .computes = computes.type},
                                      ranks, *rates);
        !measured)
      return tl::unexpected(measured.error());
  warn_of_unplanned(options.sim_model);
  const auto& first = asked.front().what;
  const plan_question question{.rates = std::move(*rates),
                               .device_memory = target.memory().free,
                               .pins = target.traits().wants_pinned_sources,
                               .converts = target.traits().converts,
                               .ranks = ranks,
                               .steps = static_cast<std::size_t>(first.steps),
                               .passes = model.passes_per_step(first),
                               .most_passes_per_fetch = most_passes(options, model, asked)};
  auto plans = plan_configurations(torch_pipeline(model.description()), question);
  if (!plans)
    return tl::unexpected(plans.error());
  auto& best = plans->front();
  const auto text = options_text(best, ranks, computes);
  log(log_level::info, "ferry.app",
      "choose configuration " + (best.compact.empty() ? "nothing is offloaded" : text));
  return std::move(best);
}

} // namespace ferry
