// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/component_config.hpp"

#include <algorithm>
#include <cerrno>
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
  if (!file) {
    return bad_file(path, "cannot be read: " + std::generic_category().message(errno));
  }
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

std::int64_t component_config::even(std::string_view name, std::int64_t least, std::int64_t most,
                                    std::optional<std::int64_t> fallback) {
  const auto number = integer(name, least, most, fallback);
  if (number % 2 != 0) {
    reject(errc::invalid_checkpoint, name, find(name), "an even number");
  }
  return number;
}

std::int64_t component_config::even(std::string_view name, std::int64_t least, std::int64_t most) {
  return even(name, least, most, std::nullopt);
}

template <class Value, class Read>
std::vector<Value> component_config::array(std::string_view name, extent size, Value fallback,
                                           std::string_view element, const Read& read) {
  std::vector<Value> values;
  const auto* found = find(name);
  bool good = found != nullptr && found->is_array() && found->size() >= size.least &&
              found->size() <= size.most;
  for (std::size_t i = 0; good && i < found->size(); ++i) {
    const std::optional<Value> value = read((*found)[i]);
    good = value.has_value();
    values.push_back(value.value_or(fallback));
  }
  if (!good) {
    auto count = std::to_string(size.least);
    if (size.most != size.least) {
      count += " to " + std::to_string(size.most);
    }
    reject(errc::invalid_checkpoint, name, found,
           "an array of " + count + ", each " + std::string{element});
    values.assign(size.least, fallback);
  }
  return values;
}

std::vector<std::int64_t> component_config::integers(std::string_view name, std::int64_t least,
                                                     std::int64_t most, extent size) {
  return array(name, size, least, range(least, most), [&](const nlohmann::json& element) {
    const auto number = as_integer(element);
    return number && *number >= least && *number <= most ? number : std::nullopt;
  });
}

std::vector<double> component_config::numbers(std::string_view name, extent size) {
  return array(name, size, 0.0, "a finite number", [](const nlohmann::json& element) {
    const auto number = element.is_number() ? std::optional{element.get<double>()} : std::nullopt;
    return number && std::isfinite(*number) ? number : std::nullopt;
  });
}

std::vector<bool> component_config::booleans(std::string_view name, extent size) {
  return array(name, size, false, "true or false", [](const nlohmann::json& element) {
    return element.is_boolean() ? std::optional{element.get<bool>()} : std::nullopt;
  });
}

std::array<std::int64_t, 3> component_config::three(std::string_view name, std::int64_t least,
                                                    std::int64_t most) {
  const auto numbers = integers(name, least, most, {3, 3});
  return {numbers[0], numbers[1], numbers[2]};
}

double component_config::number(std::string_view name, double fallback) {
  const auto* value = find(name);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    reject(errc::invalid_checkpoint, name, value, "a finite number");
    return fallback;
  }
  return value->get<double>();
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

std::size_t component_config::one_of(std::string_view name,
                                     std::initializer_list<std::string_view> texts) {
  const auto* value = find(name);
  std::string expected;
  std::size_t place = 0;
  for (const auto text : texts) {
    if (value == nullptr || *value == text) {
      return place;
    }
    expected.append(place++ == 0 ? "\"" : " or \"").append(text).append("\"");
  }
  reject(errc::unsupported, name, value, expected);
  return 0;
}

void component_config::expect_text(std::string_view name, std::string_view expected) {
  const auto* value = find(name);
  if (value != nullptr && *value != expected) {
    reject(errc::unsupported, name, value, nlohmann::json(expected).dump());
  }
}

void component_config::expect_integer(std::string_view name, std::int64_t expected) {
  const auto* value = find(name);
  if (value != nullptr && *value != expected) {
    reject(errc::unsupported, name, value, std::to_string(expected));
  }
}

void component_config::expect_empty(std::string_view name) {
  const auto* value = find(name);
  if (value != nullptr && *value != nlohmann::json::array()) {
    reject(errc::unsupported, name, value, "[]: this build has nothing else");
  }
}

void component_config::expect_off(std::string_view name) {
  const auto* value = find(name);
  if (value != nullptr && *value != false) {
    reject(errc::unsupported, name, value, "null or false: this build has nothing else");
  }
}

void component_config::expect_each_text(std::string_view name, std::string_view expected) {
  const auto* value = find(name);
  const auto equal = [&](const nlohmann::json& each) { return each == expected; };
  if (value != nullptr && !(value->is_array() && std::ranges::all_of(*value, equal))) {
    reject(errc::unsupported, name, value, "an array of " + nlohmann::json(expected).dump());
  }
}

void component_config::expect(bool holds, std::string_view name, std::string_view expected) {
  if (!holds) {
    reject(errc::invalid_checkpoint, name, find(name), expected);
  }
}

} // namespace ferry
