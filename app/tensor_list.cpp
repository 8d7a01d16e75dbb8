// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "tensor_list.hpp"

#include <utility>

namespace ferry {

void tensor_list::add(const std::string& name, std::vector<std::int64_t> shape) {
  tensors_.push_back({.name = name, .type = type_, .shape = std::move(shape)});
}

void tensor_list::linear(const std::string& path, std::int64_t in, std::int64_t out) {
  add(path + ".weight", {out, in});
  add(path + ".bias", {out});
}

void tensor_list::norm(const std::string& path, std::int64_t width) {
  add(path + ".weight", {width});
  add(path + ".bias", {width});
}

void tensor_list::conv2d(const std::string& path, std::int64_t in, std::int64_t out,
                         std::int64_t kernel) {
  add(path + ".weight", {out, in, kernel, kernel});
  add(path + ".bias", {out});
}

std::vector<tensor_declaration> tensor_list::take() {
  return std::move(tensors_);
}

} // namespace ferry
