// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/flux_transformer.hpp"

#include "models/rotary.hpp"
#include "models/timestep_code.hpp"

#include <ATen/ATen.h>

#include <string>

namespace ferry {
namespace {

template <class Block>
std::shared_ptr<block_list<Block>> add_blocks(torch::nn::Module& parent, const weights& source,
                                              std::string_view path, std::int64_t count,
                                              const flux_config& config) {
  auto blocks = std::make_shared<block_list<Block>>();
  for (std::int64_t i = 0; i < count; ++i) {
    blocks->push_back(std::make_shared<Block>(source.child(path).child(std::to_string(i)), config));
  }
  attach(parent, path, blocks);
  return blocks;
}

} // namespace

flux_embedder::flux_embedder(const weights& source, std::int64_t inputs, std::int64_t width)
    : in_{add_layer<linear>(*this, source, "linear_1", inputs, width, bias::present)},
      out_{add_layer<linear>(*this, source, "linear_2", width, width, bias::present)} {}

at::Tensor flux_embedder::forward(const at::Tensor& input) const {
  return out_->forward(at::silu(in_->forward(input)));
}

flux_transformer::flux_transformer(const weights& source, const flux_config& config)
    : config_{config} {
  const auto width = config.width();
  const auto layer = [&](std::string_view path, std::int64_t in, std::int64_t out) {
    return add_layer<linear>(*this, source, path, in, out, bias::present);
  };
  const auto embedder = [&](std::string_view path, std::int64_t in) {
    return add_layer<flux_embedder>(*this, source, path, in, width);
  };
  image_in_ = layer("x_embedder", config.in_channels, width);
  text_in_ = layer("context_embedder", config.text_width, width);
  time_ = embedder("time_text_embed.timestep_embedder", flux_config::frequencies);
  if (config.guidance) {
    guidance_ = embedder("time_text_embed.guidance_embedder", flux_config::frequencies);
  }
  pooled_ = embedder("time_text_embed.text_embedder", config.pooled_width);
  double_blocks_ = add_blocks<flux_double_block>(*this, source, "transformer_blocks",
                                                 config.double_blocks, config);
  single_blocks_ = add_blocks<flux_single_block>(*this, source, "single_transformer_blocks",
                                                 config.single_blocks, config);
  modulation_ = layer("norm_out.linear", width, 2 * width);
  projection_ = layer("proj_out", width, config.out_channels);
}

at::Tensor flux_transformer::conditioning(const flux_input& asked) const {
  const auto where = asked.image.device();
  auto sum = time_->forward(timestep_code(asked.timestep, flux_config::frequencies, where));
  if (guidance_) {
    constexpr double per_unit = 1000.0;
    sum = sum + guidance_->forward(
                    timestep_code(asked.guidance * per_unit, flux_config::frequencies, where));
  }
  return sum + pooled_->forward(asked.pooled);
}

// A text token has the position (0, 0, 0), one of the image (0, row, column).
at::Tensor flux_transformer::turns(const flux_input& asked) const {
  const auto [rows, columns] = asked.grid;
  const auto whole = asked.text.options().dtype(at::kLong);
  const auto text = at::zeros({asked.text.size(1)}, whole);
  const auto row = at::arange(rows, whole).repeat_interleave(columns);
  const auto column = at::arange(columns, whole).repeat({rows});
  const auto positions = {at::zeros_like(row), row, column};
  std::vector<at::Tensor> axes;
  for (std::size_t axis = 0; const auto& image : positions) {
    axes.push_back(axis_turns(at::cat({text, image}), config_.rotary_channels[axis++]));
  }
  return at::cat(axes, -1).unsqueeze(1).unsqueeze(0);
}

void flux_transformer::passing::run(const block_ref<flux_double_block>& block, std::size_t index) {
  tokens = block(tokens, conditioning, rotary);
  if (told->double_block) {
    told->double_block(index, tokens);
  }
}

void flux_transformer::passing::run(const block_ref<flux_single_block>& block, std::size_t index) {
  tokens = block(tokens, conditioning, rotary);
  if (told->single_block) {
    told->single_block(index, tokens);
  }
}

at::Tensor flux_transformer::forward(const flux_input& asked, const flux_watch& told) const {
  return run_alone(*this, asked, told);
}

flux_transformer::passing flux_transformer::begin(const flux_input& asked,
                                                  const flux_watch& told) const {
  return {.tokens = {text_in_->forward(asked.text), image_in_->forward(asked.image)},
          .conditioning = conditioning(asked),
          .rotary = turns(asked),
          .told = &told};
}

void flux_transformer::run(std::span<passing* const> passes) const {
  run_blocks(*double_blocks_, 0, passes);
  run_blocks(*single_blocks_, double_blocks_->size(), passes);
}

at::Tensor flux_transformer::end(const passing& pass) const {
  const auto m = modulation_->forward(at::silu(pass.conditioning)).unsqueeze(1).chunk(2, -1);
  const auto normed =
      at::layer_norm(pass.tokens.image, {config_.width()}, {}, {}, flux_config::epsilon);
  return projection_->forward(at::addcmul(m[1], normed, m[0] + 1));
}

} // namespace ferry
