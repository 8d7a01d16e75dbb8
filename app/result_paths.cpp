// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "result_paths.hpp"

#include "run_output.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace ferry {

namespace {

namespace fs = std::filesystem;

tl::unexpected<failure> refuse(std::string detail) {
  return tl::unexpected(failure{.code = errc::invalid_argument, .detail = std::move(detail)});
}

struct named_path {
  std::string_view option;
  fs::path path; ///< Without links, as far as it exists.
};

named_path named(std::string_view option, const fs::path& path) {
  std::error_code ignored;
  return {option, fs::weakly_canonical(fs::absolute(path, ignored), ignored)};
}

std::vector<named_path> files_read(const run_options& options) {
  std::vector<named_path> all;
  if (options.requests)
    all.push_back(named("--requests", *options.requests));
  if (options.reference)
    all.push_back(named("--reference", *options.reference));
  if (options.config && options.config->starts_with('@'))
    all.push_back(named("--config", options.config->substr(1)));
  return all;
}

std::vector<named_path> files_written(const run_options& options) {
  std::vector<named_path> all;
  if (options.trace)
    all.push_back(named("--trace", *options.trace));
  if (options.report && *options.report != "-")
    all.push_back(named("--report", *options.report));
  return all;
}

/// Also by two names of one file.
bool is_same(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  return one == other || fs::equivalent(one, other, ignored);
}

/// @pre both without links
bool is_within(const fs::path& path, const fs::path& directory) {
  return std::ranges::mismatch(directory, path).in1 == directory.end();
}

/// Returns whether one of the files of `directory` is `path`, also where the directory has but a
/// link to it.
bool holds(const fs::path& directory, const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored))
    return false;
  constexpr auto all = fs::directory_options::follow_directory_symlink |
                       fs::directory_options::skip_permission_denied;
  fs::recursive_directory_iterator file(directory, all, ignored);
  while (file != end(file) && !is_same(file->path(), path))
    file.increment(ignored);
  return file != end(file);
}

result<void> check_apart_from_checkpoint(const run_options& options) {
  const auto checkpoint = named("CHECKPOINT", options.checkpoint).path;
  auto all = files_written(options);
  if (options.output)
    all.push_back(named("--output", *options.output));
  for (const auto& each : all)
    if (is_within(each.path, checkpoint) || holds(checkpoint, each.path))
      return refuse(std::string(each.option) + " names '" + each.path.string() +
                    "', which is in the checkpoint; expected a place outside it");
  return {};
}

result<void> check_distinct(const run_options& options) {
  auto others = files_read(options);
  for (const auto& each : files_written(options)) {
    for (const auto& other : others)
      if (is_same(each.path, other.path))
        return refuse(std::string(each.option) + " and " + std::string(other.option) +
                      " both name '" + each.path.string() + "'; expected different files");
    others.push_back(each);
  }
  if (!options.output)
    return {};
  const auto output = named("--output", *options.output).path;
  for (const auto& other : others)
    if (is_within(other.path, output) && is_output_name(other.path.filename()))
      return refuse("--output writes '" + other.path.string() + "', which " +
                    std::string(other.option) + " names; expected another directory");
  return {};
}

result<void> check_writable(std::string_view option, const fs::path& path) {
  const auto directory = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  const bool is_file = !path.empty() && !fs::is_directory(path, ignored);
  if (!is_file || access(directory.c_str(), W_OK) != 0)
    return refuse(std::string(option) + " names '" + path.string() +
                  "', which cannot be written; expected a file in a directory that can");
  return {};
}

/// Refuses to write a result over a file that is no such result: most names that are typed by
/// mistake are somebody's work.
/// @param mark what such a result has at its beginning
result<void> check_replaceable(const std::string& option, const fs::path& path,
                               const std::string& what, std::string_view mark) {
  if (auto writable = check_writable(option, path); !writable)
    return writable;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) == 0)
    return {};
  std::ifstream old(path, std::ios::binary);
  std::string beginning(64, '\0');
  old.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  if (beginning.find(mark) == std::string::npos)
    return refuse(option + " names '" + path.string() + "', which holds something else than a " +
                  what + "; expected a " + what + " or a new file");
  return {};
}

result<void> make_output_directory(const fs::path& directory) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed || access(directory.c_str(), W_OK) != 0)
    return refuse("--output names '" + directory.string() +
                  "', which cannot be written; expected a directory");
  return {};
}

} // namespace

result<void> check_result_paths(const run_options& options) {
  if (auto apart = check_apart_from_checkpoint(options); !apart)
    return apart;
  if (auto distinct = check_distinct(options); !distinct)
    return distinct;
  if (options.report && *options.report != "-")
    if (auto writable = check_replaceable("--report", *options.report, "report", R"("strategy")");
        !writable)
      return writable;
  if (options.trace)
    if (auto writable = check_replaceable("--trace", *options.trace, "trace", R"("ferry_trace")");
        !writable)
      return writable;
  return options.output ? make_output_directory(*options.output) : result<void>{};
}

} // namespace ferry
