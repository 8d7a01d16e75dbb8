// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "tiny_pipeline.hpp"

#include <ferry/offload/config_legacy.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "models/load_model.hpp"

#include <filesystem>

namespace ferry::test {

namespace {

void must(const result<void>& done) {
  if (!done)
    throw ferry_error(done.error());
}

} // namespace

streamed_tiny::streamed_tiny(std::string_view config)
    : model(load_model(std::filesystem::path(FERRY_TEST_DATA) / "wan-tiny").value()),
      device(std::make_shared<sim_device>(sim_options())), through(device, {}) {
  must(through.start());
  must(through.enable(std::make_shared<torch_pipeline>(model->description()),
                      resolve_config(config, {}).value().config));
}

torch_pipeline_description watched_model::description() const {
  return inner_.description();
}

request watched_model::defaults() const {
  return inner_.defaults();
}

std::optional<request> watched_model::warm_up_request() const {
  return inner_.warm_up_request();
}

result<request> watched_model::inputs_of(const reference_run& reference) const {
  return inner_.inputs_of(reference);
}

result<void> watched_model::check(const request& asked) const {
  return inner_.check(asked);
}

std::map<std::string, std::size_t> watched_model::passes_per_step(const request& asked) const {
  return inner_.passes_per_step(asked);
}

void watched_model::run_together(std::span<grouped_request> group, const group_options& how) const {
  for (auto& each : group) {
    each.tell.step_begins = [this, tell = each.tell, &asked = each.asked](std::size_t index,
                                                                          std::size_t steps) {
      if (tell.step_begins)
        tell.step_begins(index, steps);
      if (index + 1 == steps)
        watch_(asked);
    };
  }
  inner_.run_together(group, how);
}

} // namespace ferry::test
