// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/resident_weights.hpp>
#include <ferry/platform/sim_device.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "command.hpp"
#include "digest.hpp"
#include "exit_code.hpp"
#include "progress_bar.hpp"
#include "report.hpp"
#include "run_options.hpp"
#include "run_output.hpp"
#include "run_setup.hpp"
#include "span_recorder.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>

namespace ferry {

namespace {

constexpr double reference_tolerance = 1e-3;

/// What one pass of the request through the pipeline gave.
struct pass {
  generated made;
  std::vector<double> step_s; ///< As they passed on the wall clock.
  double wall_s = 0;
  std::uint64_t allocations_after_first_step = 0;
};

/// What a pass tells while it goes on.
struct pass_options {
  std::string title;                  ///< Of the progress bar.
  runtime* through = nullptr;         ///< Marks the steps there, if there is one.
  reference_run* reference = nullptr; ///< Compares each stage with it, if there is one.
};

double seconds_since(std::chrono::steady_clock::time_point started) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

result<pass> run_once(const run_setup& setup, const pass_options& how) {
  pass done;
  std::uint64_t warm_allocations = 0;
  auto step_started = std::chrono::steady_clock::now();
  progress_bar bar(how.title, static_cast<std::uint64_t>(setup.asked.steps));
  run_callbacks tell;
  tell.step_begins = [&](std::size_t, std::size_t) {
    step_started = std::chrono::steady_clock::now();
    if (how.through != nullptr)
      how.through->mark(mark_step_begins);
  };
  tell.step_ended = [&](std::size_t index, std::size_t) {
    done.step_s.push_back(seconds_since(step_started));
    if (how.through != nullptr)
      how.through->mark(mark_step_ended);
    if (index == 0)
      warm_allocations = setup.target->counters().allocations;
    bar.advance(1);
  };
  if (how.reference != nullptr)
    tell.stage = [&](std::string_view stage, const at::Tensor& value) {
      how.reference->compare(stage, value);
    };

  const auto started = std::chrono::steady_clock::now();
  auto made = setup.model->run(setup.asked, tell);
  if (!made)
    return tl::unexpected(made.error());
  done.wall_s = seconds_since(started);
  done.made = contiguous(std::move(*made));
  done.allocations_after_first_step = setup.target->counters().allocations - warm_allocations;
  return done;
}

/// Refuses to keep all weights on a device that may not hold them.
result<void> check_resident(const run_setup& setup, const torch_pipeline& subject) {
  const auto needed = weight_bytes(subject.root());
  if (!setup.device_memory || *setup.device_memory >= needed)
    return {};
  return tl::unexpected(
      failure{.code = errc::out_of_device_memory,
              .detail = "--device-memory is " + std::to_string(*setup.device_memory) +
                        " bytes; needs at least " + std::to_string(needed) +
                        " with everything on the device, or a --config that offloads"});
}

/// Runs the request with all weights in place, as a device that is large enough would.
result<pass> run_resident(const run_setup& setup, torch_pipeline& subject,
                          const pass_options& how) {
  const resident_weights everything(subject);
  return run_once(setup, how);
}

std::uint64_t race_count(const device& target) {
  const auto* sim = dynamic_cast<const sim_device*>(&target);
  return sim == nullptr ? 0 : sim->race_count();
}

void add_state(run_report& report, const offload_state& state) {
  report.strategy = to_string(state.strategy);
  report.slot_bytes = state.slot_bytes;
  report.pinned_bytes = state.pinned_bytes;
  report.pageable_stores = state.pageable_stores;
  report.prefetches = state.prefetches;
  report.blocking_loads = state.blocking_loads;
  report.tickets_in_flight = state.tickets_in_flight;
  for (const auto& [path, c] : state.components)
    report.components[path] = {.bytes = c.bytes,
                               .selected = c.selected,
                               .on_demand = c.on_demand,
                               .blocks = c.blocks,
                               .streamed_bytes = c.streamed_bytes,
                               .largest_block_bytes = c.largest_block_bytes,
                               .resident_blocks = c.resident_blocks};
}

void add_unoffloaded(run_report& report, const pipeline& subject) {
  report.strategy = to_string(offload_strategy::none);
  for (const auto& [path, node] : subject.root()->children())
    report.components[path].bytes = weight_bytes(node);
}

void add_device(run_report& report, const device& target, const span_recorder& recorder) {
  const auto counters = target.counters();
  const auto overlap = recorder.overlap();
  report.peak_device_weight_bytes = counters.peak_device_bytes;
  report.h2d_bytes = counters.h2d_bytes;
  report.d2h_bytes = counters.d2h_bytes;
  report.exposed_wait_s = std::chrono::duration<double>(overlap.exposed_wait).count();
  report.lower_bound_s = std::chrono::duration<double>(overlap.lower_bound()).count();
  report.overlap_efficiency = overlap.efficiency();
  report.races = race_count(target);
}

void add_pass(run_report& report, const pass& done) {
  report.requests = 1;
  report.steps = done.step_s.size();
  report.step_s = done.step_s;
  report.wall_s = done.wall_s;
  report.device_allocations_after_warmup = done.allocations_after_first_step;
  report.output_sha256 = sha256(bytes_of(done.made.latents));
}

/// Enables, runs one request, and disables again. What it learns goes into `report`.
result<pass> run_offloaded(const run_setup& setup, const std::shared_ptr<torch_pipeline>& subject,
                           reference_run* reference, run_report& report) {
  runtime through(setup.target, {.device_memory = setup.device_memory});
  if (auto started = through.start(); !started)
    return tl::unexpected(started.error());
  if (auto enabled = through.enable(subject, setup.config); !enabled)
    return tl::unexpected(enabled.error());
  if (auto begun = through.begin_request(); !begun)
    return tl::unexpected(begun.error());
  auto done = run_once(setup, {"denoising", &through, reference});
  if (!done)
    return done;
  if (auto ended = through.end_request(); !ended)
    return tl::unexpected(ended.error());
  auto state = through.state();
  if (!state)
    return tl::unexpected(state.error());
  add_state(report, *state);
  if (auto disabled = through.disable(); !disabled)
    return tl::unexpected(disabled.error());
  if (auto stopped = through.stop(std::chrono::seconds(10)); !stopped)
    return tl::unexpected(stopped.error());
  return done;
}

void write_report(const std::string& where, const run_report& report) {
  if (where == "-") {
    std::puts(to_json(report).c_str());
    return;
  }
  std::ofstream file(where);
  file << to_json(report) << '\n';
  file.close();
  if (!file)
    throw ferry_error(
        {.code = errc::io_failure, .detail = "the report '" + where + "' could not be written"});
}

exit_code differs(const std::string& what) {
  std::fprintf(stderr, "ferry: %s\n", what.c_str());
  return exit_code::differs;
}

exit_code judge(const run_report& outcome, const reference_run* reference) {
  if (outcome.races > 0) {
    return report(
        {.code = errc::internal,
         .detail = "the simulated device saw " + std::to_string(outcome.races) + " races"},
        exit_code::failed);
  }
  auto verdict = exit_code::done;
  if (outcome.output_equals_resident == false)
    verdict = differs("the output differs from that of the resident run");
  const auto& error = outcome.reference_max_abs_error;
  if (error && !(*error <= reference_tolerance))
    verdict = differs("stage '" + reference->worst()->stage + "' is " + std::to_string(*error) +
                      " away from the reference; expected at most " +
                      std::to_string(reference_tolerance));
  return verdict;
}

/// Returns whether `reason` was found before anything had been touched.
bool is_rejection(const failure& reason) {
  switch (reason.code) {
    case errc::invalid_argument:
    case errc::invalid_type:
    case errc::invalid_config:
    case errc::invalid_pipeline:
    case errc::invalid_checkpoint:
    case errc::unsupported:
    case errc::not_found:
    case errc::out_of_device_memory:
    case errc::out_of_host_memory:
      return true;
    default:
      return false;
  }
}

exit_code give_up(const failure& reason) {
  return report(reason, is_rejection(reason) ? exit_code::rejected : exit_code::failed);
}

void write_results(const run_options& options, const pass& done, const span_recorder& recorder,
                   const run_report& report) {
  if (options.report != "-")
    std::fputs(to_table(report).c_str(), stdout);
  if (options.report)
    write_report(*options.report, report);
  if (options.output)
    write_output(*options.output, done.made);
  if (options.trace)
    recorder.write_trace(*options.trace);
}

exit_code run_pipeline(const run_options& options) {
  auto setup = set_up(options);
  if (!setup)
    return give_up(setup.error());

  span_recorder recorder(options.trace ? span_recorder::keep::spans : span_recorder::keep::sums);
  setup->target->attach(&recorder);
  const auto subject = std::make_shared<torch_pipeline>(setup->model->description());
  auto* reference = setup->reference ? &*setup->reference : nullptr;
  const bool offloads = setup->config.strategy != offload_strategy::none;

  if (!offloads)
    if (auto fits = check_resident(*setup, *subject); !fits)
      return give_up(fits.error());

  run_report report;
  report.device = setup->target->traits().name;
  auto done = offloads ? run_offloaded(*setup, subject, reference, report)
                       : run_resident(*setup, *subject, {"denoising", nullptr, reference});
  setup->target->attach(nullptr);
  if (!done)
    return give_up(done.error());

  add_pass(report, *done);
  add_device(report, *setup->target, recorder);
  report.peak_host_bytes = peak_resident_bytes();
  if (offloads)
    report.step_s = recorder.step_seconds();
  else
    add_unoffloaded(report, *subject);
  for (const auto& [path, component] : report.components)
    report.total_weight_bytes += component.bytes;
  if (!offloads)
    report.peak_device_weight_bytes = report.total_weight_bytes;
  if (reference != nullptr)
    if (const auto worst = reference->worst())
      report.reference_max_abs_error = worst->max_abs;

  if (options.compare_resident) {
    auto resident = run_resident(*setup, *subject, {"all on the device"});
    if (!resident)
      return give_up(resident.error());
    report.output_equals_resident = same_bytes(done->made, resident->made);
    if (!setup->target->traits().virtual_time)
      report.resident_step_s = resident->step_s;
  }
  write_results(options, *done, recorder, report);
  return judge(report, reference);
}

} // namespace

void add_run_command(CLI::App& program, exit_code& outcome) {
  auto* command = program.add_subcommand("run", "Runs a pipeline under an offload configuration");
  const auto options = std::make_shared<run_options>();
  add_run_options(*command, *options);
  command->callback([options, &outcome] { outcome = run_pipeline(*options); });
}

} // namespace ferry
