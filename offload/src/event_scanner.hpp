// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>

namespace ferry {

/// Cuts the JSON array of a trace, or of an object that begins with it, into the texts of its
/// objects, without holding more than one, so that an array that ends anywhere gives all whole
/// ones. What is inside an object is not checked.
class event_scanner {
public:
  static constexpr std::size_t longest_event = std::size_t{64} << 10;
  static constexpr int deepest = 8;

  explicit event_scanner(std::istream& in) : in_(&in), chunk_(std::size_t{1} << 16, '\0') {}

  /// Returns the next object, nothing at the end or where the file breaks off.
  /// @throws ferry_error `invalid_argument` if something else is in the way
  [[nodiscard]] std::optional<std::string> next();

  /// Returns the number of the line where the last object began, or what is in its way; from 1.
  [[nodiscard]] std::size_t line() const noexcept { return began_; }

private:
  void open(int byte);
  [[nodiscard]] int take();
  [[nodiscard]] int take_after_blanks();
  [[nodiscard]] std::optional<std::string> object();

  std::istream* in_;
  std::string chunk_;
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
  std::size_t line_ = 1;
  std::size_t began_ = 1;
  bool in_object_ = false;
  enum class place { before, first, between, after } place_ = place::before;
};

} // namespace ferry
