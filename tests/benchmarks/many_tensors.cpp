// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "many_tensors.hpp"

#include <ferry/torch/block_list.hpp>
#include <ferry/torch/hookable.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include <ATen/ATen.h>

namespace ferry::bench {

namespace {

constexpr std::size_t tensors_per_block = 25;

class small_block final : public torch::nn::Module, public hookable {
public:
  small_block() {
    for (std::size_t i = 0; i < tensors_per_block; ++i)
      register_parameter("weight" + std::to_string(i), at::ones({4}), false);
  }

  at::Tensor forward(const at::Tensor& hidden) { return hidden; }
};

class small_denoiser final : public torch::nn::Module {
public:
  explicit small_denoiser(std::size_t blocks) {
    register_module("blocks", blocks_);
    for (std::size_t i = 0; i < blocks; ++i)
      blocks_->push_back(std::make_shared<small_block>());
  }

private:
  std::shared_ptr<block_list<small_block>> blocks_ = std::make_shared<block_list<small_block>>();
};

} // namespace

std::shared_ptr<pipeline> many_tensors(std::size_t tensors) {
  component_roles roles;
  roles.dits = {"transformer"};
  offload_plan plan;
  plan.block_attrs["transformer"] = {"blocks"};
  return std::make_shared<torch_pipeline>(torch_pipeline_description{
      .type_name = "many_tensors",
      .components = {{.name = "transformer",
                      .module = std::make_shared<small_denoiser>(tensors / tensors_per_block)}},
      .roles = std::move(roles),
      .plan = std::move(plan)});
}

} // namespace ferry::bench
