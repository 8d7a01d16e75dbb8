// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <atomic>
#include <memory>
#include <utility>

namespace ferry {

namespace {

constexpr auto names = std::to_array<std::pair<std::string_view, log_level>>({
    {"trace", log_level::trace},
    {"debug", log_level::debug},
    {"info", log_level::info},
    {"warn", log_level::warn},
    {"error", log_level::error},
    {"off", log_level::off},
});

std::atomic<log_level> least{log_level::warn};

spdlog::level::level_enum translate(log_level level) noexcept {
  switch (level) {
    case log_level::trace:
      return spdlog::level::trace;
    case log_level::debug:
      return spdlog::level::debug;
    case log_level::info:
      return spdlog::level::info;
    case log_level::warn:
      return spdlog::level::warn;
    case log_level::error:
      return spdlog::level::err;
    case log_level::off:
      break;
  }
  return spdlog::level::off;
}

const spdlog::sink_ptr& standard_error() {
  static const spdlog::sink_ptr sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  return sink;
}

} // namespace

bool parse(std::string_view text, log_level& level) noexcept {
  for (const auto& [name, value] : names) {
    if (name == text) {
      level = value;
      return true;
    }
  }
  return false;
}

void log(log_level level, std::string_view logger, std::string_view line) {
  if (level == log_level::off || level < least.load(std::memory_order_relaxed))
    return;
  auto out = spdlog::logger(std::string(logger), standard_error());
  out.set_level(spdlog::level::trace);
  out.flush_on(spdlog::level::trace);
  out.log(translate(level), spdlog::string_view_t(line.data(), line.size()));
}

void log_at_least(log_level level) noexcept {
  least.store(level, std::memory_order_relaxed);
}

} // namespace ferry
