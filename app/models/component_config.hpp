// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// Reads a file of at most 64 MiB that must hold one JSON object.
/// @returns the object, or `invalid_checkpoint` with the path and what is wrong with the file
[[nodiscard]] result<nlohmann::json> read_json_object(const std::filesystem::path& path);

/// The fields of one component's JSON file, checked as they are read.
///
/// A field that is missing, of the wrong type or out of range becomes a problem, and the value
/// returned instead is one that the caller can go on with. `problems` outlives this.
class component_config {
public:
  /// Opens `path`. If that fails, the reason is a problem and every field counts as missing.
  component_config(const std::filesystem::path& path, std::vector<failure>& problems);

  /// Returns the integer called `name`. Without `fallback` it must be there.
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t least, std::int64_t most,
                                     std::optional<std::int64_t> fallback);
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t least, std::int64_t most);

  /// Returns an integer that must be even.
  [[nodiscard]] std::int64_t even(std::string_view name, std::int64_t least, std::int64_t most,
                                  std::optional<std::int64_t> fallback);
  [[nodiscard]] std::int64_t even(std::string_view name, std::int64_t least, std::int64_t most);

  /// Returns an array of exactly three integers.
  [[nodiscard]] std::array<std::int64_t, 3> three(std::string_view name, std::int64_t least,
                                                  std::int64_t most);

  /// How many elements an array may have, both ends included.
  struct extent {
    std::size_t least;
    std::size_t most;
  };

  /// Returns an array of integers, of numbers, of truth values.
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name, std::int64_t least,
                                                   std::int64_t most, extent size);
  [[nodiscard]] std::vector<double> numbers(std::string_view name, extent size);
  [[nodiscard]] std::vector<bool> booleans(std::string_view name, extent size);

  /// Returns the number above zero called `name`, or `fallback` if it is not there.
  [[nodiscard]] double positive(std::string_view name, double fallback);
  /// Returns the finite number called `name`, or `fallback` if it is not there.
  [[nodiscard]] double number(std::string_view name, double fallback);
  [[nodiscard]] bool boolean(std::string_view name, bool fallback);

  /// Returns the place among `texts` of the one called `name`: 0 if it is not there.
  [[nodiscard]] std::size_t one_of(std::string_view name,
                                   std::initializer_list<std::string_view> texts);

  /// Adds the problem `unsupported` unless `name` is `expected`, null or not there.
  void expect_text(std::string_view name, std::string_view expected);
  void expect_integer(std::string_view name, std::int64_t expected);
  /// Adds the problem `unsupported` unless `name` is an empty array, null or not there.
  void expect_empty(std::string_view name);
  /// Adds the problem `unsupported` unless `name` is null, false or not there.
  void expect_off(std::string_view name);
  /// Adds the problem `unsupported` unless `name` is an array of `expected` alone, null or not
  /// there.
  void expect_each_text(std::string_view name, std::string_view expected);
  /// Adds the problem `invalid_checkpoint` unless what was read of `name` `holds`.
  void expect(bool holds, std::string_view name, std::string_view expected);

private:
  /// Returns the field if it is there and not null.
  [[nodiscard]] const nlohmann::json* find(std::string_view name) const;
  template <class Value, class Read>
  [[nodiscard]] std::vector<Value> array(std::string_view name, extent size, Value fallback,
                                         std::string_view element, const Read& read);
  void reject(errc code, std::string_view name, const nlohmann::json* value,
              std::string_view expected);

  std::filesystem::path path_;
  nlohmann::json fields_;
  bool readable_ = false;
  std::vector<failure>* problems_;
};

} // namespace ferry
