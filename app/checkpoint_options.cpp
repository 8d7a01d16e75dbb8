// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint_options.hpp"

#include "checkpoint_shapes.hpp"
#include "option_checks.hpp"

#include <CLI/CLI.hpp>

namespace ferry {

void add_checkpoint_options(CLI::App& command, checkpoint_options& options) {
  command.add_option("FAMILY", options.family, "What kind of pipeline: flux or wan")
      ->required()
      ->check(CLI::IsMember({"flux", "wan"}));
  command.add_option("DIRECTORY", options.directory, "Where to write it; new, or empty")
      ->required();
  command.add_option("--preset", options.preset, "The size to start from (small)")
      ->check(CLI::IsMember({"small", "flux-dev", "wan-1.3b", "wan-14b"}));
  command.add_flag(
      "--full-encoder", options.full_encoder,
      "Give text encoders their real size, in bf16 11 GB (wan) or 10 GB (flux) (small)");

  const auto number = [&](const char* name, std::optional<std::int64_t>& value, std::int64_t most,
                          const char* help) {
    command.add_option(name, value, help)->type_name("N")->check(CLI::Range(std::int64_t{1}, most));
  };
  constexpr std::int64_t widest = 65536;
  number("--blocks", options.blocks, 4096,
         "Blocks of a denoiser; of flux, double blocks (wan: 8, flux: 3)");
  number("--single-blocks", options.single_blocks, 4096,
         "Single blocks of a flux denoiser (2 x blocks)");
  number("--hidden", options.hidden, widest, "Width of a denoiser, a multiple of --head-dim (256)");
  number("--head-dim", options.head_dim, 4096, "Width of an attention head, even, >= 6 (128)");
  number("--ffn", options.ffn, 4 * widest, "Width inside the feed-forward, wan only (4 x hidden)");
  number("--denoisers", options.denoisers, 2,
         "One denoiser, or one for each noise range, wan only (1)");
  number("--text-blocks", options.text_blocks, 4096, "Blocks of the T5 encoder (2)");
  number("--text-hidden", options.text_hidden, widest, "Width of the T5 encoder (64)");
  number("--vocabulary", options.vocabulary, 1 << 24, "Token ids that each encoder knows (256)");
  number("--vae-width", options.vae_width, 1024,
         "Width of the autoencoder's last stage, even; real ones have 96 (wan), 128 (flux) (8)");
  command
      .add_flag("--no-vae", options.no_vae,
                "Leave the autoencoder out; a run then draws no pictures")
      ->excludes("--vae-width");

  command.add_option("--dtype", options.dtype, "Type of the weights (bf16)")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  command.add_option("--seed", options.seed, "Seed of the weights (0)")
      ->type_name("N")
      ->check(check_seed);
  command
      .add_option("--shard-size", options.shard_size, "Most bytes in one file, at least 4kB (10GB)")
      ->type_name("SIZE");
}

result<checkpoint_plan> plan_of(const checkpoint_options& options) {
  const auto plan = [](const auto& shape) { return plan_checkpoint(shape); };
  return options.family == "flux" ? flux_shape_of(options).map(plan)
                                  : wan_shape_of(options).map(plan);
}

} // namespace ferry
