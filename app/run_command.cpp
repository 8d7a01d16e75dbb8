// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/actors/trace_file.hpp>

#include "command.hpp"
#include "exit_code.hpp"
#include "interrupt_watch.hpp"
#include "launched_ranks.hpp"
#include "report.hpp"
#include "run_options.hpp"
#include "run_rank.hpp"
#include "run_setup.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace ferry {

namespace {

constexpr double reference_tolerance = 1e-3;

void write_report(const std::string& where, const std::vector<run_report>& ranks) {
  if (where == "-") {
    std::puts(to_json(ranks).c_str());
    return;
  }
  errno = 0;
  std::ofstream file(where);
  file << to_json(ranks) << '\n';
  file.close();
  if (!file)
    throw ferry_error(
        {.code = errc::io_failure,
         .detail = "the report '" + where + "' could not be written" +
                   (errno == 0 ? "" : ": " + std::generic_category().message(errno))});
}

exit_code differs(const std::string& what) {
  std::fprintf(stderr, "ferry: %s\n", what.c_str());
  return exit_code::differs;
}

/// Says which rank it was, where there are several.
std::string of_rank(const run_setup& setup, const rank_setup& self) {
  return setup.ranks == 1 ? "" : " of rank " + std::to_string(self.number);
}

exit_code judge(const rank_outcome& outcome, const std::string& whose) {
  const auto& found = outcome.report;
  if (found.races > 0)
    return report({.code = errc::internal,
                   .detail = "the simulated device" + whose + " saw " +
                             std::to_string(found.races) + " races"},
                  exit_code::failed);
  auto verdict = exit_code::done;
  if (found.output_equals_resident == false)
    verdict = differs("the output" + whose + " differs from that of the resident run");
  const auto& error = found.reference_max_abs_error;
  if (error && !(*error <= reference_tolerance))
    verdict = differs("stage '" + outcome.worst_stage + "'" + whose + " is " +
                      std::to_string(*error) + " away from the reference; expected at most " +
                      std::to_string(reference_tolerance));
  return verdict;
}

exit_code give_up(const failure& reason) {
  return report(reason, exit_code_of(reason));
}

/// Adds what the command line can do about it.
failure with_advice(failure reason) {
  if (reason.code == errc::out_of_device_memory)
    reason.detail += "; ferry plan --device-memory SIZE lists what fits";
  return reason;
}

exit_code stop_interrupted() {
  std::fputs("ferry: interrupted\n", stderr);
  return exit_code::interrupted;
}

/// Returns where the ranks of this process are recorded; null if nobody asked for that.
/// @throws ferry_error `io_failure`
std::shared_ptr<trace_file> open_trace(const run_options& options, const run_setup& setup) {
  if (!options.trace)
    return nullptr;
  const auto modelled = setup.here.front().target->traits().virtual_time;
  return std::make_shared<trace_file>(setup.own_file(options.trace->string()),
                                      modelled ? trace_file::time::modelled
                                               : trace_file::time::real);
}

/// Returns the ranks of this process, each run on a thread.
std::vector<rank_outcome> run_ranks(const run_options& options, run_setup& setup,
                                    interrupt_watch& interrupt,
                                    const std::shared_ptr<trace_file>& trace) {
  std::vector<rank_outcome> outcomes(setup.here.size());
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < outcomes.size(); ++i)
    others.emplace_back(
        [&, i] { outcomes[i] = run_rank(options, setup, setup.here[i], interrupt, trace); });
  outcomes.front() = run_rank(options, setup, setup.here.front(), interrupt, trace);
  for (auto& each : others)
    each.join();
  return outcomes;
}

/// Returns why the run was given up: the first cause, not what the other ranks say of it.
const rank_outcome* given_up(const run_setup& setup, const std::vector<rank_outcome>& outcomes) {
  const rank_outcome* found = nullptr;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const auto& reason = outcomes[i].reason;
    if (!reason)
      continue;
    if (reason->rank.value_or(setup.here[i].number) == setup.here[i].number)
      return &outcomes[i];
    found = &outcomes[i];
  }
  return found;
}

/// Several objects would be none: of ranks that are processes rank 0 alone has standard output for
/// its report.
void write_results(const run_options& options, const run_setup& setup,
                   const std::vector<rank_outcome>& outcomes) {
  if (options.report == "-" && setup.here.front().number != 0)
    return;
  std::vector<run_report> reports;
  for (const auto& each : outcomes)
    reports.push_back(each.report);
  if (options.report != "-")
    std::fputs(to_table(reports.front()).c_str(), stdout);
  if (options.report)
    write_report(setup.own_file(*options.report), reports);
}

nanoseconds patience_of(const run_options& options) {
  return options.join_patience ? std::chrono::seconds(*options.join_patience) : patience_to_join;
}

exit_code run_pipeline(const run_options& options) {
  interrupt_watch interrupt;
  // An interrupt ends the setup at once, in whatever wait for other ranks: nothing is under way
  // that would have to be ended in order. Ranks that wait for this one miss its process.
  std::optional<interrupt_watch::during> ending(
      std::in_place, interrupt, [] { std::_Exit(static_cast<int>(stop_interrupted())); });
  launched_ranks others(patience_of(options));
  auto setup = set_up(options, others);
  if (!setup)
    return give_up(setup.error());
  ending.reset();

  // What is recorded of a run that fails stays: it is a trace without its end.
  const auto trace = open_trace(options, *setup);
  const auto outcomes = run_ranks(options, *setup, interrupt, trace);
  if (interrupt.interrupted())
    return stop_interrupted();
  if (const auto* const lost = given_up(*setup, outcomes))
    return lost->thrown ? report(*lost->reason, exit_code::failed)
                        : give_up(with_advice(*lost->reason));
  const auto failed =
      std::ranges::any_of(outcomes, [](const auto& each) { return each.failed_requests > 0; });
  if (failed && !options.requests)
    return exit_code::failed;
  if (std::ranges::any_of(outcomes, &rank_outcome::comparison_failed))
    return exit_code::failed;
  write_results(options, *setup, outcomes);
  if (trace != nullptr)
    if (auto ended = trace->finish(); !ended)
      return report(ended.error(), exit_code::failed);
  auto verdict = exit_code::done;
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    if (const auto one = judge(outcomes[i], of_rank(*setup, setup->here[i]));
        one != exit_code::done && verdict != exit_code::failed)
      verdict = one;
  return failed ? exit_code::failed : verdict;
}

} // namespace

void add_run_command(CLI::App& program, exit_code& outcome) {
  auto* command = program.add_subcommand("run", "Runs a pipeline under an offload configuration");
  const auto options = std::make_shared<run_options>();
  add_run_options(*command, *options);
  command->callback([options, &outcome] { outcome = run_pipeline(*options); });
}

} // namespace ferry
