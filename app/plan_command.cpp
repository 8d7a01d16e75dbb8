// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/planner.hpp>
#include <ferry/platform/open_device.hpp>
#include <ferry/platform/quantity.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "choose_config.hpp"
#include "command.hpp"
#include "models/compute_dtype.hpp"
#include "models/compute_threads.hpp"
#include "models/load_model.hpp"
#include "models/request.hpp"
#include "open_ranks.hpp"
#include "option_checks.hpp"
#include "plan_rates.hpp"
#include "report.hpp"
#include "run_options.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ferry {

namespace {

using json = nlohmann::ordered_json;

/// What was typed after `ferry plan`.
struct plan_options {
  std::filesystem::path checkpoint;
  std::optional<std::string> device_memory;
  std::optional<std::string> host_memory;
  std::int64_t ranks = 1;
  rate_options rates;
  bool measure = false;
  std::string device;
  std::optional<std::string> compute_dtype; ///< See `choose_compute_dtype`.
  std::optional<int> steps;
  std::optional<double> guidance;
  std::optional<std::size_t> passes_per_fetch;
  std::int64_t rows = 10;
  bool as_json = false;
};

/// What a plan is for if no device is named.
const device_traits any_device{.wants_pinned_sources = true, .converts = true};

result<std::optional<std::uint64_t>> read_memory(const char* option,
                                                 const std::optional<std::string>& text) {
  if (!text)
    return std::nullopt;
  const auto bytes = parse_bytes(*text);
  if (!bytes)
    return tl::unexpected(failure{.code = errc::invalid_argument,
                                  .detail = std::string(option) + ": " + bytes.error().detail});
  return *bytes;
}

/// Returns what the device is like that is planned for; nothing if none was named and nothing is to
/// be asked of one.
result<std::optional<device_traits>> traits_of(const plan_options& options) {
  if (options.device.empty() && !options.measure && options.compute_dtype != "auto")
    return std::nullopt;
  const auto target = open_device(options.device, {.model = options.rates.model.value_or("")});
  if (!target)
    return tl::unexpected(target.error());
  return (*target)->traits();
}

/// Returns the type that a run of the same `--compute-dtype` computes `model`, as it is stored, in.
result<compute_dtype> compute_dtype_of(const plan_options& options, const diffusion_model& model,
                                       const std::optional<device_traits>& target) {
  const auto stored = stored_dtype(torch_pipeline(model.description()));
  if (options.compute_dtype == "auto")
    limit_compute_threads();
  return choose_compute_dtype(options.compute_dtype, target.value_or(any_device), stored);
}

/// Makes the question of what was typed, with rates measured if that was wished for.
result<plan_question> question_of(const plan_options& options, const diffusion_model& model,
                                  const compute_dtype& computes, const device_traits& target) {
  const auto device_memory = read_memory("--device-memory", options.device_memory);
  if (!device_memory)
    return tl::unexpected(device_memory.error());
  const auto host_memory = read_memory("--host-memory", options.host_memory);
  if (!host_memory)
    return tl::unexpected(host_memory.error());
  auto rates = read_rates(options.rates);
  if (!rates)
    return tl::unexpected(rates.error());
  auto asked = model.defaults();
  asked.steps = options.steps.value_or(asked.steps);
  asked.guidance = options.guidance.value_or(asked.guidance);
  if (auto valid = model.check(asked); !valid)
    return tl::unexpected(valid.error());
  if (options.measure) {
    if (auto measured = measure_rates({.checkpoint = options.checkpoint,
                                       .device = options.device,
                                       .device_memory = *device_memory,
                                       .sim_model = options.rates.model,
                                       .computes = computes.type},
                                      static_cast<std::size_t>(options.ranks), *rates);
        !measured)
      return tl::unexpected(measured.error());
    if (auto refined = refine_rates(options.rates, *rates); !refined)
      return tl::unexpected(refined.error());
  }
  warn_of_unplanned(options.rates.model);
  return plan_question{.rates = std::move(*rates),
                       .device_memory = *device_memory,
                       .host_memory = *host_memory,
                       .pins = target.wants_pinned_sources,
                       .converts = target.converts,
                       .ranks = static_cast<std::size_t>(options.ranks),
                       .steps = static_cast<std::size_t>(asked.steps),
                       .passes = model.passes_per_step(asked),
                       .most_passes_per_fetch = options.passes_per_fetch};
}

double seconds(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

json row(const planned_configuration& plan, std::size_t ranks, const compute_dtype& computes) {
  const auto transfer = transfer_text(plan);
  json steps = json::object();
  for (const auto& [path, time] : plan.steps)
    steps[path] = seconds(time);
  return {{"strategy", to_string(plan.config.strategy)},
          {"resident_blocks", plan.resident_blocks},
          {"slots", plan.slots},
          {"weight_transfer", transfer.empty() ? json(nullptr) : json(transfer)},
          {"chunk_bytes", plan.config.chunk_bytes},
          {"passes_per_fetch", plan.passes_per_fetch},
          {"step_s", seconds(plan.step)},
          {"component_step_s", steps},
          {"load_s", seconds(plan.load)},
          {"peak_device_weight_bytes", plan.device_bytes},
          {"pinned_bytes", plan.host_bytes},
          {"config", plan.compact.empty() ? json(nullptr) : json::parse(plan.compact)},
          {"options", options_text(plan, ranks, computes)}};
}

void print_json(const plan_question& asked, const std::vector<planned_configuration>& plans,
                bool measured, const compute_dtype& computes,
                const std::optional<device_traits>& target) {
  json block_times = json::object();
  for (const auto& [path, time] : asked.rates.computes)
    block_times[path] = seconds(time);
  json rows = json::array();
  for (const auto& each : plans)
    rows.push_back(row(each, asked.ranks, computes));
  const json all = {
      {"rates",
       {{"measured", measured},
        {"link_bytes_per_s", asked.rates.link},
        {"latency_s", seconds(asked.rates.latency)},
        {"host_bytes_per_s", asked.rates.host == 0 ? json(nullptr) : json(asked.rates.host)},
        {"compute_s", seconds(asked.rates.compute)},
        {"computes_s", block_times},
        {"gather_bytes_per_s", asked.rates.gather},
        {"gather_latency_s", seconds(asked.rates.gather_latency)},
        {"gather_over_link", asked.rates.gather_over_link},
        {"jitter", asked.rates.jitter}}},
      {"device", target ? json(target->name) : json(nullptr)},
      {"compute_dtype", to_string(computes)},
      {"ranks", asked.ranks},
      {"steps", asked.steps},
      {"configurations", rows}};
  std::puts(all.dump(2).c_str());
}

std::string components_text(const planned_configuration& plan) {
  std::string text;
  if (plan.config.strategy != offload_strategy::none && plan.config.components)
    for (const auto component : *plan.config.components)
      text += (text.empty() ? "" : "+") + std::string(to_string(component));
  return text.empty() ? "-" : text;
}

std::string number_text(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", number);
  return text.data();
}

std::string rates_text(const machine_rates& rates, bool measured) {
  auto text = "link " + number_text(rates.link / 1e9) + " GB/s, jitter " +
              number_text(rates.jitter) + ", " + time_text(seconds(rates.compute)) + " a block";
  if (!rates.computes.empty())
    text += " (others in --json)";
  return text + (measured ? ", measured where nothing else was given"
                          : ", not measured: what was given, or assumed");
}

/// Returns how to run what was planned.
std::string how_to_run(const planned_configuration& plan, std::size_t ranks,
                       const compute_dtype& computes, const std::string& device) {
  auto options = options_text(plan, ranks, computes);
  if (!device.empty())
    options = "--device " + device + (options.empty() ? "" : " " + options);
  if (plan.compact.empty())
    return "everything on the device" + (options.empty() ? "" : ": " + options) +
           ", without --config";
  if (plan.passes_per_fetch <= plan.passes_of_step)
    return options;
  return options + ", with --requests: " + std::to_string(plan.passes_per_fetch) +
         " passes are those of " + std::to_string(plan.passes_per_fetch / plan.passes_of_step) +
         " requests at a time";
}

void print_table(const plan_question& asked, const std::vector<planned_configuration>& plans,
                 const plan_options& options, const compute_dtype& computes,
                 const std::optional<device_traits>& target) {
  std::printf("%3s %-23s %-16s %9s %5s %6s %-12s %9s %11s %11s %11s %11s\n", "", "strategy",
              "components", "residents", "slots", "passes", "transport", "chunk", "step", "load",
              "device", "pinned");
  for (std::size_t i = 0; i != plans.size(); ++i) {
    const auto& each = plans[i];
    const auto transfer = transfer_text(each);
    const auto chunk =
        transfer == "allgather" ? size_text(each.config.chunk_bytes) : std::string("-");
    std::printf("%3zu %-23s %-16s %9zu %5zu %6zu %-12s %9s %11s %11s %11s %11s\n", i + 1,
                std::string(to_string(each.config.strategy)).c_str(), components_text(each).c_str(),
                each.resident_blocks, each.slots, each.passes_per_fetch,
                transfer.empty() ? "-" : transfer.c_str(), chunk.c_str(),
                time_text(seconds(each.step)).c_str(), time_text(seconds(each.load)).c_str(),
                size_text(each.device_bytes).c_str(), size_text(each.host_bytes).c_str());
  }
  std::printf(
      "\nin the order of what a request of %zu steps takes, with what it loads\nrates: %s\n",
      asked.steps, rates_text(asked.rates, options.measure).c_str());
  if (target)
    std::printf("on %s%s\n", target->name.c_str(),
                target->wants_pinned_sources ? "" : ", for which nothing is pinned");
  else
    std::printf("on a device for which weights are pinned; see --device\n");
  std::printf("computes in %s\n", compute_dtype_text(to_string(computes), computes.reason).c_str());
  std::printf("\nbest: %s\n",
              how_to_run(plans.front(), asked.ranks, computes, options.device).c_str());
  for (std::size_t i = 1; i != plans.size(); ++i)
    std::printf("%4zu: %s\n", i + 1,
                how_to_run(plans[i], asked.ranks, computes, options.device).c_str());
}

exit_code give_up(const failure& reason) {
  return report(reason, exit_code_of(reason));
}

exit_code plan(const plan_options& options) {
  if (auto known = check_compute_dtype(options.compute_dtype); !known)
    return give_up(known.error());
  auto model = load_model(options.checkpoint);
  if (!model)
    return give_up(model.error());
  const auto target = traits_of(options);
  if (!target)
    return give_up(target.error());
  const auto computes = compute_dtype_of(options, **model, *target);
  if (!computes)
    return give_up(computes.error());
  if (computes->type)
    model = load_model(options.checkpoint, computes->type);
  if (!model)
    return give_up(model.error());
  const auto asked = question_of(options, **model, *computes, target->value_or(any_device));
  if (!asked)
    return give_up(asked.error());
  auto plans = plan_configurations(torch_pipeline((*model)->description()), *asked);
  if (!plans)
    return give_up(plans.error());
  if (plans->size() > static_cast<std::size_t>(options.rows))
    plans->resize(static_cast<std::size_t>(options.rows));
  if (options.as_json)
    print_json(*asked, *plans, options.measure, *computes, *target);
  else
    print_table(*asked, *plans, options, *computes, *target);
  return exit_code::done;
}

void add_limits(CLI::App& command, plan_options& options) {
  auto* group = command.add_option_group("Limits");
  group
      ->add_option("--device-memory", options.device_memory,
                   "Device memory for weights of each rank, such as 64MiB or 20GB (no limit)")
      ->type_name("SIZE");
  group
      ->add_option("--host-memory", options.host_memory,
                   "Host memory that all ranks together may pin (no limit)")
      ->type_name("SIZE");
  group->add_option("--ranks", options.ranks, "Ranks that share the weights, 1 to 64 (1)")
      ->type_name("N")
      ->check(integer_between(1, most_ranks));
}

void add_rates(CLI::App& command, plan_options& options) {
  auto* group = command.add_option_group("Rates");
  auto& rates = options.rates;
  group
      ->add_option("--sim", rates.model,
                   "Rates as the model of a simulated device, which the others refine "
                   "(link=25GB/s,compute=2ms)")
      ->type_name("MODEL");
  group->add_option("--link", rates.link, "Host memory to a device (25GB/s)")->type_name("RATE");
  group
      ->add_option("--host-link", rates.host_link,
                   "What all ranks together get from host memory (no limit)")
      ->type_name("RATE");
  group
      ->add_option("--compute", rates.compute,
                   "Of a block; or PATH=TIME,... of those at and below paths (2ms)")
      ->type_name("TIME");
  group->add_option("--gather", rates.gather, "Bus bandwidth of an all-gather (360GB/s)")
      ->type_name("RATE");
  group->add_option("--gather-latency", rates.gather_latency, "Of each all-gather (30us)")
      ->type_name("TIME");
  group
      ->add_option("--jitter", rates.jitter,
                   "Coefficient of variation of copies and gathers, 0 to 10 (0)")
      ->type_name("X");
  group->add_flag("--measure", options.measure,
                  "First run the family's default request and take its link and compute times");
  group
      ->add_option("--device", options.device,
                   "To plan for: sim, host or cuda[:N], which says what is pinned and converted "
                   "there; with --measure or --compute-dtype auto also to measure on (cuda where a "
                   "GPU can be opened, else host; without either: a device that pins)")
      ->type_name("NAME")
      ->check(check_device_name);
  add_compute_dtype_option(*group, options.compute_dtype);
}

void add_request(CLI::App& command, plan_options& options) {
  auto* group = command.add_option_group("Request");
  group
      ->add_option(
          "--steps", options.steps,
          "Denoising steps of a request, over which what it loads is spread, 1 to 1000 (4)")
      ->type_name("N")
      ->check(integer_between(1, max_steps));
  group
      ->add_option("--guidance", options.guidance,
                   "wan: classifier-free guidance, which runs each denoiser twice a step unless it "
                   "is 1 or less (4)")
      ->type_name("X");
  group
      ->add_option("--passes-per-fetch", options.passes_per_fetch,
                   "Most passes that may use a block while it is on the device, 1 to 64; more than "
                   "a step has are those of several requests (those of a step)")
      ->type_name("N")
      ->check(integer_between(1, most_passes_per_fetch));
}

} // namespace

void add_plan_command(CLI::App& program, exit_code& outcome) {
  auto* command = program.add_subcommand(
      "plan", "Ranks configurations for a memory budget by their predicted step time");
  const auto options = std::make_shared<plan_options>();
  command
      ->add_option("CHECKPOINT", options->checkpoint,
                   "Directory of the pipeline, in the layout that diffusers saves")
      ->required()
      ->type_name("");
  add_limits(*command, *options);
  add_rates(*command, *options);
  add_request(*command, *options);
  command->add_option("--rows", options->rows, "Most configurations to print, 1 to 1000 (10)")
      ->type_name("N")
      ->check(integer_between(1, 1000));
  command->add_flag("--json", options->as_json, "Print JSON");
  command->callback([options, &outcome] { outcome = plan(*options); });
}

} // namespace ferry
