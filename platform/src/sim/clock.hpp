// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ferry::sim {

/// Index of a thread of control (a stream or a host thread) in every vector clock of a machine.
using component = std::uint32_t;

/// One step of one thread of control.
struct epoch {
  component who = 0;
  std::uint64_t count = 0;
};

struct late_clock;

/// How far somebody knows each thread of control to have come. May include knowledge that is still
/// on its way: what a collective will have told once every rank has arrived.
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
    for (const auto& late : other.late_)
      add(late);
  }

  void add(const std::shared_ptr<const late_clock>& late) {
    if (std::find(late_.begin(), late_.end(), late) == late_.end())
      late_.push_back(late);
  }

  /// Takes in what has arrived meanwhile.
  void resolve();
  [[nodiscard]] bool awaits_more() const noexcept { return !late_.empty(); }

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
  std::vector<std::shared_ptr<const late_clock>> late_;
};

/// Knowledge that arrives later, for everybody who has been promised it.
struct late_clock {
  bool arrived = false;
  vector_clock clock;
};

inline void vector_clock::resolve() {
  for (std::size_t i = 0; i < late_.size();) {
    if (!late_[i]->arrived) {
      ++i;
      continue;
    }
    auto late = late_[i];
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(i));
    join(late->clock);
  }
}

} // namespace ferry::sim
