// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/block_list.hpp>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <utility>

namespace ferry {

/// Told what each block of a list returned, by its number. May be empty.
using block_observer = std::function<void(std::size_t index, const at::Tensor& hidden)>;

/// Sends `hidden` through `blocks` in order, each called through its hooks with `more` as well.
template <class Block, class... More>
at::Tensor run_blocks(const block_list<Block>& blocks, at::Tensor hidden,
                      const block_observer& observe, const More&... more) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    hidden = blocks[i](hidden, more...);
    if (observe) {
      observe(i, hidden);
    }
  }
  return hidden;
}

} // namespace ferry
