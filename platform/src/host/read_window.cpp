// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/read_window.hpp"

#include <algorithm>

namespace ferry {

void read_window::expect(const_bytes source) {
  if (!source.empty())
    expected_.push_back(source);
}

const_bytes read_window::next() {
  const auto end = copied_ + width_;
  if (expected_.empty() || asked_ >= end)
    return {};
  auto& front = expected_.front();
  const auto range = front.first(std::min<std::size_t>(front.size(), end - asked_));
  front = front.subspan(range.size());
  if (front.empty())
    expected_.pop_front();
  asked_ += range.size();
  return range;
}

} // namespace ferry
