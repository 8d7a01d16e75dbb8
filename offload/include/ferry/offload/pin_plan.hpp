// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/config.hpp>
#include <ferry/platform/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ferry {

/// A host store that could be pinned: the master of one unit.
struct pin_candidate {
  std::string path;         ///< Names it in messages.
  std::size_t bytes = 0;    ///< What pinning it takes: the packed form, exactly.
  std::size_t replaces = 0; ///< Bytes of ordinary memory that go once it is filled.
  bool mapped = false;      ///< It lies in pages of files, at least in part.
};

/// What a backend wants of pinned memory.
struct pin_wish {
  bool wanted = true;                                 ///< `offload_config::pin_memory`.
  bool useful = true;                                 ///< `device_traits::wants_pinned_sources`.
  std::optional<std::uint64_t> budget = std::nullopt; ///< `offload_config::pin_budget_bytes`.
  pin_failure_policy on_failure = pin_failure_policy::fail;
  bool keep_mapped = false;      ///< `offload_config::keep_mapped`.
  std::size_t staging_bytes = 0; ///< Of the buffers for what is not pinned; 0: it needs none.
  std::string budget_option = "dlo_pin_budget_gb"; ///< Where `budget` comes from, for messages.
};

/// What there is of it.
struct pin_allowance {
  std::uint64_t pinned = 0;                              ///< Already, and within the budget.
  std::optional<std::uint64_t> available = std::nullopt; ///< Host memory that may still be taken.
  std::string decided_by = {};                           ///< What `available` is due to.
};

/// Which stores are pinned. The one place that decides it: whoever makes a host store asks here.
class pin_plan {
public:
  /// Pins nothing.
  pin_plan() = default;

  /// Returns whether the store that was candidate `index` is to be pinned.
  [[nodiscard]] bool pins(std::size_t index) const noexcept {
    return index < pinned_.size() && pinned_[index];
  }

  /// Returns whether there are to be staging buffers for the other stores.
  [[nodiscard]] bool stages() const noexcept { return stages_; }

  /// Returns what all that is to be pinned takes, staging buffers included.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  /// Returns how many stores stay pageable although pinning was wanted and useful.
  [[nodiscard]] std::size_t left_pageable() const noexcept { return left_pageable_; }

  friend result<pin_plan> plan_pinning(std::span<const pin_candidate> stores, const pin_wish& wish,
                                       const pin_allowance& there);

private:
  std::vector<bool> pinned_;
  bool stages_ = false;
  std::uint64_t bytes_ = 0;
  std::size_t left_pageable_ = 0;
};

/// Decides which of `stores` are pinned. They are filled one after the other, each before the
/// memory that it replaces goes: the host never holds more than one of them twice. A store without
/// bytes is never pinned, nor is a mapped one that is to be kept.
///
/// What does not fit is left pageable under `whole_block_fallback`; under `fail` it is refused as
/// `out_of_host_memory`, with what was asked, what is allowed, and what is pinned already. Where
/// stores are left, the staging buffers come before the stores that fit; without room for them
/// there are none.
[[nodiscard]] result<pin_plan> plan_pinning(std::span<const pin_candidate> stores,
                                            const pin_wish& wish, const pin_allowance& there);

} // namespace ferry
