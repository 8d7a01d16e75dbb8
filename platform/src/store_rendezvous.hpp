// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "ferry/platform/rendezvous.hpp"
#include "process/process_identity.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// Meets through a store: each rank leaves what it brings under a key of its own. A failure and a
/// rank that has left are keys as well, which those who wait look for now and then.
class store_rendezvous final : public rendezvous {
public:
  store_rendezvous(std::shared_ptr<key_value_store> store, int rank, int size);
  ~store_rendezvous() override;

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return size_; }
  [[nodiscard]] result<contributions> meet(std::string_view key, const_bytes own,
                                           nanoseconds patience) override;
  void poison(const failure& cause) noexcept override;
  [[nodiscard]] std::optional<failure> failed() noexcept override;
  [[nodiscard]] std::vector<int> lost() noexcept override;

  /// Tells the ranks' processes to each other, and watches each as soon as it is known.
  [[nodiscard]] result<void> introduce(nanoseconds patience);

private:
  [[nodiscard]] result<void> introduce_through_store(nanoseconds patience);
  [[nodiscard]] result<contributions> meet_through_store(std::string_view key, const_bytes own,
                                                         nanoseconds patience);
  /// Leaves `cause` for all and returns the first one left.
  [[nodiscard]] failure fail(const failure& cause);
  /// Returns why the store is gone: `reason`, or a rank that has ended.
  [[nodiscard]] failure unreachable(const failure& reason) const;
  /// Keeps a store that is hosted here until the others have left, or had the time to.
  void linger();
  [[nodiscard]] std::optional<failure> poisoned();
  [[nodiscard]] std::optional<failure> somebody_is_gone(std::string_view key,
                                                        const std::vector<std::string>& places);
  [[nodiscard]] failure late(std::string_view key, const std::vector<std::string>& places,
                             nanoseconds patience);

  std::shared_ptr<key_value_store> store_;
  int rank_;
  int size_;
  peer_processes peers_;
  bool takes_part_ = true;       ///< The ranks are not those of another job.
  std::vector<int> unannounced_; ///< Ranks whose processes are watched once they are known.
};

} // namespace ferry
