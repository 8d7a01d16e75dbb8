// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/platform/rendezvous.hpp"

#include "store_rendezvous.hpp"

#include <utility>

namespace ferry {

std::vector<std::unique_ptr<rendezvous>> make_memory_rendezvous(int size) {
  FERRY_ASSERT(size > 0);
  const auto store = make_memory_store();
  std::vector<std::unique_ptr<rendezvous>> ends;
  for (int rank = 0; rank < size; ++rank)
    ends.push_back(std::make_unique<store_rendezvous>(store, rank, size));
  return ends;
}

result<std::unique_ptr<rendezvous>> join_rendezvous(std::shared_ptr<key_value_store> store,
                                                    int rank, int size, nanoseconds patience) {
  auto joined = std::make_unique<store_rendezvous>(std::move(store), rank, size);
  auto introduced = joined->introduce(patience);
  if (!introduced)
    return tl::unexpected(std::move(introduced.error()));
  return joined;
}

const_bytes as_contribution(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}

std::string as_text(const_bytes contribution) {
  return {reinterpret_cast<const char*>(contribution.data()), contribution.size()};
}

} // namespace ferry
