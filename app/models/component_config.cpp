// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/component_config.hpp"

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <system_error>

namespace ferry {
namespace {

constexpr std::uintmax_t largest_file = std::uintmax_t{64} << 20;

tl::unexpected<failure> bad_file(const std::filesystem::path& path, std::string_view what) {
  return tl::unexpected{failure{errc::invalid_checkpoint, path.string() + " " + std::string{what}}};
}

std::string range(std::int64_t least, std::int64_t most) {
  return "an integer from " + std::to_string(least) + " to " + std::to_string(most);
}

std::optional<std::int64_t> as_integer(const nlohmann::json& value) {
  if (!value.is_number_integer()) {
    return std::nullopt;
  }
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return std::nullopt;
  }
  return value.get<std::int64_t>();
}

} // namespace

result<nlohmann::json> read_json_object(const std::filesystem::path& path) {
  std::error_code reason;
  const auto bytes = std::filesystem::file_size(path, reason);
  if (reason) {
    return bad_file(path, "cannot be read: " + reason.message());
  }
  if (bytes > largest_file) {
    return bad_file(path, "has " + std::to_string(bytes) + " bytes; expected a small JSON file");
  }
  std::ifstream file{path, std::ios::binary};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  auto parsed = nlohmann::json::parse(text, nullptr, false);
  if (!parsed.is_object()) {
    return bad_file(path, "is not a JSON object");
  }
  return parsed;
}

component_config::component_config(const std::filesystem::path& path,
                                   std::vector<failure>& problems)
    : path_{path}, problems_{&problems} {
  auto object = read_json_object(path);
  if (!object) {
    problems.push_back(object.error());
    return;
  }
  fields_ = std::move(*object);
  readable_ = true;
}

const nlohmann::json* component_config::find(std::string_view name) const {
  const auto found = fields_.find(std::string{name});
  return found == fields_.end() || found->is_null() ? nullptr : &*found;
}

void component_config::reject(errc code, std::string_view name, const nlohmann::json* value,
                              std::string_view expected) {
  if (!readable_) {
    return;
  }
  const auto replace = nlohmann::json::error_handler_t::replace;
  problems_->push_back(
      failure{code, path_.string() + ": " + std::string{name} + " is " +
                        (value == nullptr ? "missing" : value->dump(-1, ' ', false, replace)) +
                        "; expected " + std::string{expected}});
}

std::int64_t component_config::integer(std::string_view name, std::int64_t least, std::int64_t most,
                                       std::optional<std::int64_t> fallback) {
  const auto* value = find(name);
  if (value == nullptr && fallback) {
    return *fallback;
  }
  const auto number = value == nullptr ? std::nullopt : as_integer(*value);
  if (!number || *number < least || *number > most) {
    reject(errc::invalid_checkpoint, name, value, range(least, most));
    return least;
  }
  return *number;
}

std::int64_t component_config::integer(std::string_view name, std::int64_t least,
                                       std::int64_t most) {
  return integer(name, least, most, std::nullopt);
}

std::int64_t component_config::even(std::string_view name, std::int64_t least, std::int64_t most) {
  const auto number = integer(name, least, most);
  if (number % 2 != 0) {
    reject(errc::invalid_checkpoint, name, find(name), "an even number");
  }
  return number;
}

std::array<std::int64_t, 3> component_config::three(std::string_view name, std::int64_t least,
                                                    std::int64_t most) {
  std::array<std::int64_t, 3> numbers{least, least, least};
  const auto* value = find(name);
  bool good = value != nullptr && value->is_array() && value->size() == numbers.size();
  for (std::size_t i = 0; good && i < numbers.size(); ++i) {
    const auto number = as_integer((*value)[i]);
    good = number && *number >= least && *number <= most;
    numbers[i] = good ? *number : least;
  }
  if (!good) {
    reject(errc::invalid_checkpoint, name, value, "three times " + range(least, most));
  }
  return numbers;
}

double component_config::positive(std::string_view name, double fallback) {
  const auto* value = find(name);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_number() || !(value->get<double>() > 0) || !std::isfinite(value->get<double>())) {
    reject(errc::invalid_checkpoint, name, value, "a number above 0");
    return fallback;
  }
  return value->get<double>();
}

bool component_config::boolean(std::string_view name, bool fallback) {
  const auto* value = find(name);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_boolean()) {
    reject(errc::invalid_checkpoint, name, value, "true or false");
    return fallback;
  }
  return value->get<bool>();
}

void component_config::expect_text(std::string_view name, std::string_view expected) {
  const auto* value = find(name);
  if (value != nullptr && *value != expected) {
    reject(errc::unsupported, name, value, nlohmann::json(expected).dump());
  }
}

void component_config::expect_off(std::string_view name) {
  const auto* value = find(name);
  if (value != nullptr && *value != false) {
    reject(errc::unsupported, name, value, "null or false: this build has nothing else");
  }
}

} // namespace ferry
