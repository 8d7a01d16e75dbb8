// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/loader_transforms.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ferry::test {

/// Adds one to every byte: done twice it shows.
class plus_one final : public weight_transform {
public:
  [[nodiscard]] std::string_view name() const override { return "plus one"; }
  void apply(const stored_tensor& source, mutable_bytes target) const override {
    std::ranges::transform(source.bytes, target.begin(), [](std::byte each) {
      return std::byte(std::to_integer<unsigned>(each) + 1);
    });
  }
};

/// Leaves that to be done to the tensors `names`.
[[nodiscard]] inline std::shared_ptr<loader_transforms>
plus_one_for(const std::vector<std::string>& names) {
  host_weight_plan plan;
  for (const auto& each : names)
    plan.bindings[each] = {
        .key = "stored." + each, .file = {}, .transform = std::make_shared<plus_one>()};
  return std::make_shared<loader_transforms>(plan);
}

} // namespace ferry::test
