// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/wan_pipeline.hpp"

#include <ferry/torch/call.hpp>

#include "models/denoiser_pass.hpp"
#include "models/t5_encoder.hpp"
#include "models/wan_decoder.hpp"
#include "models/wan_transformer.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <utility>
#include <vector>

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

/// A request on its way through the steps.
struct wan_pipeline::member {
  grouped_request* of;
  flow_match_euler schedule;
  at::Tensor text;
  at::Tensor negative_text = {};
  at::Tensor latents = {};
  at::Tensor velocity = {}; ///< Of the step that runs.
  at::Tensor unguided = {}; ///< The same of the negative prompt.
  const wan_transformer* previous = nullptr;
};

wan_pipeline::member wan_pipeline::begin(grouped_request& of) const {
  const auto& asked = of.asked;
  const auto& tell = of.tell;
  member made{.of = &of,
              .schedule = flow_match_euler(schedule_, static_cast<std::size_t>(asked.steps)),
              .text = encode(asked.positive, block_stages(tell, "encoder_block"))};
  tell_stage(tell, "prompt_embeds", made.text);
  if (guided(asked)) {
    made.negative_text = encode(asked.negative, {});
    tell_stage(tell, "negative_prompt_embeds", made.negative_text);
  }
  tell_stage(tell, "timesteps", at::tensor(made.schedule.timesteps()));
  tell_stage(tell, "sigmas", at::tensor(made.schedule.sigmas()));
  made.latents = starting_latents(asked, limits_).to(computes_on());
  return made;
}

const wan_transformer& wan_pipeline::denoiser_of(const member& each, std::size_t step) const {
  const bool low_noise = boundary_ && each.schedule.timesteps()[step] < *boundary_;
  return low_noise ? *transformer_2_ : *transformer_;
}

void wan_pipeline::run_passes_of(const wan_transformer& denoiser, std::size_t index,
                                 std::span<member* const> members, std::size_t most) const {
  std::vector<denoiser_pass<wan_transformer>> passes;
  std::vector<std::pair<member*, at::Tensor member::*>> results;
  const auto add = [&](member* each, const at::Tensor& text, block_observer observe,
                       at::Tensor member::* into) {
    passes.push_back({.asked = {each->latents, each->schedule.timesteps()[index], text},
                      .watch = {std::move(observe), skipped_blocks(each->of->tell, index)}});
    results.emplace_back(each, into);
  };
  for (auto* each : members) {
    if (&denoiser_of(*each, index) != &denoiser) {
      continue;
    }
    const auto* list =
        &denoiser == transformer_2_.get() ? "transformer_2_block" : "transformer_block";
    add(each, each->text,
        each->previous == &denoiser ? block_observer{} : block_stages(each->of->tell, list),
        &member::velocity);
    each->previous = &denoiser;
    if (guided(each->of->asked)) {
      add(each, each->negative_text, {}, &member::unguided);
    }
  }
  run_passes(denoiser, std::span(passes), most);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    auto& [each, into] = results[i];
    each->*into = std::move(passes[i].velocity);
    if (!each->of->failed) {
      each->of->failed = passes[i].failed;
    }
  }
}

void wan_pipeline::step(std::size_t index, std::span<member* const> members,
                        std::size_t most_passes) const {
  run_passes_of(*transformer_, index, members, most_passes);
  if (transformer_2_) {
    run_passes_of(*transformer_2_, index, members, most_passes);
  }
  for (auto* each : members) {
    isolate(*each->of, [&] {
      const auto& tell = each->of->tell;
      tell_stage(tell, numbered("noise", index), each->velocity);
      if (guided(each->of->asked)) {
        tell_stage(tell, numbered("noise_uncond", index), each->unguided);
        each->velocity =
            each->unguided + (each->velocity - each->unguided) * each->of->asked.guidance;
      }
      each->latents = each->schedule.step(index, each->velocity, each->latents);
      tell_stage(tell, numbered("latents", index), each->latents);
    });
  }
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

void wan_pipeline::run_together(std::span<grouped_request> group, const group_options& how) const {
  const c10::InferenceMode no_gradients;
  auto members = begin_members(
      group, [this](const request& asked) { return check(asked); },
      [this](grouped_request& each) { return begin(each); });
  run_steps(members, how, [&](std::size_t index, std::span<member* const> here) {
    step(index, here, how.passes_per_fetch);
  });
  for (auto& each : members) {
    isolate(*each.of, [&] {
      generated made;
      if (decoder_) {
        made.pictures = draw(each.latents, each.of->tell).cpu();
      }
      made.latents = each.latents.cpu();
      each.of->made = std::move(made);
    });
  }
}

} // namespace ferry
