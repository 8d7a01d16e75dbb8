// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/offload/safetensors_writer.hpp>

#include "wan_vae_checkpoint.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace ferry {

/// The size of a Wan text-to-video pipeline. The names are those of the command line.
struct wan_shape {
  std::int64_t blocks = 8;
  std::int64_t hidden = 256; ///< A multiple of `head_dim`.
  std::int64_t head_dim = 128;
  std::int64_t ffn = 1024;
  std::int64_t denoisers = 1; ///< With 2, the second takes over below 0.875 of the noise.

  std::int64_t text_blocks = 2;
  std::int64_t text_hidden = 64;
  std::int64_t text_head_dim = 64;
  std::int64_t text_heads = 1;
  std::int64_t text_ffn = 128;
  std::int64_t vocabulary = 256;

  wan_vae_shape vae;
  dtype type = dtype::bf16;

  friend bool operator==(const wan_shape&, const wan_shape&) = default;
};

[[nodiscard]] std::vector<tensor_declaration> wan_denoiser_tensors(const wan_shape& shape);
[[nodiscard]] std::vector<tensor_declaration> wan_encoder_tensors(const wan_shape& shape);

/// Returns the bytes of all weights together.
[[nodiscard]] std::uint64_t weight_bytes(const wan_shape& shape);

/// Writes a pipeline directory with seeded random weights, in the layout that diffusers saves.
/// `model_index.json` comes last: until then the directory is no pipeline.
///
/// `progress` is called with the number of bytes written since the last call; what it throws ends
/// the writing.
/// @pre `directory` exists and is empty
/// @throws ferry_error `io_failure`; what was written stays
void write_wan_checkpoint(const std::filesystem::path& directory, const wan_shape& shape,
                          std::uint64_t seed, std::uint64_t most_bytes_per_file,
                          const std::function<void(std::uint64_t)>& progress);

} // namespace ferry
