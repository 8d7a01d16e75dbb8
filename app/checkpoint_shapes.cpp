// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint_shapes.hpp"

#include <map>
#include <numeric>
#include <string>

namespace ferry {

namespace {

using problem = std::optional<std::string>;

dtype type_of(const checkpoint_options& options) {
  static const std::map<std::string, dtype> all = {
      {"f32", dtype::f32}, {"bf16", dtype::bf16}, {"f16", dtype::f16}};
  return all.at(options.dtype);
}

tl::unexpected<failure> refuse(std::string detail) {
  return tl::unexpected(failure{.code = errc::invalid_argument, .detail = std::move(detail)});
}

problem check_heads(std::int64_t hidden, std::int64_t head_dim) {
  if (head_dim < 6 || head_dim % 2 != 0)
    return "--head-dim is " + std::to_string(head_dim) + "; expected an even number >= 6";
  if (hidden % head_dim != 0)
    return "--hidden is " + std::to_string(hidden) + "; expected a multiple of " +
           std::to_string(head_dim) + ", the width of a head; change --hidden or --head-dim";
  return std::nullopt;
}

problem check_vae(std::int64_t width) {
  if (width % 2 != 0)
    return "--vae-width is " + std::to_string(width) + "; expected an even number";
  return std::nullopt;
}

problem check_foreign(const char* option, const std::optional<std::int64_t>& value,
                      const std::string& family) {
  if (value)
    return std::string(option) + " is " + std::to_string(*value) +
           "; expected nothing, there is no such choice for " + family + "; leave it out";
  return std::nullopt;
}

template <class Shape>
result<Shape> preset_of(const std::map<std::string, Shape>& presets,
                        const checkpoint_options& options) {
  const auto found = presets.find(options.preset);
  if (found != presets.end())
    return found->second;
  std::string names;
  for (const auto& [name, shape] : presets)
    names += (names.empty() ? "" : ", ") + name;
  return refuse("--preset is '" + options.preset + "'; expected one of " + options.family + ": " +
                names);
}

/// A real pipeline's denoiser with a small encoder of the right width.
wan_shape real_wan(std::int64_t blocks, std::int64_t heads, std::int64_t ffn) {
  wan_shape shape;
  shape.blocks = blocks;
  shape.hidden = heads * shape.head_dim;
  shape.ffn = ffn;
  shape.text_hidden = 4096;
  shape.text_heads = 4;
  shape.text_ffn = 256;
  return shape;
}

/// The encoder of every Wan pipeline, UMT5-XXL.
void make_encoder_full(wan_shape& shape) {
  shape.text_blocks = 24;
  shape.text_hidden = 4096;
  shape.text_heads = 64;
  shape.text_ffn = 10240;
  shape.vocabulary = 256384;
}

/// The real denoiser with small encoders of the right widths.
flux_shape real_flux() {
  flux_shape shape;
  shape.double_blocks = 19;
  shape.single_blocks = 38;
  shape.hidden = 3072;
  shape.clip.hidden = 768;
  shape.clip.heads = 12;
  shape.clip.ffn = 256;
  shape.t5.hidden = 4096;
  shape.t5.heads = 4;
  shape.t5.ffn = 256;
  return shape;
}

/// The encoders of every FLUX pipeline, CLIP-L and T5-XXL.
void make_encoders_full(flux_shape& shape) {
  shape.clip = {.blocks = 12, .hidden = 768, .heads = 12, .ffn = 3072, .vocabulary = 49408};
  shape.t5 = {.blocks = 24, .hidden = 4096, .heads = 64, .ffn = 10240, .vocabulary = 32128};
}

} // namespace

result<wan_shape> wan_shape_of(const checkpoint_options& options) {
  static const std::map<std::string, wan_shape> presets = {
      {"small", wan_shape()},
      {"wan-1.3b", real_wan(30, 12, 8960)},
      {"wan-14b", real_wan(40, 40, 13824)},
  };
  auto chosen = preset_of(presets, options);
  if (!chosen)
    return chosen;
  auto& shape = *chosen;
  shape.type = type_of(options);
  if (options.full_encoder)
    make_encoder_full(shape);

  shape.blocks = options.blocks.value_or(shape.blocks);
  shape.head_dim = options.head_dim.value_or(shape.head_dim);
  if (options.hidden) {
    shape.hidden = *options.hidden;
    shape.ffn = 4 * shape.hidden;
  }
  shape.ffn = options.ffn.value_or(shape.ffn);
  shape.denoisers = options.denoisers.value_or(shape.denoisers);
  shape.text_blocks = options.text_blocks.value_or(shape.text_blocks);
  shape.text_hidden = options.text_hidden.value_or(shape.text_hidden);
  shape.vocabulary = options.vocabulary.value_or(shape.vocabulary);
  shape.vae.width = options.no_vae ? 0 : options.vae_width.value_or(shape.vae.width);

  for (const auto& found : {check_foreign("--single-blocks", options.single_blocks, options.family),
                            check_heads(shape.hidden, shape.head_dim), check_vae(shape.vae.width)})
    if (found)
      return refuse(*found);
  return chosen;
}

result<flux_shape> flux_shape_of(const checkpoint_options& options) {
  static const std::map<std::string, flux_shape> presets = {
      {"small", flux_shape()},
      {"flux-dev", real_flux()},
  };
  auto chosen = preset_of(presets, options);
  if (!chosen)
    return chosen;
  auto& shape = *chosen;
  shape.type = type_of(options);
  if (options.full_encoder)
    make_encoders_full(shape);

  if (options.blocks) {
    shape.double_blocks = *options.blocks;
    shape.single_blocks = 2 * shape.double_blocks;
  }
  shape.single_blocks = options.single_blocks.value_or(shape.single_blocks);
  shape.head_dim = options.head_dim.value_or(shape.head_dim);
  shape.hidden = options.hidden.value_or(shape.hidden);
  shape.t5.blocks = options.text_blocks.value_or(shape.t5.blocks);
  shape.t5.hidden = options.text_hidden.value_or(shape.t5.hidden);
  shape.t5.vocabulary = options.vocabulary.value_or(shape.t5.vocabulary);
  shape.clip.vocabulary = options.vocabulary.value_or(shape.clip.vocabulary);
  shape.vae.width = options.no_vae ? 0 : options.vae_width.value_or(shape.vae.width);
  constexpr std::int64_t most_groups = 32;
  shape.vae.groups = std::gcd(shape.vae.width, most_groups);

  for (const auto& found : {check_foreign("--ffn", options.ffn, options.family),
                            check_foreign("--denoisers", options.denoisers, options.family),
                            check_heads(shape.hidden, shape.head_dim), check_vae(shape.vae.width)})
    if (found)
      return refuse(*found);
  return chosen;
}

} // namespace ferry
