// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/cache_retention.hpp>
#include <ferry/offload/bounded_allocator_cache.hpp>

#include <cstdint>
#include <memory>

namespace ferry {

/// See `cache_retention_actor`.
class cache_retention final : public cache_retention_actor::base {
public:
  cache_retention(caf::actor_config& config, std::shared_ptr<allocator_cache> cache,
                  cache_bounds bounds);

  behavior_type make_behavior() override;
  const char* name() const override { return "cache_retention"; }

private:
  [[nodiscard]] cache_state state() const;
  void count(std::uint64_t bytes_now);
  void left(std::uint64_t bytes_now);
  void release_if_needed(bool force);

  std::shared_ptr<allocator_cache> cache_;
  std::shared_ptr<learned_budget> learned_ = std::make_shared<learned_budget>();
  bounded_allocator_cache policy_;
  cache_state state_;
};

} // namespace ferry
