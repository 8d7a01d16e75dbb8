// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "caught.hpp"
#include "command.hpp"
#include "logging.hpp"
#ifdef FERRY_WITH_RUN
#  include "launched_ranks.hpp"
#endif
#include "versions.hpp"

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace ferry {
namespace {

constexpr std::array commands = {
#ifdef FERRY_WITH_RUN
    add_run_command,   add_plan_command,
#endif
    add_trace_command, add_checkpoint_command, add_devices_command,
};

/// Names the command that was being read, for the hint at its help.
std::string typed_command(const CLI::App& program) {
  std::string words = "ferry";
  for (const auto* command : program.get_subcommands())
    words += " " + command->get_name();
  return words;
}

/// Says of an option's value what every error says: --steps is '0'; expected an integer.
std::string in_our_words(std::string words) {
  constexpr std::string_view converting = "Could not convert: ";
  if (const auto equals = words.find(" = ");
      words.starts_with(converting) && equals != std::string::npos)
    return words.substr(converting.size(), equals - converting.size()) + " is '" +
           words.substr(equals + 3) + "'; expected a number";
  // The parser puts a colon before what a check says.
  if (const auto colon = words.find(": '"); colon != std::string::npos)
    words.replace(colon, 2, " is ");
  return words;
}

/// Returns what is wrong with a command line, where the parser's words do not say it.
std::string explain(const CLI::App& program, const CLI::ParseError& wrong) {
  if (!program.get_subcommands().empty())
    return in_our_words(wrong.what());
  const auto extra = program.remaining();
  std::string known;
  for (const auto* command : program.get_subcommands(nullptr))
    known += (known.empty() ? "" : ", ") + command->get_name();
  return (extra.empty() ? "no command" : "'" + extra.front() + "' is no command") +
         "; expected one of " + known;
}

/// Says why the command line is refused. Ranks that are processes all refuse it.
exit_code refuse(const CLI::App& program, const CLI::ParseError& wrong) {
  const auto command = typed_command(program);
  const failure reason{.code = errc::invalid_argument,
                       .detail = explain(program, wrong) + "; see " + command + " --help"};
#ifdef FERRY_WITH_RUN
  if (command == "ferry run") {
    launched_ranks others(patience_to_join);
    return report(others.refuse(reason), exit_code::rejected);
  }
#endif
  return report(reason, exit_code::rejected);
}

exit_code run(int argc, char** argv) {
  CLI::App program("Runs diffusion pipelines whose weights do not fit the device.", "ferry");
  auto outcome = exit_code::done;
  program.set_version_flag("--version", versions);
  program.require_subcommand(1);
  for (const auto add : commands)
    add(program, outcome);
  add_log_level_option(program);
  for (auto* command : program.get_subcommands(nullptr))
    add_log_level_option(*command);

  try {
    program.parse(argc, argv);
    errno = 0;
    std::cout.flush();
    if (std::fflush(stdout) != 0 || !std::cout)
      return report({.code = errc::io_failure,
                     .detail = "standard output could not be written" +
                               (errno == 0 ? "" : ": " + std::generic_category().message(errno))},
                    exit_code::failed);
    return outcome;
  } catch (const CLI::Success& asked) {
    program.exit(asked);
    return exit_code::done;
  } catch (const CLI::ParseError& wrong) {
    return refuse(program, wrong);
  } catch (const std::exception&) {
    return report(caught(), exit_code::failed);
  }
}

/// Where a standard stream was closed, the next file that is opened would take its place. Read, it
/// is empty from now on; written, it fails as before.
void occupy_standard_streams() {
  for (const auto stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0)
      static_cast<void>(::open("/dev/null", O_RDONLY)); // Takes the lowest that is free.
}

} // namespace
} // namespace ferry

int main(int argc, char** argv) {
  ferry::occupy_standard_streams();
  return static_cast<int>(ferry::run(argc, argv));
}
