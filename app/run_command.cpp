// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/runtime.hpp>
#include <ferry/offload/resident_weights.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "interrupt_watch.hpp"
#include "output_digests.hpp"
#include "report.hpp"
#include "run_measures.hpp"
#include "run_options.hpp"
#include "run_output.hpp"
#include "run_requests.hpp"
#include "run_setup.hpp"
#include "span_recorder.hpp"
#include "warm_up.hpp"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ferry {

namespace {

constexpr double reference_tolerance = 1e-3;

/// A run whose options have been checked.
struct checked_run {
  const run_options& options;
  const run_setup& setup;
  interrupt_watch& interrupt;
  span_recorder& recorder;
};

/// Lets `observer` see what `target` does for as long as this lives.
class observation {
public:
  observation(device& target, operation_observer& observer) : target_(target) {
    target_.attach(&observer);
  }
  observation(const observation&) = delete;
  observation& operator=(const observation&) = delete;
  ~observation() { target_.attach(nullptr); }

private:
  device& target_;
};

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

run_context context_of(const checked_run& run, reference_run* reference, std::string title) {
  return {.model = *run.setup.model,
          .target = *run.setup.target,
          .interrupt = run.interrupt,
          .through = nullptr,
          .reference = reference,
          .title = std::move(title),
          .keep = {}};
}

void throw_if(const result<void>& failed) {
  if (!failed)
    throw ferry_error(failed.error());
}

/// Warms up, unobserved, and returns what that added to the counters.
result<warm_up_share> warm_up_unseen(const checked_run& run, runtime& through) {
  auto& target = *run.setup.target;
  const auto before = through.state();
  if (!before)
    return tl::unexpected(before.error());
  warm_up_share share(target.counters(), *before);
  target.attach(nullptr);
  throw_if(warm_up(through, *run.setup.model));
  target.attach(&run.recorder);
  const auto after = through.state();
  if (!after)
    return tl::unexpected(after.error());
  share.end(target.counters(), *after);
  return share;
}

/// Enables, runs what was asked for, and disables again. What it learns goes into `report`.
result<run_tally> run_offloaded(const checked_run& run,
                                const std::shared_ptr<torch_pipeline>& subject, run_context where,
                                run_report& report) {
  const auto& setup = run.setup;
  runtime through(setup.target, {.device_memory = setup.device_memory});
  if (auto started = through.start(); !started)
    return tl::unexpected(started.error());
  if (auto enabled = through.enable(subject, setup.config); !enabled)
    return tl::unexpected(enabled.error());
  std::optional<warm_up_share> warmed;
  if (run.options.requests) {
    auto share = warm_up_unseen(run, through);
    if (!share)
      return tl::unexpected(share.error());
    warmed = *share;
  }
  where.through = &through;
  auto tally = run_requests(setup.asked, where);
  auto state = through.state();
  if (!state)
    return tl::unexpected(state.error());
  if (auto disabled = through.disable(); !disabled)
    return tl::unexpected(disabled.error());
  if (auto stopped = through.stop(std::chrono::seconds(10)); !stopped)
    return tl::unexpected(stopped.error());
  setup.target->attach(nullptr);
  add_state(report, *state);
  add_tally(report, tally);
  add_device(report, *setup.target, run.recorder);
  report.step_s = run.recorder.step_seconds();
  if (warmed)
    warmed->take_out_of(report);
  return tally;
}

/// Runs what was asked for with all weights in place, as a device that is large enough would.
run_tally run_unoffloaded(const checked_run& run, torch_pipeline& subject, const run_context& where,
                          run_report& report) {
  const resident_weights everything(subject);
  if (run.options.requests)
    throw_if(warm_up(*run.setup.model));
  auto tally = run_requests(run.setup.asked, where);
  run.setup.target->attach(nullptr);
  add_unoffloaded(report, subject);
  add_tally(report, tally);
  add_device(report, *run.setup.target, run.recorder);
  if (run.setup.target->traits().virtual_time)
    report.step_s.clear();
  return tally;
}

/// Runs the requests that have an output once more with everything on the device. Returns whether
/// that went well.
bool compare_resident(const checked_run& run, torch_pipeline& subject,
                      const output_digests& outputs, run_report& report) {
  std::vector<asked_request> again;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < run.setup.asked.size(); ++i) {
    if (!outputs.has(i))
      continue;
    again.push_back(run.setup.asked[i]);
    indices.push_back(i);
  }
  if (again.empty())
    return true;
  output_digests expected;
  auto where = context_of(run, nullptr, "all on the device");
  where.keep = [&](std::size_t index, const generated& made) {
    expected.add(indices.at(index), made);
  };
  const resident_weights everything(subject);
  const auto tally = run_requests(again, where);
  report.output_equals_resident = outputs == expected;
  if (!run.setup.target->traits().virtual_time)
    report.resident_step_s = tally.step_s;
  return tally.failed == 0;
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

exit_code stop_interrupted() {
  std::fputs("ferry: interrupted\n", stderr);
  return exit_code::interrupted;
}

void write_results(const checked_run& run, const run_report& report) {
  const auto& options = run.options;
  if (options.report != "-")
    std::fputs(to_table(report).c_str(), stdout);
  if (options.report)
    write_report(*options.report, report);
  if (options.trace)
    run.recorder.write_trace(*options.trace);
}

exit_code run_pipeline(const run_options& options) {
  interrupt_watch interrupt;
  auto setup = set_up(options);
  if (!setup)
    return give_up(setup.error());

  span_recorder recorder(options.trace ? span_recorder::keep::spans : span_recorder::keep::sums);
  const observation observed(*setup->target, recorder);
  const checked_run run{options, *setup, interrupt, recorder};
  const auto subject = std::make_shared<torch_pipeline>(setup->model->description());
  auto* reference = setup->reference ? &*setup->reference : nullptr;
  const bool offloads = setup->config.strategy != offload_strategy::none;
  if (!offloads)
    if (auto fits = check_resident(*setup, *subject); !fits)
      return give_up(fits.error());

  output_digests outputs;
  auto where = context_of(run, reference, "denoising");
  where.keep = [&](std::size_t index, const generated& made) {
    if (options.output)
      write_output(options.requests ? request_directory(*options.output, index) : *options.output,
                   made);
    outputs.add(index, made);
  };
  run_report report;
  report.device = setup->target->traits().name;
  const auto tally = offloads ? run_offloaded(run, subject, where, report)
                              : run_unoffloaded(run, *subject, where, report);
  if (!tally)
    return give_up(tally.error());
  if (interrupt.interrupted())
    return stop_interrupted();
  if (tally->failed > 0 && !options.requests)
    return exit_code::failed;

  report.peak_host_bytes = peak_resident_bytes();
  for (const auto& [path, component] : report.components)
    report.total_weight_bytes += component.bytes;
  if (!offloads)
    report.peak_device_weight_bytes = report.total_weight_bytes;
  if (!outputs.empty())
    report.output_sha256 = outputs.of_latents();
  if (reference != nullptr)
    if (const auto worst = reference->worst())
      report.reference_max_abs_error = worst->max_abs;

  if (options.compare_resident && !compare_resident(run, *subject, outputs, report))
    return exit_code::failed;
  if (interrupt.interrupted())
    return stop_interrupted();
  write_results(run, report);
  const auto verdict = judge(report, reference);
  return tally->failed > 0 ? exit_code::failed : verdict;
}

} // namespace

void add_run_command(CLI::App& program, exit_code& outcome) {
  auto* command = program.add_subcommand("run", "Runs a pipeline under an offload configuration");
  const auto options = std::make_shared<run_options>();
  add_run_options(*command, *options);
  command->callback([options, &outcome] { outcome = run_pipeline(*options); });
}

} // namespace ferry
