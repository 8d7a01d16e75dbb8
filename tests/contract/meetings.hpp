// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/rendezvous.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace ferry::test {

/// The ends of all ranks, rank 0 first. Rank 0 goes last, as it may host the store of all.
struct meetings : std::vector<std::unique_ptr<rendezvous>> {
  using std::vector<std::unique_ptr<rendezvous>>::vector;
  meetings(std::vector<std::unique_ptr<rendezvous>> ends) : vector(std::move(ends)) {}
  meetings(meetings&&) = default;
  ~meetings() {
    while (!empty())
      pop_back();
  }
};

} // namespace ferry::test
