// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/trace_analysis.hpp>
#include <ferry/offload/trace_reader.hpp>

#include "command.hpp"
#include "option_checks.hpp"
#include "timeline_page.hpp"
#include "trace_text.hpp"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace ferry {
namespace {

namespace fs = std::filesystem;

struct trace_options {
  std::vector<std::string> files;
  std::optional<std::string> page;
  bool json = false;
  std::int64_t longest = 10;
};

/// Reads all files into one trace, on the clock of the first. Refuses files of other runs.
result<trace> read_all(const std::vector<std::string>& files) {
  std::error_code ignored;
  for (std::size_t i = 0; i != files.size(); ++i)
    for (std::size_t j = 0; j != i; ++j)
      if (fs::equivalent(files[i], files[j], ignored))
        return tl::unexpected(
            failure{.code = errc::invalid_argument, .detail = "'" + files[i] + "' is given twice"});
  auto whole = read_trace(fs::path(files.front()));
  for (std::size_t i = 1; whole && i != files.size(); ++i) {
    auto next = read_trace(fs::path(files[i]));
    if (!next)
      return next;
    const auto later = whole->epoch && next->epoch ? *next->epoch - *whole->epoch : nanoseconds{};
    if (const auto why = why_not_of_one_run(*whole, *next, later); !why.empty())
      return tl::unexpected(failure{.code = errc::invalid_argument,
                                    .detail = "'" + files[i] + "' is not of the run of '" +
                                              files.front() + "': " + why +
                                              "; expected one trace of each process of a run"});
    whole->merge(std::move(*next), later);
  }
  return whole;
}

/// Refuses a place for the page that holds anything but a page of before.
result<void> check_page(const trace_options& options) {
  const auto refuse = [&](const std::string& why) {
    return tl::unexpected(failure{.code = errc::invalid_argument,
                                  .detail = "--html names '" + *options.page + "', " + why});
  };
  if (options.page->empty())
    return refuse("which is no name; expected a file");
  std::error_code ignored;
  for (const auto& each : options.files)
    if (fs::equivalent(*options.page, each, ignored))
      return refuse("which is the trace; expected another file");
  if (!fs::exists(*options.page, ignored))
    return {};
  if (!fs::is_regular_file(*options.page, ignored))
    return refuse("which is no regular file; expected a file");
  std::ifstream old(*options.page, std::ios::binary);
  std::string beginning(timeline_page_mark.size(), '\0');
  old.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  if (beginning != timeline_page_mark && fs::file_size(*options.page, ignored) != 0)
    return refuse("which holds something else than a timeline page; expected a page or a new file");
  return {};
}

result<void> write_page(const std::string& path, const std::string& page) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << page;
  file.close();
  if (file)
    return {};
  const std::string why = errno == 0 ? "unknown reason" : std::generic_category().message(errno);
  return tl::unexpected(failure{.code = errc::io_failure,
                                .detail = "the page '" + path + "' could not be written: " + why});
}

/// Returns the names of the files, as a heading.
std::string title_of(const std::vector<std::string>& files) {
  std::string title;
  for (const auto& each : files)
    title += (title.empty() ? "" : ", ") + each;
  return title;
}

exit_code show_trace(const trace_options& options) {
  if (options.page)
    if (const auto place = check_page(options); !place)
      return report(place.error(), exit_code::rejected);
  const auto run = read_all(options.files);
  if (!run)
    return report(run.error(), exit_code_of(run.error()));
  const auto found = analyse(*run);
  const auto title = title_of(options.files);
  const auto text = options.json
                        ? to_json(*run, found) + '\n'
                        : to_table(*run, found, title, static_cast<std::size_t>(options.longest));
  std::fputs(text.c_str(), stdout);
  if (options.page)
    if (const auto written = write_page(*options.page, timeline_page(*run, found, title)); !written)
      return report(written.error(), exit_code_of(written.error()));
  return exit_code::done;
}

} // namespace

void add_trace_command(CLI::App& program, exit_code& outcome) {
  auto* command = program.add_subcommand(
      "trace", "Says what a trace shows: exposed wait, the cause of each late block, and what "
               "would help");
  const auto options = std::make_shared<trace_options>();
  command
      ->add_option("FILE", options->files,
                   "Trace that ferry run wrote; several of one run, from a process each, are "
                   "brought together")
      ->required();
  command->add_option("--html", options->page, "Write a timeline page: one file, for any browser")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print everything as JSON instead of tables");
  command->add_option("--longest", options->longest, "Print so many of the longest waits")
      ->type_name("N")
      ->capture_default_str()
      ->check(integer_between(0, 1'000'000));
  command->callback([options, &outcome] { outcome = show_trace(*options); });
}

} // namespace ferry
