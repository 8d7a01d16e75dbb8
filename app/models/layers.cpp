// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/layers.hpp"

#include <ATen/ATen.h>

#include <optional>
#include <string>

namespace ferry {

void attach(torch::nn::Module& parent, std::string_view path,
            std::shared_ptr<torch::nn::Module> child) {
  const auto dot = path.find('.');
  std::string name{path.substr(0, dot)};
  if (dot == std::string_view::npos) {
    parent.register_module(std::move(name), std::move(child));
    return;
  }
  const auto between = parent.named_children();
  auto* known = between.find(name);
  auto next = known != nullptr
                  ? *known
                  : parent.register_module(std::move(name), std::make_shared<torch::nn::Module>());
  attach(*next, path.substr(dot + 1), std::move(child));
}

linear::linear(const weights& source, std::int64_t inputs, std::int64_t outputs, bias with_bias)
    : weight_{register_parameter("weight", source.take("weight", {outputs, inputs}), false)} {
  if (with_bias == bias::present) {
    bias_ = register_parameter("bias", source.take("bias", {outputs}), false);
  }
}

at::Tensor linear::forward(const at::Tensor& input) const {
  return at::linear(input.to(weight_.scalar_type()), weight_, bias_);
}

at::Tensor linear::forward_f32(const at::Tensor& input) const {
  return at::linear(input.to(at::kFloat), weight_.to(at::kFloat),
                    bias_.defined() ? bias_.to(at::kFloat) : bias_);
}

t5_rms_norm::t5_rms_norm(const weights& source, std::int64_t width, double epsilon)
    : weight_{register_parameter("weight", source.take("weight", {width}), false)},
      epsilon_{epsilon} {}

at::Tensor t5_rms_norm::forward(const at::Tensor& input) const {
  const auto exact = input.to(at::kFloat);
  const auto scale = exact.square().mean(-1, true).add_(epsilon_).rsqrt_();
  return (exact * scale).to(weight_.scalar_type()).mul_(weight_);
}

rms_norm::rms_norm(const weights& source, std::int64_t width, double epsilon)
    : weight_{register_parameter("weight", source.take("weight", {width}, precision::exact),
                                 false)},
      epsilon_{epsilon} {}

at::Tensor rms_norm::forward(const at::Tensor& input) const {
  return at::rms_norm(input, weight_.sizes(), weight_.to(input.scalar_type()), epsilon_);
}

layer_norm_f32::layer_norm_f32(const weights& source, std::int64_t width, double epsilon)
    : weight_{register_parameter("weight", source.take("weight", {width}, precision::exact),
                                 false)},
      bias_{register_parameter("bias", source.take("bias", {width}, precision::exact), false)},
      epsilon_{epsilon} {}

at::Tensor layer_norm_f32::forward(const at::Tensor& input) const {
  return at::layer_norm(input.to(at::kFloat), weight_.sizes(), weight_.to(at::kFloat),
                        bias_.to(at::kFloat), epsilon_);
}

embedding::embedding(at::Tensor table)
    : weight_{register_parameter("weight", std::move(table), false)} {}

embedding::embedding(const weights& source, std::int64_t rows, std::int64_t width)
    : embedding{source.take("weight", {rows, width})} {}

at::Tensor embedding::forward(const at::Tensor& rows) const {
  return at::embedding(weight_, rows);
}

} // namespace ferry
