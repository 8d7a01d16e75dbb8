// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/host_weight_plan.hpp>

#include <memory>

namespace ferry::test {

/// A plan whose carrier holds an empty lease, and a count of how often that was closed.
class leased_plan {
public:
  leased_plan()
      : plan_{.backing = host_weight_backing::host_weight_runtime,
              .bindings = {},
              .source_prefixes = {"transformer."},
              .carrier = std::make_shared<lease_carrier>(
                  host_lease::open({}, {}, {{[count = closed_] { ++*count; }}, {}}).value())} {}

  [[nodiscard]] const host_weight_plan& plan() const noexcept { return plan_; }
  [[nodiscard]] int closed() const noexcept { return *closed_; }

private:
  std::shared_ptr<int> closed_ = std::make_shared<int>(0);
  host_weight_plan plan_;
};

} // namespace ferry::test
