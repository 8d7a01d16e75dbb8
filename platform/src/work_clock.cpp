// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/work_clock.hpp"

namespace ferry {
namespace {

thread_local work_clock* innermost = nullptr;

} // namespace

work_clock::work_clock() noexcept : outer_(innermost) {
  innermost = this;
}

work_clock::~work_clock() {
  innermost = outer_;
}

work_clock* work_clock::current() noexcept {
  return innermost;
}

void work_clock::note(nanoseconds now) noexcept {
  if (!began_)
    began_ = now;
  ended_ = now;
}

void work_clock::correct(nanoseconds now) noexcept {
  if (began_ == ended_)
    began_ = now;
  ended_ = now;
}

} // namespace ferry
