// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/pin_plan.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/host_limits.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ferry {

/// Names a lease inside one budget.
enum class lease_id : std::uint64_t {};

/// A part of the budget, and what it may be spent on.
struct pin_lease {
  lease_id id{};
  pin_plan plan;
  std::optional<failure> no_pages; ///< Why the pages that were asked for may not be registered.
};

/// What somebody asks for.
struct lease_wish {
  std::span<const pin_candidate> stores;
  pin_wish pinning = {};
  std::uint64_t pages = 0; ///< Bytes of pages of files, to be registered; where they are not to be
                           ///< had, the rest is.
};

/// A lease as others see it.
struct lease_entry {
  std::string who;
  std::uint64_t bytes = 0;      ///< Pinned.
  std::uint64_t registered = 0; ///< Of pages of files.
};

/// How much host memory may be pinned, and who has leased what of it. Decides; pins nothing.
/// Registered pages cannot leave the memory either: they count against the same ceiling.
///
/// A lease is *open* from the grant until it is settled: its stores are being filled. The system
/// does not count open leases among what is used, so they are subtracted from what it says is
/// available.
class host_budget {
public:
  /// @param ceiling most bytes pinned at a time; nothing: what each wish and the host allow
  explicit host_budget(std::optional<std::uint64_t> ceiling);

  /// Leases what the plan for the stores takes, and the pages behind it. Fails as `plan_pinning`,
  /// and has then leased nothing. `holder` is whoever the lease dies with, `who` its name in
  /// reports.
  [[nodiscard]] result<pin_lease> lease(std::uint64_t holder, std::string who, lease_wish wish,
                                        const host_limits& now);

  /// Ends the filling: from now on the lease holds so much, at most what was granted. Returns
  /// false for a lease that is not held.
  bool settle(lease_id id, std::uint64_t pinned, std::uint64_t registered);

  /// Takes back every lease of `holder`. Returns them.
  std::vector<lease_entry> give_back_all(std::uint64_t holder);

  [[nodiscard]] std::uint64_t pinned() const noexcept;
  [[nodiscard]] std::uint64_t registered() const noexcept;
  [[nodiscard]] std::optional<std::uint64_t> ceiling() const noexcept { return ceiling_; }
  [[nodiscard]] std::vector<lease_entry> leases() const;

private:
  struct held {
    std::uint64_t holder = 0;
    lease_entry entry;
    bool open = true;
  };

  [[nodiscard]] std::uint64_t open() const noexcept;
  [[nodiscard]] std::optional<failure> against_pages(std::uint64_t pages, std::uint64_t stores,
                                                     const pin_allowance& there) const;

  std::optional<std::uint64_t> ceiling_;
  std::map<lease_id, held> leases_;
  std::uint64_t last_id_ = 0;
};

} // namespace ferry
