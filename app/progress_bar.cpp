// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "progress_bar.hpp"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace ferry {

progress_bar::progress_bar(std::string label, std::uint64_t total)
    : label_(std::move(label)), total_(total), visible_(::isatty(STDERR_FILENO) != 0) {
  advance(0);
}

progress_bar::~progress_bar() {
  if (visible_)
    std::fputs("\r\x1b[K", stderr);
}

void progress_bar::advance(std::uint64_t amount) {
  constexpr int width = 40;
  done_ += amount;
  const auto percent =
      static_cast<int>(100 * static_cast<double>(done_) / static_cast<double>(total_));
  if (!visible_ || percent == percent_)
    return;
  percent_ = percent;
  const auto filled = std::string(static_cast<std::size_t>(width * percent / 100), '#');
  std::fprintf(stderr, "\r%s [%-*s] %3d %%", label_.c_str(), width, filled.c_str(), percent);
  std::fflush(stderr);
}

} // namespace ferry
