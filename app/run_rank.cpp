// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_rank.hpp"

#include <ferry/actors/runtime.hpp>
#include <ferry/actors/runtime_backend.hpp>
#include <ferry/actors/trace_log.hpp>
#include <ferry/offload/block_marks.hpp>
#include <ferry/offload/resident_weights.hpp>
#include <ferry/platform/log.hpp>
#include <ferry/platform/profile_ranges.hpp>
#include <ferry/platform/rendezvous.hpp>
#include <ferry/torch/torch_allocator_cache.hpp>
#include <ferry/torch/torch_cuda.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "caught.hpp"
#include "choose_config.hpp"
#include "interrupt_watch.hpp"
#include "launched_ranks.hpp"
#include "output_digests.hpp"
#include "run_measures.hpp"
#include "run_options.hpp"
#include "run_output.hpp"
#include "run_requests.hpp"
#include "span_recorder.hpp"
#include "warm_up.hpp"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ferry {

namespace {

/// One rank whose options have been checked.
struct checked_run {
  const run_options& options;
  const run_setup& setup;
  rank_setup& self;
  interrupt_watch& interrupt;
  span_recorder& recorder;
  std::shared_ptr<trace_log> log; ///< Null: nobody wants a trace.
};

/// Lets `observer` see what `target` does for as long as this lives.
class observation {
public:
  observation(device& target, operation_observer& observer) : target_(target), observer_(observer) {
    target_.attach(observer);
  }
  observation(const observation&) = delete;
  observation& operator=(const observation&) = delete;
  ~observation() { target_.detach(observer_); }

private:
  device& target_;
  operation_observer& observer_;
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
  return {.model = *run.self.model,
          .target = *run.self.target,
          .interrupt = run.interrupt,
          .through = nullptr,
          .in_waves = false,
          .reference = reference,
          .title = std::move(title),
          .quiet = run.self.number != 0,
          .passes_per_fetch = run.setup.passes_per_fetch,
          .keep = {}};
}

void throw_if(const result<void>& failed) {
  if (!failed)
    throw ferry_error(failed.error());
}

/// Warms up, uncounted, and returns what that added to the counters.
result<warm_up_share> warm_up_uncounted(const checked_run& run, runtime& through) {
  auto& target = *run.self.target;
  const auto before = through.state();
  if (!before)
    return tl::unexpected(before.error());
  warm_up_share share(target.counters(), *before);
  target.detach(run.recorder);
  through.mark(mark_warm_up_begins);
  throw_if(warm_up(through, *run.self.model));
  through.mark(mark_warm_up_ended);
  target.attach(run.recorder);
  const auto after = through.state();
  if (!after)
    return tl::unexpected(after.error());
  share.end(target.counters(), *after);
  return share;
}

/// Returns what shows a run to a profiler of NVIDIA, null unless `FERRY_NVTX` asks for it.
std::shared_ptr<profile_ranges> wanted_ranges() {
  const auto* wanted = std::getenv("FERRY_NVTX");
  return wanted != nullptr && std::string_view(wanted) == "1" ? nvtx_ranges() : nullptr;
}

/// Returns what the model's activations come from, null where nothing is kept of them.
std::shared_ptr<allocator_cache> activations_on(const device& target) {
  const auto where = torch_device_of(target);
  if (where.is_cpu())
    return nullptr;
  return std::make_shared<torch_allocator_cache>(find_device_allocator(where), where.index());
}

/// Offloads what the loader has mapped: it has left no weights out, so that there is no plan.
result<started_offload> offload(const std::shared_ptr<torch_pipeline>& subject, runtime& through,
                                const offload_config& config) {
  std::vector<std::string> warnings;
  auto started =
      start_offload(loaded_pipeline(subject),
                    runtime_backends(through, config, device_presence::present), warnings);
  for (const auto& each : warnings)
    log(log_level::warn, "ferry.app", each);
  return started;
}

/// Returns once every rank has got to the end of its requests: one that fails in the last of them,
/// behind the last gather, fails all.
/// @throws ferry_error of the first cause
void meet_at_end(rendezvous& meeting) {
  if (const auto met = meeting.meet("end of requests", {}, patience_to_gather); !met)
    throw ferry_error(met.error());
}

/// Returns what an interrupt does while other ranks count on this one: all fail at once, wherever
/// they wait or compute.
std::function<void()> leaving(runtime& through) {
  return [&through] {
    static_cast<void>(
        through.leave_ranks({.code = errc::cancelled, .detail = "the run was interrupted"}));
  };
}

/// Enables, runs what was asked for, and disables again. What it learns goes into `report`.
result<run_tally> serve(const checked_run& run, const std::shared_ptr<torch_pipeline>& subject,
                        runtime& through, const std::shared_ptr<rendezvous>& meeting,
                        run_context where, run_report& report) {
  if (auto started = through.start(); !started)
    return tl::unexpected(started.error());
  std::optional<interrupt_watch::during> together;
  together.emplace(run.interrupt, leaving(through));
  const auto offloaded = offload(subject, through, run.setup.config);
  if (!offloaded)
    return tl::unexpected(offloaded.error());
  std::optional<warm_up_share> warmed;
  if (run.options.requests) {
    auto share = warm_up_uncounted(run, through);
    if (!share)
      return tl::unexpected(share.error());
    warmed = *share;
  }
  where.through = &through;
  where.in_waves = meeting != nullptr && run.setup.config.any_allgather();
  if (!where.in_waves)
    together.reset(); // From here on each rank is on its own.
  auto tally = run_requests(run.setup.asked, where);
  if (where.in_waves)
    meet_at_end(*meeting);
  together.reset();
  auto state = through.state();
  if (!state)
    return tl::unexpected(state.error());
  if (auto disabled = offloaded->backend->disable(); !disabled)
    return tl::unexpected(disabled.error());
  if (auto stopped = through.stop(std::chrono::seconds(10)); !stopped)
    return tl::unexpected(stopped.error());
  run.self.target->detach(run.recorder);
  add_state(report, *state);
  add_tally(report, tally);
  add_device(report, *run.self.target, run.recorder);
  report.step_s = run.recorder.step_seconds();
  if (warmed)
    warmed->take_out_of(report);
  return tally;
}

/// As `serve`, and tells the other ranks at once if that fails: they may wait for this one.
result<run_tally> run_offloaded(const checked_run& run,
                                const std::shared_ptr<torch_pipeline>& subject,
                                const run_context& where, run_report& report) {
  auto& self = run.self;
  const auto meeting = self.group ? self.group->meeting : nullptr;
  runtime through(self.target, {.device_memory = run.setup.device_memory,
                                .activations = activations_on(*self.target),
                                .ranks = std::exchange(self.group, {}),
                                .callers = self.callers,
                                .ranges = wanted_ranges(),
                                .trace = run.log});
  try {
    auto tally = serve(run, subject, through, meeting, where, report);
    if (!tally)
      return tl::unexpected(through.leave_ranks(std::move(tally.error())));
    return tally;
  } catch (const std::exception&) {
    throw ferry_error(through.leave_ranks(caught()));
  }
}

/// Runs what was asked for with all weights in place, as a device that is large enough would.
run_tally run_unoffloaded(const checked_run& run, torch_pipeline& subject, const run_context& where,
                          run_report& report) {
  const resident_weights everything(subject, *run.self.target);
  if (run.options.requests)
    throw_if(warm_up(*run.self.model));
  auto tally = run_requests(run.setup.asked, where);
  run.self.target->detach(run.recorder);
  add_unoffloaded(report, subject);
  add_tally(report, tally);
  add_device(report, *run.self.target, run.recorder);
  if (run.self.target->traits().virtual_time)
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
  where.passes_per_fetch = 1; // One pass after another, whatever shared fetches before.
  where.keep = [&](std::size_t index, const generated& made) {
    expected.add(indices.at(index), made);
  };
  const resident_weights everything(subject, *run.self.target);
  const auto tally = run_requests(again, where);
  report.output_equals_resident = outputs == expected;
  if (!run.self.target->traits().virtual_time)
    report.resident_step_s = tally.step_s;
  return tally.failed == 0;
}

/// Says which ranks did not come to their end, where nobody waited for them.
void warn_of_lost(rendezvous& meeting) {
  for (const auto rank : meeting.lost())
    log(log_level::warn, "ferry.app",
        "the process of rank " + std::to_string(rank) + " has ended before its run did");
}

/// What a rank does from the first weight that moves to the last.
result<void> run_all(const checked_run& run, rank_outcome& outcome) {
  const auto& options = run.options;
  auto& self = run.self;
  auto& report = outcome.report;
  const observation observed(*self.target, run.recorder);
  const auto subject = std::make_shared<torch_pipeline>(self.model->description());
  auto* reference = self.reference ? &*self.reference : nullptr;
  const bool offloads = run.setup.config.strategy != offload_strategy::none;
  if (!offloads)
    if (auto fits = check_resident(run.setup, *subject); !fits)
      return fits;

  output_digests outputs;
  auto where = context_of(run, reference, "denoising");
  where.keep = [&](std::size_t index, const generated& made) {
    if (options.output && self.number == 0)
      write_output(options.requests ? request_directory(*options.output, index) : *options.output,
                   made);
    outputs.add(index, made);
  };
  if (const auto& plan = run.setup.chosen)
    report.chosen =
        chosen_report{.config = plan->compact,
                      .options = options_text(*plan, static_cast<std::size_t>(run.setup.ranks),
                                              run.setup.computes),
                      .step_s = std::chrono::duration<double>(plan->step).count(),
                      .peak_device_weight_bytes = plan->device_bytes};
  report.device = self.target->traits().name;
  report.may_be_in_place = self.target->traits().computes_in_place;
  report.rank = self.number;
  report.compute_dtype = to_string(run.setup.computes);
  report.compute_reason = run.setup.computes.reason;
  report.ranks = run.setup.ranks;
  const auto tally = offloads ? run_offloaded(run, subject, where, report)
                              : run_unoffloaded(run, *subject, where, report);
  if (!tally)
    return tl::unexpected(tally.error());
  outcome.failed_requests = tally->failed;
  if (run.interrupt.interrupted() || (tally->failed > 0 && !options.requests))
    return {};

  report.peak_host_bytes = peak_resident_bytes();
  for (const auto& [path, component] : report.components)
    report.total_weight_bytes += component.bytes;
  if (!offloads)
    report.peak_device_weight_bytes = report.total_weight_bytes;
  if (!outputs.empty())
    report.output_sha256 = outputs.of_latents();
  if (reference != nullptr)
    if (const auto worst = reference->worst()) {
      report.reference_max_abs_error = worst->max_abs;
      outcome.worst_stage = worst->stage;
    }
  if (options.compare_resident && !compare_resident(run, *subject, outputs, report))
    outcome.comparison_failed = true;
  return {};
}

} // namespace

rank_outcome run_rank(const run_options& options, const run_setup& setup, rank_setup& self,
                      interrupt_watch& interrupt, const std::shared_ptr<trace_file>& trace) {
  rank_outcome outcome;
  const auto meeting = self.group ? self.group->meeting : nullptr;
  span_recorder recorder;
  try {
    auto log = trace == nullptr ? nullptr
                                : std::make_shared<trace_log>(
                                      trace, static_cast<std::uint32_t>(self.number), *self.target);
    auto done = run_all({options, setup, self, interrupt, recorder, std::move(log)}, outcome);
    if (!done)
      outcome.reason = std::move(done.error());
  } catch (const std::exception&) {
    outcome.reason = caught();
    outcome.thrown = true;
  }
  if (meeting == nullptr)
    return outcome;
  if (outcome.reason)
    meeting->poison(*outcome.reason); // The others may still wait for this rank to start.
  else
    warn_of_lost(*meeting);
  return outcome;
}

} // namespace ferry
