// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ferry::sim {

/// Index of a thread of control (a stream or a host thread) in every vector clock of a machine.
using component = std::uint32_t;

/// One step of one thread of control.
struct epoch {
  component who = 0;
  std::uint64_t count = 0;
};

/// How far somebody knows each thread of control to have come.
class vector_clock {
public:
  [[nodiscard]] std::uint64_t at(component who) const noexcept {
    return who < counts_.size() ? counts_[who] : 0;
  }

  [[nodiscard]] bool knows(epoch step) const noexcept { return step.count <= at(step.who); }

  void join(const vector_clock& other) {
    if (counts_.size() < other.counts_.size())
      counts_.resize(other.counts_.size(), 0);
    for (std::size_t i = 0; i < other.counts_.size(); ++i)
      counts_[i] = std::max(counts_[i], other.counts_[i]);
  }

  /// Keeps of each component only what `other` knows too.
  void meet(const vector_clock& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i)
      counts_[i] = std::min(counts_[i], other.at(static_cast<component>(i)));
  }

  void raise(epoch step) {
    if (counts_.size() <= step.who)
      counts_.resize(step.who + std::size_t{1}, 0);
    counts_[step.who] = std::max(counts_[step.who], step.count);
  }

  epoch tick(component who) {
    auto next = epoch{who, at(who) + 1};
    raise(next);
    return next;
  }

private:
  std::vector<std::uint64_t> counts_;
};

} // namespace ferry::sim
