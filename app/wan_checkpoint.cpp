// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "wan_checkpoint.hpp"

#include <ferry/offload/checkpoint_writer.hpp>
#include <ferry/platform/error.hpp>

#include "random_weights.hpp"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

namespace ferry {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t channels = 16;
constexpr std::int64_t frequencies = 256;
constexpr std::int64_t patch = 4; // 1 x 2 x 2
constexpr std::int64_t distance_buckets = 32;
constexpr std::string_view diffusers_version = "0.42.1";

/// Collects the tensors of a component, in the order in which they run.
class tensor_list {
public:
  explicit tensor_list(dtype type) : type_(type) {}

  void add(const std::string& name, std::vector<std::int64_t> shape) {
    tensors_.push_back({.name = name, .type = type_, .shape = std::move(shape)});
  }

  void linear(const std::string& path, std::int64_t in, std::int64_t out) {
    add(path + ".weight", {out, in});
    add(path + ".bias", {out});
  }

  void attention(const std::string& path, std::int64_t width) {
    for (const auto* layer : {"to_q", "to_k", "to_v", "to_out.0"})
      linear(path + "." + layer, width, width);
    add(path + ".norm_q.weight", {width});
    add(path + ".norm_k.weight", {width});
  }

  [[nodiscard]] std::vector<tensor_declaration> take() { return std::move(tensors_); }

private:
  dtype type_;
  std::vector<tensor_declaration> tensors_;
};

std::string torch_name(dtype type) {
  return type == dtype::f32 ? "float32" : type == dtype::bf16 ? "bfloat16" : "float16";
}

json denoiser_config(const wan_shape& shape) {
  return {{"_class_name", "WanTransformer3DModel"},
          {"_diffusers_version", diffusers_version},
          {"added_kv_proj_dim", nullptr},
          {"attention_head_dim", shape.head_dim},
          {"cross_attn_norm", true},
          {"eps", 1e-6},
          {"ffn_dim", shape.ffn},
          {"freq_dim", frequencies},
          {"image_dim", nullptr},
          {"in_channels", channels},
          {"num_attention_heads", shape.hidden / shape.head_dim},
          {"num_layers", shape.blocks},
          {"out_channels", channels},
          {"patch_size", {1, 2, 2}},
          {"pos_embed_seq_len", nullptr},
          {"qk_norm", "rms_norm_across_heads"},
          {"rope_max_seq_len", 1024},
          {"text_dim", shape.text_hidden}};
}

json encoder_config(const wan_shape& shape) {
  return {{"architectures", json::array({"UMT5EncoderModel"})},
          {"classifier_dropout", 0.0},
          {"d_ff", shape.text_ffn},
          {"d_kv", shape.text_head_dim},
          {"d_model", shape.text_hidden},
          {"decoder_start_token_id", 0},
          {"dense_act_fn", "gelu_new"},
          {"dropout_rate", 0.0},
          {"dtype", torch_name(shape.type)},
          {"eos_token_id", 1},
          {"feed_forward_proj", "gated-gelu"},
          {"initializer_factor", 1.0},
          {"is_decoder", false},
          {"is_encoder_decoder", true},
          {"is_gated_act", true},
          {"layer_norm_epsilon", 1e-6},
          {"model_type", "umt5"},
          {"num_decoder_layers", shape.text_blocks},
          {"num_heads", shape.text_heads},
          {"num_layers", shape.text_blocks},
          {"pad_token_id", 0},
          {"relative_attention_max_distance", 128},
          {"relative_attention_num_buckets", distance_buckets},
          {"scale_decoder_outputs", true},
          {"tie_word_embeddings", true},
          {"use_cache", true},
          {"vocab_size", shape.vocabulary}};
}

json scheduler_config() {
  return {{"_class_name", "FlowMatchEulerDiscreteScheduler"},
          {"_diffusers_version", diffusers_version},
          {"base_image_seq_len", 256},
          {"base_shift", 0.5},
          {"invert_sigmas", false},
          {"max_image_seq_len", 4096},
          {"max_shift", 1.15},
          {"num_train_timesteps", 1000},
          {"shift", 3.0},
          {"shift_terminal", nullptr},
          {"stochastic_sampling", false},
          {"time_shift_type", "exponential"},
          {"use_beta_sigmas", false},
          {"use_dynamic_shifting", false},
          {"use_exponential_sigmas", false},
          {"use_karras_sigmas", false}};
}

json pipeline_index(const wan_shape& shape) {
  json index = {{"_class_name", "WanPipeline"},
                {"_diffusers_version", diffusers_version},
                {"scheduler", json::array({"diffusers", "FlowMatchEulerDiscreteScheduler"})},
                {"text_encoder", json::array({"transformers", "UMT5EncoderModel"})},
                {"transformer", json::array({"diffusers", "WanTransformer3DModel"})}};
  if (shape.vae.width > 0)
    index["vae"] = json::array({"diffusers", "AutoencoderKLWan"});
  if (shape.denoisers == 2) {
    index["transformer_2"] = index["transformer"];
    index["boundary_ratio"] = 0.875;
  }
  return index;
}

void write_json(const fs::path& path, const json& content) {
  fs::create_directories(path.parent_path());
  auto file = std::ofstream(path, std::ios::binary);
  file << content.dump(2) << '\n';
  file.close();
  if (!file)
    throw ferry_error({.code = errc::io_failure,
                       .detail = "cannot write '" + path.string() +
                                 "': " + std::generic_category().message(errno)});
}

std::uint64_t total_bytes(const std::vector<tensor_declaration>& tensors) {
  std::uint64_t sum = 0;
  for (const auto& tensor : tensors)
    sum += tensor.bytes();
  return sum;
}

} // namespace

std::vector<tensor_declaration> wan_denoiser_tensors(const wan_shape& shape) {
  const auto width = shape.hidden;
  tensor_list tensors(shape.type);
  tensors.add("patch_embedding.weight", {width, channels, 1, 2, 2});
  tensors.add("patch_embedding.bias", {width});
  tensors.linear("condition_embedder.time_embedder.linear_1", frequencies, width);
  tensors.linear("condition_embedder.time_embedder.linear_2", width, width);
  tensors.linear("condition_embedder.time_proj", width, 6 * width);
  tensors.linear("condition_embedder.text_embedder.linear_1", shape.text_hidden, width);
  tensors.linear("condition_embedder.text_embedder.linear_2", width, width);
  for (std::int64_t i = 0; i < shape.blocks; ++i) {
    const auto block = "blocks." + std::to_string(i);
    tensors.add(block + ".scale_shift_table", {1, 6, width});
    tensors.attention(block + ".attn1", width);
    tensors.add(block + ".norm2.weight", {width});
    tensors.add(block + ".norm2.bias", {width});
    tensors.attention(block + ".attn2", width);
    tensors.linear(block + ".ffn.net.0.proj", width, shape.ffn);
    tensors.linear(block + ".ffn.net.2", shape.ffn, width);
  }
  tensors.add("scale_shift_table", {1, 2, width});
  tensors.linear("proj_out", width, channels * patch);
  return tensors.take();
}

std::vector<tensor_declaration> wan_encoder_tensors(const wan_shape& shape) {
  const auto width = shape.text_hidden;
  const auto inner = shape.text_heads * shape.text_head_dim;
  tensor_list tensors(shape.type);
  tensors.add("shared.weight", {shape.vocabulary, width});
  for (std::int64_t i = 0; i < shape.text_blocks; ++i) {
    const auto block = "encoder.block." + std::to_string(i);
    const auto attention = block + ".layer.0.SelfAttention.";
    for (const auto* layer : {"q", "k", "v"})
      tensors.add(attention + layer + ".weight", {inner, width});
    tensors.add(attention + "o.weight", {width, inner});
    tensors.add(attention + "relative_attention_bias.weight", {distance_buckets, shape.text_heads});
    tensors.add(block + ".layer.0.layer_norm.weight", {width});
    const auto feed_forward = block + ".layer.1.DenseReluDense.";
    tensors.add(feed_forward + "wi_0.weight", {shape.text_ffn, width});
    tensors.add(feed_forward + "wi_1.weight", {shape.text_ffn, width});
    tensors.add(feed_forward + "wo.weight", {width, shape.text_ffn});
    tensors.add(block + ".layer.1.layer_norm.weight", {width});
  }
  tensors.add("encoder.final_layer_norm.weight", {width});
  return tensors.take();
}

std::uint64_t weight_bytes(const wan_shape& shape) {
  return total_bytes(wan_encoder_tensors(shape)) +
         static_cast<std::uint64_t>(shape.denoisers) * total_bytes(wan_denoiser_tensors(shape)) +
         total_bytes(wan_vae_tensors(shape.vae, shape.type));
}

void write_wan_checkpoint(const fs::path& directory, const wan_shape& shape, std::uint64_t seed,
                          std::uint64_t most_bytes_per_file,
                          const std::function<void(std::uint64_t)>& progress) {
  std::uint64_t components = 0;
  const auto write = [&](const std::string& name, std::string_view stem, const json& config,
                         const std::vector<tensor_declaration>& tensors) {
    write_json(directory / name / "config.json", config);
    // Each component has a seed of its own, or two denoisers would be one.
    const random_weights weights(seed * 8 + components++);
    write_component(directory / name, stem, tensors, most_bytes_per_file,
                    [&](const auto& tensor, std::uint64_t offset, mutable_bytes chunk) {
                      weights.fill(tensor, offset, chunk);
                      progress(chunk.size());
                    });
  };

  write_json(directory / "scheduler" / "scheduler_config.json", scheduler_config());
  write("text_encoder", "model", encoder_config(shape), wan_encoder_tensors(shape));
  for (std::int64_t i = 1; i <= shape.denoisers; ++i)
    write(i == 1 ? "transformer" : "transformer_" + std::to_string(i), "diffusion_pytorch_model",
          denoiser_config(shape), wan_denoiser_tensors(shape));
  if (shape.vae.width > 0)
    write("vae", "diffusion_pytorch_model", wan_vae_config(shape.vae),
          wan_vae_tensors(shape.vae, shape.type));
  write_json(directory / "model_index.json", pipeline_index(shape));
}

} // namespace ferry
