// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/component_interfaces.hpp>
#include <ferry/torch/torch_pipeline.hpp>

#include "torch/gate.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ferry::test {

/// A module with whatever tensors a test gives it.
struct holder : torch::nn::Module, declares_tensors {
  std::vector<std::pair<std::string, at::Tensor>> unregistered_tensors() const override {
    return members;
  }
  std::vector<std::pair<std::string, at::Tensor>> members;
};

/// One unit over the tensors of one module.
struct bench {
  explicit bench(std::vector<at::Tensor> given, at::Device computes_on = at::kCPU)
      : tensors(std::move(given)) {
    for (std::size_t i = 0; i != tensors.size(); ++i)
      module->members.emplace_back(std::to_string(i), tensors[i]);
    pipeline = std::make_unique<torch_pipeline>(
        torch_pipeline_description{.type_name = "test",
                                   .components = {{"transformer", module}},
                                   .compute_device = computes_on});
    unit =
        pipeline->make_unit("transformer.blocks.7", pack_node(*node_at(*pipeline, "transformer")));
    slot = pack_originals(*unit);
  }

  void bind() { unit->bind(slot.data()); }

  std::vector<at::Tensor> tensors;
  std::shared_ptr<holder> module = std::make_shared<holder>();
  std::unique_ptr<torch_pipeline> pipeline;
  std::unique_ptr<weight_unit> unit;
  packed_bytes slot{0};
};

inline at::Tensor counted(at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape), at::kFloat).reshape(shape);
}

struct awkward {
  std::string name;
  std::function<at::Tensor()> make;
};

inline const std::vector<awkward> every_kind = {
    {"contiguous", [] { return counted({3, 4}); }},
    {"transposed", [] { return counted({3, 4}).t(); }},
    {"view with an offset", [] { return counted({8, 4}).narrow(0, 5, 2); }},
    {"strided view", [] { return counted({8, 4}).slice(1, 1, 4, 2); }},
    {"expanded", [] { return counted({4}).expand({3, 4}); }},
    {"0-dimensional", [] { return at::scalar_tensor(2.5, at::kDouble); }},
    {"empty", [] { return at::empty({0, 4}); }},
    {"bfloat16", [] { return counted({3}).to(at::kBFloat16); }},
    {"float8", [] { return counted({3}).to(at::kFloat8_e4m3fn); }},
    {"boolean", [] { return counted({3}) > 1; }},
    {"64-bit integers", [] { return at::arange(5); }},
    {"complex", [] { return at::complex(counted({3, 2}), counted({3, 2})).t(); }},
    {"parameter", [] { return counted({2, 2}).requires_grad_(true); }},
    {"detached", [] { return counted({2, 2}).detach(); }},
    {"data of a variable", [] { return counted({2}).variable_data(); }},
    {"made for inference",
     [] {
       c10::InferenceMode inference;
       return counted({2, 3}).t();
     }},
};

} // namespace ferry::test
