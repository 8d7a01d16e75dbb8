// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>

namespace ferry {

/// A bar on standard error that shows how far something has come. Draws nothing where standard
/// error is no terminal. Used by one thread.
class progress_bar {
public:
  /// @pre `total` is not 0
  progress_bar(std::string label, std::uint64_t total);
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  /// Wipes the bar.
  ~progress_bar();

  void advance(std::uint64_t amount);

private:
  std::string label_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  int percent_ = -1; ///< As drawn.
  bool visible_;
};

} // namespace ferry
