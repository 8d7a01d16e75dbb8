// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <unistd.h>

#include <utility>

namespace ferry {

/// Owns a descriptor of the operating system, or none.
class file_descriptor {
public:
  static constexpr int none = -1;

  file_descriptor() = default;
  explicit file_descriptor(int number) noexcept : number_(number) {}
  file_descriptor(file_descriptor&& other) noexcept : number_(std::exchange(other.number_, none)) {}
  file_descriptor& operator=(file_descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    file_descriptor(std::move(other));
    return *this;
  }
  ~file_descriptor() {
    if (number_ != none)
      ::close(number_);
  }

  [[nodiscard]] int number() const noexcept { return number_; }

private:
  int number_ = none;
};

} // namespace ferry
