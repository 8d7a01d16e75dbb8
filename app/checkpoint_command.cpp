// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/offload/rollback.hpp>
#include <ferry/platform/quantity.hpp>

#include "checkpoint_options.hpp"
#include "checkpoint_plan.hpp"
#include "command.hpp"
#include "progress_bar.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <system_error>

namespace ferry {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t least_shard_bytes = 4000;

tl::unexpected<failure> refuse(std::string detail) {
  return tl::unexpected(failure{.code = errc::invalid_argument, .detail = std::move(detail)});
}

/// Returns the nearest directory that exists on the way to `path`.
fs::path existing_ancestor(const fs::path& path) {
  std::error_code error;
  auto ancestor = fs::absolute(path);
  while (!fs::is_directory(ancestor, error) && ancestor.has_relative_path())
    ancestor = ancestor.parent_path();
  return ancestor;
}

/// Refuses a directory that holds something, and a disk that is too small.
result<void> check_target(const fs::path& directory, std::uint64_t bytes) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(directory, error))) {
    if (!fs::is_directory(directory, error))
      return refuse("'" + directory.string() + "' is no directory; choose another name");
    if (!fs::is_empty(directory, error) || error)
      return refuse("'" + directory.string() +
                    "' is not empty; expected a new or empty directory; remove it or choose "
                    "another name");
  }
  const auto room = fs::space(existing_ancestor(directory), error);
  if (!error && room.available < bytes)
    return refuse("the checkpoint needs " + std::to_string(bytes) + " bytes, and there are " +
                  std::to_string(room.available) + " free at '" + directory.string() + "'");
  return {};
}

/// Removes what `directory` holds, and the directory too if it is new.
void clean(const fs::path& directory, bool is_new) {
  std::error_code ignored;
  if (is_new) {
    fs::remove_all(directory, ignored);
    return;
  }
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    fs::remove_all(entry, ignored);
}

exit_code run_checkpoint(const checkpoint_options& options) {
  const auto plan = plan_of(options);
  if (!plan)
    return report(plan.error(), exit_code::rejected);
  const auto shard_bytes = parse_bytes(options.shard_size);
  if (!shard_bytes)
    return report(
        {.code = shard_bytes.error().code, .detail = "--shard-size: " + shard_bytes.error().detail},
        exit_code::rejected);
  if (*shard_bytes < least_shard_bytes)
    return report({.code = errc::invalid_argument,
                   .detail = "--shard-size is " + options.shard_size + "; expected at least 4kB"},
                  exit_code::rejected);
  const auto bytes = weight_bytes(*plan);
  if (const auto target = check_target(options.directory, bytes); !target)
    return report(target.error(), exit_code::rejected);

  const auto is_new = !fs::exists(options.directory);
  rollback steps;
  steps.on_failure([&] { clean(options.directory, is_new); });
  fs::create_directories(options.directory);
  {
    progress_bar bar("Writing " + options.directory.string(), bytes);
    write_checkpoint(options.directory, *plan, options.seed, *shard_bytes,
                     [&](std::uint64_t written) { bar.advance(written); });
  }
  steps.commit();

  std::printf("wrote %s: %.1f MB of weights\n", options.directory.c_str(),
              static_cast<double>(bytes) / 1e6);
  return exit_code::done;
}

} // namespace

void add_checkpoint_command(CLI::App& program, exit_code& outcome) {
  auto* command = program.add_subcommand(
      "checkpoint", "Writes a pipeline with seeded random weights, for demos and benchmarks");
  const auto options = std::make_shared<checkpoint_options>();
  add_checkpoint_options(*command, *options);
  command->callback([&outcome, options] { outcome = run_checkpoint(*options); });
}

} // namespace ferry
