// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/run_callbacks.hpp"

#include <utility>

namespace ferry {

void tell_stage(const run_callbacks& tell, std::string_view name, const at::Tensor& value) {
  if (tell.stage) {
    tell.stage(name, value);
  }
}

std::string numbered(std::string_view stage, std::size_t index) {
  std::string name{stage};
  name.append(".").append(std::to_string(index));
  return name;
}

block_skip skipped_blocks(const run_callbacks& tell, std::size_t step) {
  if (!tell.skips_block) {
    return {};
  }
  return [&tell, step](std::size_t block) { return tell.skips_block(step, block); };
}

block_observer block_stages(const run_callbacks& tell, std::string list) {
  if (!tell.stage) {
    return {};
  }
  return [&tell, list = std::move(list)](std::size_t index, const at::Tensor& hidden) {
    tell.stage(numbered(list, index) + ".0", hidden);
  };
}

} // namespace ferry
