// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/block_list.hpp>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <span>
#include <vector>

namespace ferry {

/// Told what each block of a list returned, by its number. May be empty.
using block_observer = std::function<void(std::size_t index, const at::Tensor& hidden)>;

/// Asked before each block of a denoiser, numbered over all its lists, whether a pass leaves it
/// out: what would go in is then what comes out. May be empty.
using block_skip = std::function<bool(std::size_t index)>;

/// Runs `body` on behalf of `subject`, one of several that go on without it if that throws: why is
/// kept in `subject.failed`. Does nothing for one that has failed already.
template <class Subject, class Body>
void isolate(Subject& subject, const Body& body) {
  if (subject.failed) {
    return;
  }
  try {
    body();
  } catch (const std::exception&) {
    subject.failed = std::current_exception();
  }
}

/// Sends passes through `blocks`: block by block, and in each pass by pass, so that its weights
/// come once for all of them. A block that all passes leave out does not come.
///
/// A `Pass` has `failed`, as `isolate` wants it; `skips(index)`, a `block_skip`; and
/// `run(block, index)`, which calls the block through its hooks. `index` counts from `first`.
template <class Block, class Pass>
void run_blocks(const block_list<Block>& blocks, std::size_t first, std::span<Pass* const> passes) {
  std::vector<Pass*> here;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    here.clear();
    for (auto* pass : passes) {
      isolate(*pass, [&] {
        if (!pass->skips(first + i)) {
          here.push_back(pass);
        }
      });
    }
    if (here.empty()) {
      continue;
    }
    try {
      const auto held = blocks[i].hold();
      for (auto* pass : here) {
        isolate(*pass, [&] { pass->run(blocks[i], i); });
      }
    } catch (const std::exception&) { // The weights did not come: for none of them.
      for (auto* pass : here) {
        pass->failed = std::current_exception();
      }
    }
  }
}

} // namespace ferry
