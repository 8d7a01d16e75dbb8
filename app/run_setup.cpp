// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "run_setup.hpp"

#include <ferry/offload/config_legacy.hpp>
#include <ferry/platform/log.hpp>
#include <ferry/platform/open_device.hpp>
#include <ferry/platform/quantity.hpp>

#include "models/load_model.hpp"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

namespace ferry {

namespace {

tl::unexpected<failure> refuse(std::string detail) {
  return tl::unexpected(failure{.code = errc::invalid_argument, .detail = std::move(detail)});
}

result<offload_config> read_config(const run_options& options) {
  auto text = config_text(options);
  if (!text)
    return tl::unexpected(text.error());
  auto resolved = resolve_config(*text ? std::optional<std::string_view>(**text) : std::nullopt,
                                 options.legacy);
  if (!resolved)
    return tl::unexpected(resolved.error());
  for (const auto& note : resolved->notes)
    log(log_level::warn, "ferry.app", note);
  return std::move(resolved->config);
}

result<void> read_size(std::string_view text, request& asked) {
  const auto cross = text.find('x');
  const auto read = [](std::string_view digits, std::int64_t& value) {
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    return error == std::errc{} && end == digits.end();
  };
  if (cross == std::string_view::npos || !read(text.substr(0, cross), asked.width) ||
      !read(text.substr(cross + 1), asked.height))
    return refuse("--size is '" + std::string(text) +
                  "'; expected width and height in pixels, such as 832x480");
  return {};
}

bool describes_request(const run_options& options) {
  return !options.prompt_ids.empty() || !options.second_prompt_ids.empty() ||
         !options.negative_prompt_ids.empty() || options.seed || options.steps ||
         options.guidance || options.size || options.frames;
}

result<request> read_request(const run_options& options, const diffusion_model& model,
                             const std::optional<reference_run>& reference) {
  if (reference)
    return model.inputs_of(*reference);
  auto asked = model.defaults();
  if (!options.prompt_ids.empty())
    asked.positive.ids = options.prompt_ids;
  if (!options.second_prompt_ids.empty())
    asked.second.ids = options.second_prompt_ids;
  if (!options.negative_prompt_ids.empty())
    asked.negative.ids = options.negative_prompt_ids;
  asked.seed = options.seed.value_or(asked.seed);
  asked.steps = options.steps.value_or(asked.steps);
  asked.guidance = options.guidance.value_or(asked.guidance);
  asked.frames = options.frames.value_or(asked.frames);
  if (options.size)
    if (auto read = read_size(*options.size, asked); !read)
      return tl::unexpected(read.error());
  return asked;
}

/// Looks whether a file can be written before an hour of work depends on it.
result<void> check_writable(std::string_view option, const std::filesystem::path& path) {
  const auto directory = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  const bool is_file = !path.empty() && !std::filesystem::is_directory(path, ignored);
  if (!is_file || access(directory.c_str(), W_OK) != 0)
    return refuse(std::string(option) + " names '" + path.string() +
                  "', which cannot be written; expected a file in a directory that can");
  return {};
}

result<void> check_results(const run_options& options) {
  if (options.report && *options.report != "-")
    if (auto writable = check_writable("--report", *options.report); !writable)
      return writable;
  if (options.trace)
    if (auto writable = check_writable("--trace", *options.trace); !writable)
      return writable;
  if (!options.output)
    return {};
  std::error_code failed;
  std::filesystem::create_directories(*options.output, failed);
  if (failed || access(options.output->c_str(), W_OK) != 0)
    return refuse("--output names '" + options.output->string() +
                  "', which cannot be written; expected a directory");
  return {};
}

result<std::optional<std::uint64_t>> read_device_memory(const run_options& options) {
  if (!options.device_memory)
    return std::nullopt;
  auto bytes = parse_bytes(*options.device_memory);
  if (!bytes)
    return refuse("--device-memory: " + bytes.error().detail);
  return *bytes;
}

} // namespace

result<run_setup> set_up(const run_options& options) {
  auto config = read_config(options);
  if (!config)
    return tl::unexpected(config.error());
  auto memory = read_device_memory(options);
  if (!memory)
    return tl::unexpected(memory.error());

  std::optional<reference_run> reference;
  if (options.reference) {
    if (describes_request(options))
      return refuse("--reference brings the request along; leave --prompt-ids, "
                    "--second-prompt-ids, --negative-prompt-ids, --seed, --steps, --guidance, "
                    "--size and --frames out");
    auto opened = reference_run::open(*options.reference);
    if (!opened)
      return tl::unexpected(opened.error());
    reference = std::move(*opened);
  }
  auto model = load_model(options.checkpoint);
  if (!model)
    return tl::unexpected(model.error());
  auto asked = read_request(options, **model, reference);
  if (!asked)
    return tl::unexpected(asked.error());
  if (auto valid = (*model)->check(*asked); !valid)
    return tl::unexpected(valid.error());

  if (auto writable = check_results(options); !writable)
    return tl::unexpected(writable.error());

  auto target = open_device(options.device, {.memory = *memory, .model = options.sim_model});
  if (!target)
    return tl::unexpected(target.error());
  return run_setup{.config = std::move(*config),
                   .model = std::move(*model),
                   .asked = std::move(*asked),
                   .reference = std::move(reference),
                   .target = std::move(*target),
                   .device_memory = *memory};
}

} // namespace ferry
