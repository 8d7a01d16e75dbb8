// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace ferry {

/// How much freed device memory is worth keeping, learned from how much is staged at a time.
///
/// Keeps a ledger of the bytes that the attached stagers have on the device. Its peak counts once
/// it has been learned, which is after the decision that it could have changed: what has not been
/// seen to recur is not kept. Not thread-safe.
class learned_budget {
public:
  /// Begins and ends a stager's share in the ledger. With the last one all is forgotten.
  void attach() noexcept;
  void detach() noexcept;

  [[nodiscard]] std::uint64_t staged_bytes() const noexcept { return staged_; }

  void staged(std::uint64_t bytes) noexcept;
  void unstaged(std::uint64_t bytes) noexcept;

  /// Returns how many bytes may be kept: 1.25 times the peak learned, at most `most`, nothing to
  /// begin with.
  [[nodiscard]] std::uint64_t budget(std::uint64_t most) const noexcept;

  /// Makes the ledger's peak count from now on.
  void learn() noexcept;

private:
  std::uint64_t attached_ = 0;
  std::uint64_t staged_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t learned_ = 0;
};

} // namespace ferry
