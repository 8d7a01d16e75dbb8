// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "choose_config.hpp"

#include <ferry/platform/log.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "config_option.hpp"
#include "plan_rates.hpp"

#include <utility>

namespace ferry {

namespace {

constexpr std::size_t bytes_in_mib = std::size_t{1} << 20;

bool gathers(const planned_configuration& plan) {
  return plan.config.uses_allgather(component_name::dit);
}

} // namespace

std::string transfer_text(const planned_configuration& plan) {
  if (plan.config.strategy == offload_strategy::none)
    return "-";
  return gathers(plan) ? "allgather" : "rank-local";
}

std::string options_text(const planned_configuration& plan) {
  if (plan.compact.empty())
    return "";
  auto text = "--config '" + plan.compact + "'";
  if (gathers(plan) && plan.config.chunk_bytes != offload_config{}.chunk_bytes)
    text += " --dlo-chunk-size-mb " + std::to_string(plan.config.chunk_bytes / bytes_in_mib);
  return text;
}

result<offload_config> choose_config(const run_options& options, const diffusion_model& model,
                                     const request& asked, device& target, std::size_t ranks) {
  auto rates = read_rates({.model = options.sim_model});
  if (!rates)
    return tl::unexpected(rates.error());
  if (!target.traits().virtual_time)
    if (auto measured =
            measure_rates(options.checkpoint, target.traits().name, options.sim_model, *rates);
        !measured)
      return tl::unexpected(measured.error());
  const torch_pipeline subject(model.description());
  const plan_question question{.rates = std::move(*rates),
                               .device_memory = target.memory().free,
                               .ranks = ranks,
                               .steps = static_cast<std::size_t>(asked.steps),
                               .passes = model.passes_per_step(asked)};
  const auto plans = plan_configurations(subject, question);
  if (!plans)
    return tl::unexpected(plans.error());
  const auto& best = plans->front();
  const auto text = options_text(best);
  log(log_level::info, "ferry.app",
      "choose configuration " + (text.empty() ? "nothing is offloaded" : text));
  if (best.compact.empty())
    return best.config;
  auto beside = options.legacy;
  beside.dlo_chunk_size_mb = static_cast<std::int64_t>(best.config.chunk_bytes / bytes_in_mib);
  return read_config(best.compact, beside);
}

} // namespace ferry
