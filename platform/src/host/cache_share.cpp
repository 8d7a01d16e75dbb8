// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "host/cache_share.hpp"

namespace ferry {

bool cache_share::keeps(const_bytes piece) {
  const auto lock = std::scoped_lock(mutex_);
  if (!room_ || kept_.contains(piece.data()))
    return true;
  if (seen_.insert(piece.data()).second || piece.size() > *room_)
    return false;
  *room_ -= piece.size();
  kept_.insert(piece.data());
  return true;
}

} // namespace ferry
