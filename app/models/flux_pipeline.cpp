// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/flux_pipeline.hpp"

#include <ferry/torch/call.hpp>

#include "models/clip_encoder.hpp"
#include "models/denoiser_pass.hpp"
#include "models/flux_transformer.hpp"
#include "models/image_decoder.hpp"
#include "models/t5_encoder.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <utility>
#include <vector>

namespace ferry {
namespace {

at::Tensor row(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong).unsqueeze(0);
}

flux_observer blocks_to(const run_callbacks& tell, std::string list) {
  if (!tell.stage) {
    return {};
  }
  return [&tell, list = std::move(list)](std::size_t index, const flux_tokens& tokens) {
    const auto name = numbered(list, index);
    tell.stage(name + ".0", tokens.text);
    tell.stage(name + ".1", tokens.image);
  };
}

} // namespace

torch_pipeline_description flux_pipeline::description() const {
  std::vector<torch_component> components{
      {"text_encoder", clip_}, {"text_encoder_2", t5_}, {"transformer", transformer_}};
  component_roles roles;
  roles.encoders = {"text_encoder", "text_encoder_2"};
  roles.dits = {"transformer"};
  if (decoder_) {
    components.push_back({"vae", decoder_});
    roles.vaes = {"vae"};
  }
  offload_plan plan;
  plan.block_attrs["transformer"] = {"transformer_blocks", "single_transformer_blocks"};
  plan.resident_dit_paths = {"transformer"};
  plan.encoder_block_attrs = {{"text_encoder", {"encoder.layers"}},
                              {"text_encoder_2", {"encoder.block"}}};
  plan.encoder_component_types = {{"text_encoder", "text_encoder"},
                                  {"text_encoder_2", "text_encoder"}};
  plan.encoder_dlo_weight_replication = {"text_encoder", "text_encoder_2"};
  return {.type_name = "ferry::flux_pipeline",
          .components = std::move(components),
          .roles = std::move(roles),
          .plan = std::move(plan),
          .compute_device = computes_on()};
}

request flux_pipeline::defaults() const {
  request asked;
  asked.positive.ids = {5, 17, 9, 33};
  asked.guidance = 3.5;
  asked.frames = 1;
  return asked;
}

std::optional<request> flux_pipeline::warm_up_request() const {
  auto asked = defaults();
  asked.positive.ids = {0};
  asked.steps = 1;
  asked.width = limits_.pixels_per_token();
  asked.height = limits_.pixels_per_token();
  return asked;
}

result<request> flux_pipeline::inputs_of(const reference_run& reference) const {
  return read_flux_request(reference, limits_);
}

result<void> flux_pipeline::check(const request& asked) const {
  return validate(asked, limits_);
}

flux_pipeline::encoded flux_pipeline::encode(const request& asked,
                                             const run_callbacks& tell) const {
  const auto clip = call(*clip_, row(asked.positive.ids).to(computes_on()));
  tell_stage(tell, "clip_hidden", clip.hidden);
  tell_stage(tell, "pooled_prompt_embeds", clip.pooled);
  const auto ids = row(second_prompt(asked).ids).to(computes_on());
  auto text = call(*t5_, ids, at::ones_like(ids), block_stages(tell, "encoder_block"));
  tell_stage(tell, "prompt_embeds", text);
  return {std::move(text), clip.pooled};
}

/// A request on its way through the steps.
struct flux_pipeline::member {
  grouped_request* of;
  flow_match_euler schedule;
  flux_input input;
};

flux_pipeline::member flux_pipeline::begin(grouped_request& of) const {
  const auto& asked = of.asked;
  const auto& tell = of.tell;
  auto prompt = encode(asked, tell);
  const auto grid = token_grid(asked, limits_);
  member made{.of = &of,
              .schedule = flow_match_euler(schedule_, static_cast<std::size_t>(asked.steps),
                                           grid[0] * grid[1]),
              .input = {.image = starting_latents(asked, limits_).to(computes_on()),
                        .text = std::move(prompt.text),
                        .pooled = std::move(prompt.pooled),
                        .grid = grid,
                        .guidance = asked.guidance}};
  tell_stage(tell, "timesteps", at::tensor(made.schedule.timesteps()));
  tell_stage(tell, "sigmas", at::tensor(made.schedule.sigmas()));
  return made;
}

void flux_pipeline::step(std::size_t index, std::span<member* const> members,
                         std::size_t most_passes) const {
  std::vector<denoiser_pass<flux_transformer>> passes;
  for (auto* each : members) {
    const auto& tell = each->of->tell;
    each->input.timestep = each->schedule.timesteps()[index];
    auto& pass = passes.emplace_back();
    pass.asked = each->input;
    pass.watch.skips = skipped_blocks(tell, index);
    if (index == 0) {
      pass.watch.double_block = blocks_to(tell, "double_block");
      pass.watch.single_block = blocks_to(tell, "single_block");
    }
  }
  run_passes(*transformer_, std::span(passes), most_passes);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    auto& each = *members[i];
    const auto& tell = each.of->tell;
    each.of->failed = passes[i].failed;
    isolate(*each.of, [&] {
      tell_stage(tell, numbered("noise", index), passes[i].velocity);
      each.input.image = each.schedule.step(index, passes[i].velocity, each.input.image);
      tell_stage(tell, numbered("latents", index), each.input.image);
    });
  }
}

at::Tensor flux_pipeline::decode(const at::Tensor& latents, const request& asked,
                                 const run_callbacks& tell) const {
  if (!decoder_) {
    return {};
  }
  const auto scaled =
      unpack_latents(latents, token_grid(asked, limits_)) / scaling_factor_ + shift_factor_;
  tell_stage(tell, "vae_input", scaled);
  auto image = call_method(*decoder_, "decode", &image_decoder::decode, scaled);
  tell_stage(tell, "image", image);
  return image.clamp_(-1, 1);
}

void flux_pipeline::run_together(std::span<grouped_request> group, const group_options& how) const {
  const c10::InferenceMode no_gradients;
  auto members = begin_members(
      group, [this](const request& asked) { return check(asked); },
      [this](grouped_request& each) { return begin(each); });
  run_steps(members, how, [&](std::size_t index, std::span<member* const> here) {
    step(index, here, how.passes_per_fetch);
  });
  for (auto& each : members) {
    isolate(*each.of, [&] {
      auto pictures = decode(each.input.image, each.of->asked, each.of->tell);
      if (pictures.defined()) {
        pictures = pictures.cpu();
      }
      each.of->made = generated{.latents = each.input.image.cpu(), .pictures = std::move(pictures)};
    });
  }
}

} // namespace ferry
