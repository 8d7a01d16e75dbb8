// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/touch_pages.hpp"

#include "ferry/platform/memory.hpp"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

namespace ferry {
namespace {

// More threads than a few gain nothing, and starting one takes as long as touching a few MiB.
constexpr std::size_t most_threads = 8;
constexpr std::size_t bytes_a_thread = std::size_t{32} << 20;

void touch(mutable_bytes fresh) {
  for (std::size_t at = 0; at < fresh.size(); at += page_bytes())
    *static_cast<volatile std::byte*>(fresh.data() + at) = std::byte{0};
}

} // namespace

void touch_pages(mutable_bytes fresh) {
  const auto threads = std::clamp<std::size_t>(
      std::min<std::size_t>(fresh.size() / bytes_a_thread, std::thread::hardware_concurrency()), 1,
      most_threads);
  const auto part = (fresh.size() / threads + page_bytes() - 1) / page_bytes() * page_bytes();
  std::vector<std::jthread> others;
  try {
    while (others.size() + 1 < threads && part < fresh.size()) {
      others.emplace_back(touch, fresh.first(part));
      fresh = fresh.subspan(part);
    }
  } catch (const std::system_error&) {
    // No further thread is to be had: the rest is for this one.
  }
  touch(fresh);
}

} // namespace ferry
