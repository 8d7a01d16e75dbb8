// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "cache_retention.hpp"

#include <ferry/platform/log.hpp>

#include "guarded.hpp"

#include <utility>

namespace ferry {

cache_retention::cache_retention(caf::actor_config& config, std::shared_ptr<allocator_cache> cache,
                                 cache_bounds bounds)
    : cache_retention_actor::base(config), cache_(std::move(cache)),
      policy_(*cache_, bounds, learned_) {
  learned_->attach();
}

// Totals, not differences: one that was lost, or that a restarted actor never got, does no harm.
void cache_retention::count(std::uint64_t bytes_now) {
  const auto before = learned_->staged_bytes();
  if (bytes_now > before)
    learned_->staged(bytes_now - before);
  else
    learned_->unstaged(before - bytes_now);
}

void cache_retention::left(std::uint64_t bytes_now) {
  count(bytes_now);
  if (auto kept = attempt([&] { release_if_needed(false); }); !kept)
    log(log_level::warn, "ferry.actors", "keep cache reason=" + ferry::describe(kept.error()));
}

cache_retention::behavior_type cache_retention::make_behavior() {
  return {
      [this](const group_staged& m) { return guarded(this, m, [&] { count(m.bytes_now); }); },
      [this](const group_left& m) { return guarded(this, m, [&] { left(m.bytes_now); }); },
      [this](const groups_closed& m) {
        return guarded(this, m, [&] {
          left(0);
          learned_->detach();
          learned_->attach();
        });
      },
      [this](const release_cache& m) { return guarded(this, m, [&] { release_if_needed(true); }); },
      [this](const query_cache& m) { return guarded(this, m, [&] { return state(); }); },
      [this](const start_child& m) { return guarded(this, m, [] {}); },
      [this](const drain_child& m) { return guarded(this, m, [] {}); },
      [this](const release_child& m) {
        return guarded(this, m, [&] {
          quit();
          return answered{};
        });
      },
  };
}

cache_state cache_retention::state() const {
  auto now = state_;
  now.staged_bytes = learned_->staged_bytes();
  return now;
}

void cache_retention::release_if_needed(bool force) {
  try {
    if (policy_.release_if_needed(force))
      ++state_.releases;
  } catch (...) {
    ++state_.releases;
    ++state_.failures;
    throw;
  }
}

} // namespace ferry
