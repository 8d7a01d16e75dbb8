// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/offload/dtype.hpp>
#include <ferry/offload/safetensors_writer.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ferry {

/// Collects the tensors of a component, in the order in which they run. All have one type.
class tensor_list {
public:
  explicit tensor_list(dtype type) : type_(type) {}

  void add(const std::string& name, std::vector<std::int64_t> shape);

  /// Adds the weight, `[out, in]`, and bias of a matrix product.
  void linear(const std::string& path, std::int64_t in, std::int64_t out);

  /// Adds the weight and bias of a norm.
  void norm(const std::string& path, std::int64_t width);

  /// Adds the weight and bias of a convolution over rows and columns.
  void conv2d(const std::string& path, std::int64_t in, std::int64_t out, std::int64_t kernel);

  [[nodiscard]] std::vector<tensor_declaration> take();

private:
  dtype type_;
  std::vector<tensor_declaration> tensors_;
};

} // namespace ferry
