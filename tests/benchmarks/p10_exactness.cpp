// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

// P10: the bytes that come out of a pipeline are the same however its weights were moved.

#include <ferry/offload/config_legacy.hpp>
#include <ferry/offload/resident_weights.hpp>
#include <ferry/platform/open_device.hpp>
#include <ferry/platform/sim_device.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "bare_stack.hpp"
#include "goal.hpp"
#include "models/reference_run.hpp"
#include "models/wan_pipeline.hpp"
#include "sim_ranks.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace ferry::bench {

namespace {

std::vector<std::byte> bytes_of(const at::Tensor& tensor) {
  const auto flat = tensor.contiguous();
  const auto* first = static_cast<const std::byte*>(flat.const_data_ptr());
  return {first, first + flat.nbytes()};
}

std::vector<std::byte> output_of(const wan_pipeline& model, const request& asked) {
  return bytes_of(checked(model.run(asked, {})).latents);
}

/// Returns what comes out while `through` moves the weights.
std::vector<std::byte> output_through(runtime& through, const wan_pipeline& model,
                                      const request& asked, const offload_config& config) {
  checked(through.start());
  checked(through.enable(std::make_shared<torch_pipeline>(model.description()), config));
  checked(through.begin_request({.steps = static_cast<std::uint32_t>(asked.steps)}));
  auto output = output_of(model, asked);
  checked(through.end_request());
  checked(through.disable());
  return output;
}

std::vector<std::byte> streamed_output(const wan_pipeline& model, const request& asked,
                                       std::string_view device_name, std::string_view config,
                                       std::size_t slots) {
  const std::shared_ptr<device> target =
      checked(open_device(device_name, {.memory = std::nullopt, .model = ""}));
  runtime through(target, {.slots = slots});
  auto output = output_through(through, model, asked, checked(resolve_config(config, {})).config);
  const auto* sim = dynamic_cast<const sim_device*>(target.get());
  if (sim != nullptr && sim->race_count() > 0)
    throw ferry_error({.code = errc::internal, .detail = "the simulated device saw a race"});
  return output;
}

/// What each of several ranks puts out while they gather their blocks from each other.
std::vector<std::vector<std::byte>> gathered_outputs(const std::filesystem::path& checkpoint,
                                                     const request& asked, std::size_t ranks,
                                                     std::size_t chunk_bytes) {
  auto config = checked(resolve_config(R"({"mode":"layer","components":["dit","text_encoder"],
      "layer_options":{"dit":{"weight_transfer":"allgather"},
                       "text_encoder":{"weight_transfer":"allgather"}}})",
                                       {}))
                    .config;
  config.chunk_bytes = chunk_bytes;
  std::vector<wan_pipeline> models;
  for (std::size_t i = 0; i < ranks; ++i)
    models.push_back(checked(wan_pipeline::load(checkpoint)));
  std::vector<std::vector<std::byte>> outputs(ranks);
  on_every_rank(make_sim_ranks(ranks, {}), [&](std::size_t number, sim_rank own) {
    runtime through(own.gpu, {.ranks = std::move(own.group)});
    outputs[number] = output_through(through, models[number], asked, config);
  });
  return outputs;
}

/// In which ways the weights of which checkpoints are moved: all combinations.
struct variety {
  std::vector<const char*> checkpoints;
  std::vector<const char*> devices;
  std::vector<const char*> configs;
  std::vector<std::size_t> slots;
  std::vector<std::size_t> ranks;
  std::vector<std::size_t> chunk_bytes;
};

outcome compare(const variety& ways) {
  outcome result;
  std::size_t different = 0;
  for (const auto* name : ways.checkpoints) {
    const auto directory = std::filesystem::path(FERRY_TEST_DATA) / name;
    const auto model = checked(wan_pipeline::load(directory));
    const auto asked =
        checked(checked(reference_run::open(directory / "reference.safetensors")).inputs());
    const auto resident = [&] {
      torch_pipeline subject(model.description());
      const resident_weights everything(subject);
      return output_of(model, asked);
    }();
    for (const auto* target : ways.devices)
      for (const auto* config : ways.configs)
        for (const auto slots : ways.slots) {
          const bool same = streamed_output(model, asked, target, config, slots) == resident;
          different += same ? 0 : 1;
          result.cases.push_back({{"checkpoint", name},
                                  {"device", target},
                                  {"config", config},
                                  {"slots", slots},
                                  {"same_bytes", same}});
        }
    for (const auto ranks : ways.ranks)
      for (const auto chunk_bytes : ways.chunk_bytes) {
        const auto outputs = gathered_outputs(directory, asked, ranks, chunk_bytes);
        const bool same =
            std::ranges::all_of(outputs, [&](const auto& each) { return each == resident; });
        different += same ? 0 : 1;
        result.cases.push_back({{"checkpoint", name},
                                {"device", "sim"},
                                {"ranks", ranks},
                                {"chunk_bytes", chunk_bytes},
                                {"same_bytes", same}});
      }
  }
  result.met = different == 0;
  result.text = "exactness: " + std::to_string(different) + " of " +
                std::to_string(result.cases.size()) +
                " streamed runs differ from the resident one (target 0)";
  return result;
}

} // namespace

outcome measure_exactness() {
  return compare(
      {.checkpoints = {"wan-tiny", "wan-dual-tiny"},
       .devices = {"sim", "host"},
       .configs = {R"({"mode":"layer","components":["dit","text_encoder"]})",
                   R"({"mode":"layer","components":["dit","text_encoder"],"pin_memory":false})",
                   R"({"mode":"layer","components":["dit"]})"},
       .slots = {1, 2, 3},
       .ranks = {2, 3},
       .chunk_bytes = {std::size_t{64} << 20, 8192}});
}

outcome try_exactness() {
  return compare({.checkpoints = {"wan-tiny"},
                  .devices = {"host"},
                  .configs = {R"({"mode":"layer","components":["dit"]})"},
                  .slots = {2},
                  .ranks = {2},
                  .chunk_bytes = {8192}});
}

} // namespace ferry::bench
