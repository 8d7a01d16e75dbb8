// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/weights.hpp"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace ferry {

/// Puts `child` under `parent` at a dotted path as checkpoints name it, making the plain modules in
/// between where they are not there yet.
void attach(torch::nn::Module& parent, std::string_view path,
            std::shared_ptr<torch::nn::Module> child);

/// Makes a layer from the weights under `path` and attaches it there.
template <class Layer, class... Args>
std::shared_ptr<Layer> add_layer(torch::nn::Module& parent, const weights& source,
                                 std::string_view path, Args... args) {
  auto layer = std::make_shared<Layer>(source.child(path), args...);
  attach(parent, path, layer);
  return layer;
}

enum class bias : std::uint8_t { absent, present };

/// A matrix product over the last dimension. Computes in the dtype of its weight.
class linear : public torch::nn::Module {
public:
  linear(const weights& source, std::int64_t inputs, std::int64_t outputs, bias with_bias);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

  /// Computes in float32 whatever dtype the weight has.
  [[nodiscard]] at::Tensor forward_f32(const at::Tensor& input) const;

private:
  at::Tensor weight_;
  at::Tensor bias_;
};

/// Scales by the root mean square over the last dimension; rounds to the input's dtype before the
/// weight is applied, as T5 does.
class t5_rms_norm : public torch::nn::Module {
public:
  t5_rms_norm(const weights& source, std::int64_t width, double epsilon);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

private:
  at::Tensor weight_;
  double epsilon_;
};

/// Scales by the root mean square over the last dimension; rounds once, at the end.
class rms_norm : public torch::nn::Module {
public:
  rms_norm(const weights& source, std::int64_t width, double epsilon);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

private:
  at::Tensor weight_;
  double epsilon_;
};

/// Layer norm with weight and bias, computed in float32. The result is float32.
class layer_norm_f32 : public torch::nn::Module {
public:
  layer_norm_f32(const weights& source, std::int64_t width, double epsilon);

  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;

private:
  at::Tensor weight_;
  at::Tensor bias_;
  double epsilon_;
};

/// Rows of a table, chosen by integers.
class embedding : public torch::nn::Module {
public:
  /// @pre `table` is two-dimensional, or undefined if loading failed
  explicit embedding(at::Tensor table);
  embedding(const weights& source, std::int64_t rows, std::int64_t width);

  [[nodiscard]] at::Tensor forward(const at::Tensor& rows) const;

private:
  at::Tensor weight_;
};

} // namespace ferry
