// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/wan_pipeline.hpp"

#include <ferry/torch/call.hpp>

#include "models/t5_encoder.hpp"
#include "models/wan_decoder.hpp"
#include "models/wan_transformer.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

namespace ferry {
namespace {

at::Tensor row(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong).unsqueeze(0);
}

at::Tensor mask_of(const prompt& text) {
  return text.mask.empty() ? at::ones({1, static_cast<std::int64_t>(text.ids.size())}, at::kLong)
                           : row(text.mask);
}

bool guided(const request& asked) {
  return asked.guidance > 1;
}

} // namespace

torch_pipeline_description wan_pipeline::description() const {
  std::vector<torch_component> components{{"text_encoder", encoder_},
                                          {"transformer", transformer_}};
  component_roles roles;
  roles.encoders = {"text_encoder"};
  roles.dits = {"transformer"};
  if (transformer_2_) {
    components.push_back({"transformer_2", transformer_2_});
    roles.dits.emplace_back("transformer_2");
  }
  if (decoder_) {
    components.push_back({"vae", decoder_});
    roles.vaes = {"vae"};
  }
  offload_plan plan;
  for (const auto& dit : roles.dits) {
    plan.block_attrs[dit] = {"blocks"};
    plan.resident_dit_paths.insert(dit);
  }
  plan.encoder_block_attrs["text_encoder"] = {"encoder.block"};
  plan.encoder_component_types["text_encoder"] = "text_encoder";
  plan.encoder_dlo_weight_replication = {"text_encoder"};
  return {.type_name = "ferry::wan_pipeline",
          .components = std::move(components),
          .roles = std::move(roles),
          .plan = std::move(plan),
          .compute_device = computes_on()};
}

at::Tensor wan_pipeline::encode(const prompt& text, const block_observer& observe) const {
  const auto mask = mask_of(text).to(computes_on());
  const auto hidden = call(*encoder_, row(text.ids).to(computes_on()), mask, observe);
  return hidden * mask.unsqueeze(-1).to(hidden.scalar_type());
}

at::Tensor wan_pipeline::denoise(const request& asked, const at::Tensor& text,
                                 const at::Tensor& negative_text, const run_callbacks& tell) const {
  const flow_match_euler schedule{schedule_, static_cast<std::size_t>(asked.steps)};
  tell_stage(tell, "timesteps", at::tensor(schedule.timesteps()));
  tell_stage(tell, "sigmas", at::tensor(schedule.sigmas()));
  auto latents = starting_latents(asked, limits_).to(computes_on());
  const wan_transformer* previous = nullptr;
  for (std::size_t i = 0; i < schedule.steps(); ++i) {
    if (tell.step_begins) {
      tell.step_begins(i, schedule.steps());
    }
    const double timestep = schedule.timesteps()[i];
    const bool low_noise = boundary_ && timestep < *boundary_;
    const auto& denoiser = low_noise ? *transformer_2_ : *transformer_;
    const auto observe = &denoiser == previous ? block_observer{}
                         : low_noise           ? block_stages(tell, "transformer_2_block")
                                               : block_stages(tell, "transformer_block");
    previous = &denoiser;

    auto velocity = call(denoiser, latents, timestep, text, observe);
    tell_stage(tell, numbered("noise", i), velocity);
    if (guided(asked)) {
      const auto unguided = call(denoiser, latents, timestep, negative_text, block_observer{});
      tell_stage(tell, numbered("noise_uncond", i), unguided);
      velocity = unguided + (velocity - unguided) * asked.guidance;
    }
    latents = schedule.step(i, velocity, latents);
    tell_stage(tell, numbered("latents", i), latents);
    if (tell.step_ended) {
      tell.step_ended(i, schedule.steps());
    }
  }
  return latents;
}

at::Tensor wan_pipeline::draw(const at::Tensor& latents, const run_callbacks& tell) const {
  const auto scaled = decoder_->scaled(latents);
  tell_stage(tell, "vae_input", scaled);
  auto pictures = call_method(*decoder_, "decode", &wan_decoder::decode, scaled);
  tell_stage(tell, "frames", pictures.transpose(0, 1).unsqueeze(0));
  return pictures;
}

std::map<std::string, std::size_t> wan_pipeline::passes_per_step(const request& asked) const {
  const std::size_t passes = guided(asked) ? 2 : 1;
  std::map<std::string, std::size_t> all{{"transformer", passes}};
  if (transformer_2_)
    all.emplace("transformer_2", passes);
  return all;
}

request wan_pipeline::defaults() const {
  request asked;
  asked.positive.ids = {5, 17, 9, 33};
  asked.negative.ids = {1};
  return asked;
}

std::optional<request> wan_pipeline::warm_up_request() const {
  auto asked = smallest_request(limits_);
  const auto reaches_low_noise = [&] {
    const flow_match_euler schedule{schedule_, static_cast<std::size_t>(asked.steps)};
    return schedule.timesteps().back() < *boundary_;
  };
  while (boundary_ && asked.steps < max_steps && !reaches_low_noise()) {
    ++asked.steps;
  }
  return asked;
}

result<request> wan_pipeline::inputs_of(const reference_run& reference) const {
  return reference.inputs();
}

result<void> wan_pipeline::check(const request& asked) const {
  return validate(asked, limits_);
}

result<generated> wan_pipeline::run(const request& asked, const run_callbacks& tell) const {
  if (auto valid = check(asked); !valid) {
    return tl::unexpected{valid.error()};
  }
  const c10::InferenceMode no_gradients;
  const auto text = encode(asked.positive, block_stages(tell, "encoder_block"));
  tell_stage(tell, "prompt_embeds", text);
  at::Tensor negative_text;
  if (guided(asked)) {
    negative_text = encode(asked.negative, {});
    tell_stage(tell, "negative_prompt_embeds", negative_text);
  }
  generated made;
  const auto latents = denoise(asked, text, negative_text, tell);
  if (decoder_) {
    made.pictures = draw(latents, tell).cpu();
  }
  made.latents = latents.cpu();
  return made;
}

} // namespace ferry
