// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/actors/runtime.hpp>
#include <ferry/platform/sim_device.hpp>

#include "models/diffusion_model.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ferry::test {

/// The small Wan pipeline of the test data, streamed on a simulated device.
struct streamed_tiny {
  explicit streamed_tiny(std::string_view config);

  std::unique_ptr<diffusion_model> model;
  std::shared_ptr<sim_device> device;
  runtime through;
};

/// A model that lets a test in on each run of another model, as its last step begins.
class watched_model final : public diffusion_model {
public:
  watched_model(const diffusion_model& inner, std::function<void(const request&)> watch)
      : inner_(inner), watch_(std::move(watch)) {}

  [[nodiscard]] torch_pipeline_description description() const override;
  [[nodiscard]] request defaults() const override;
  [[nodiscard]] std::optional<request> warm_up_request() const override;
  [[nodiscard]] std::map<std::string, std::size_t>
  passes_per_step(const request& asked) const override;
  [[nodiscard]] result<request> inputs_of(const reference_run& reference) const override;
  [[nodiscard]] result<void> check(const request& asked) const override;
  void run_together(std::span<grouped_request> group, const group_options& how) const override;

private:
  const diffusion_model& inner_;
  std::function<void(const request&)> watch_;
};

} // namespace ferry::test
