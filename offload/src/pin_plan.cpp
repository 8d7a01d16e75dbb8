// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/pin_plan.hpp"

#include <algorithm>

namespace ferry {
namespace {

/// Follows the stores as they are filled.
class filling {
public:
  filling(const pin_wish& wish, const pin_allowance& there) : wish_(&wish), there_(&there) {}

  [[nodiscard]] bool in_budget(std::uint64_t bytes) const noexcept {
    return !wish_->budget || there_->pinned + pinned_ + bytes <= *wish_->budget;
  }

  [[nodiscard]] bool in_memory(std::uint64_t bytes) const noexcept {
    return !there_->available || grown_ + bytes <= *there_->available;
  }

  void fill(const pin_candidate& store) noexcept {
    pinned_ += store.bytes;
    grown_ += store.bytes;
    grown_ -= std::min<std::uint64_t>(grown_, store.replaces);
  }

private:
  const pin_wish* wish_;
  const pin_allowance* there_;
  std::uint64_t pinned_ = 0;
  std::uint64_t grown_ = 0; ///< What the process holds more than before.
};

failure refusal(std::span<const pin_candidate> stores, const pin_wish& wish,
                const pin_allowance& there, const pin_candidate& first, bool over_budget) {
  std::uint64_t asked = 0;
  for (const auto& each : stores)
    asked += each.bytes;
  const auto allowed =
      over_budget ? "the budget allows " + std::to_string(*wish.budget)
                  : std::to_string(*there.available) + " are available by " + there.decided_by;
  return {.code = errc::out_of_host_memory,
          .detail = "pinning the host copies takes " + std::to_string(asked) + " bytes; " +
                    allowed + ", and " + std::to_string(there.pinned) + " are pinned already; " +
                    (over_budget ? "raise " + wish.budget_option + ", " : "") +
                    "set dlo_pin_failure_policy to whole_block_fallback or pin_memory to false",
          .block = first.path};
}

bool stays(const pin_candidate& store, const pin_wish& wish) noexcept {
  return wish.keep_mapped && store.mapped;
}

} // namespace

result<pin_plan> plan_pinning(std::span<const pin_candidate> stores, const pin_wish& wish,
                              const pin_allowance& there) {
  if (!wish.wanted || !wish.useful)
    return pin_plan{};
  const auto fill = [&](bool stages) -> result<pin_plan> {
    pin_plan plan;
    plan.pinned_.resize(stores.size());
    filling so_far{wish, there};
    const pin_candidate buffers{.path = "staging buffers", .bytes = wish.staging_bytes};
    if (stages && so_far.in_budget(buffers.bytes) && so_far.in_memory(buffers.bytes)) {
      so_far.fill(buffers);
      plan.stages_ = true;
      plan.bytes_ = buffers.bytes;
    }
    for (std::size_t i = 0; i != stores.size(); ++i) {
      const auto& store = stores[i];
      if (store.bytes == 0 || stays(store, wish))
        continue;
      const auto in_budget = so_far.in_budget(store.bytes);
      if (in_budget && so_far.in_memory(store.bytes)) {
        so_far.fill(store);
        plan.pinned_[i] = true;
        plan.bytes_ += store.bytes;
      } else if (wish.on_failure == pin_failure_policy::fail) {
        return tl::unexpected(refusal(stores, wish, there, store, !in_budget));
      } else {
        ++plan.left_pageable_;
      }
    }
    return plan;
  };
  auto direct = fill(false);
  const auto any_stays =
      std::ranges::any_of(stores, [&](const auto& store) { return stays(store, wish); });
  if (!direct || wish.staging_bytes == 0 || (direct->left_pageable_ == 0 && !any_stays))
    return direct;
  auto staged = fill(true);
  return staged && staged->stages_ ? staged : direct;
}

} // namespace ferry
