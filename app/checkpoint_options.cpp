// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint_options.hpp"

#include <CLI/CLI.hpp>

#include <map>

namespace ferry {

namespace {

/// A real pipeline's denoiser with a small encoder of the right width.
wan_shape real_shape(std::int64_t blocks, std::int64_t heads, std::int64_t ffn) {
  wan_shape shape;
  shape.blocks = blocks;
  shape.hidden = heads * shape.head_dim;
  shape.ffn = ffn;
  shape.text_hidden = 4096;
  shape.text_heads = 4;
  shape.text_ffn = 256;
  return shape;
}

const std::map<std::string, wan_shape>& presets() {
  static const std::map<std::string, wan_shape> all = {
      {"small", wan_shape()},
      {"wan-1.3b", real_shape(30, 12, 8960)},
      {"wan-14b", real_shape(40, 40, 13824)},
  };
  return all;
}

/// The encoder of every Wan pipeline, UMT5-XXL.
void make_encoder_full(wan_shape& shape) {
  shape.text_blocks = 24;
  shape.text_hidden = 4096;
  shape.text_heads = 64;
  shape.text_ffn = 10240;
  shape.vocabulary = 256384;
}

const std::map<std::string, dtype>& dtypes() {
  static const std::map<std::string, dtype> all = {
      {"f32", dtype::f32}, {"bf16", dtype::bf16}, {"f16", dtype::f16}};
  return all;
}

tl::unexpected<failure> refuse(std::string detail) {
  return tl::unexpected(failure{.code = errc::invalid_argument, .detail = std::move(detail)});
}

} // namespace

void add_checkpoint_options(CLI::App& command, checkpoint_options& options) {
  command.add_option("FAMILY", options.family, "What kind of pipeline: wan")
      ->required()
      ->check(CLI::IsMember({"wan"}));
  command.add_option("DIRECTORY", options.directory, "Where to write it; new, or empty")
      ->required();
  command.add_option("--preset", options.preset, "The size to start from (small)")
      ->check(CLI::IsMember(presets()));
  command.add_flag("--full-encoder", options.full_encoder,
                   "Give the text encoder its real size, 11 GB in bf16 (small)");

  const auto number = [&](const char* name, std::optional<std::int64_t>& value, std::int64_t most,
                          const char* help) {
    command.add_option(name, value, help)->type_name("N")->check(CLI::Range(std::int64_t{1}, most));
  };
  constexpr std::int64_t widest = 65536;
  number("--blocks", options.blocks, 4096, "Blocks of a denoiser (8)");
  number("--hidden", options.hidden, widest, "Width of a denoiser, a multiple of --head-dim (256)");
  number("--head-dim", options.head_dim, 4096, "Width of an attention head, even, >= 6 (128)");
  number("--ffn", options.ffn, 4 * widest, "Width inside the feed-forward (4 x hidden)");
  number("--denoisers", options.denoisers, 2, "One denoiser, or one for each noise range (1)");
  number("--text-blocks", options.text_blocks, 4096, "Blocks of the text encoder (2)");
  number("--text-hidden", options.text_hidden, widest, "Width of the text encoder (64)");
  number("--vocabulary", options.vocabulary, 1 << 24, "Token ids that the encoder knows (256)");
  number("--vae-width", options.vae_width, 1024,
         "Width of the autoencoder's last stage, even; the real one has 96 (8)");
  command
      .add_flag("--no-vae", options.no_vae,
                "Leave the autoencoder out; a run then draws no pictures")
      ->excludes("--vae-width");

  command.add_option("--dtype", options.dtype, "Type of the weights (bf16)")
      ->check(CLI::IsMember(dtypes()));
  command.add_option("--seed", options.seed, "Seed of the weights (0)")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--shard-size", options.shard_size, "Most bytes in one file (10GB)")
      ->type_name("SIZE");
}

result<wan_shape> shape_of(const checkpoint_options& options) {
  auto shape = presets().at(options.preset);
  shape.type = dtypes().at(options.dtype);
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

  if (shape.vae.width % 2 != 0)
    return refuse("--vae-width is " + std::to_string(shape.vae.width) +
                  "; expected an even number");
  if (shape.head_dim < 6 || shape.head_dim % 2 != 0)
    return refuse("--head-dim is " + std::to_string(shape.head_dim) +
                  "; expected an even number >= 6");
  if (shape.hidden % shape.head_dim != 0)
    return refuse("--hidden is " + std::to_string(shape.hidden) + "; expected a multiple of " +
                  std::to_string(shape.head_dim) +
                  ", the width of a head; change --hidden or "
                  "--head-dim");
  return shape;
}

} // namespace ferry
