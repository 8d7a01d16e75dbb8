// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/weights.hpp"

#include <ATen/ATen.h>

#include <sstream>
#include <utility>

namespace ferry {
namespace {

std::string text(at::IntArrayRef shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

} // namespace

weights::weights(std::string component, const tensor_lookup& find, std::vector<failure>& problems)
    : component_{std::move(component)}, find_{&find}, problems_{&problems} {}

weights weights::child(std::string_view path) const {
  auto place = *this;
  place.prefix_.append(path).append(".");
  return place;
}

bool weights::has(std::string_view name) const {
  return (*find_)(prefix_ + std::string{name}, precision::exact).defined();
}

at::Tensor weights::take(std::string_view name, at::IntArrayRef shape, precision wanted) const {
  return take_first({name}, shape, wanted);
}

at::Tensor weights::take_first(std::initializer_list<std::string_view> names, at::IntArrayRef shape,
                               precision wanted) const {
  std::string tried;
  for (const auto name : names) {
    const auto full = prefix_ + std::string{name};
    if (auto tensor = (*find_)(full, wanted); tensor.defined()) {
      return checked(full, std::move(tensor), shape);
    }
    tried += (tried.empty() ? "'" : " or '") + full + "'";
  }
  problems_->push_back(failure{errc::invalid_checkpoint, component_ + " has no tensor " + tried +
                                                             "; expected shape " + text(shape)});
  return {};
}

at::Tensor weights::checked(const std::string& name, at::Tensor tensor,
                            at::IntArrayRef shape) const {
  const auto type = tensor.scalar_type();
  const auto here = component_ + ": tensor '" + name + "' ";
  if (tensor.sizes() != shape) {
    problems_->push_back(
        failure{errc::invalid_checkpoint,
                here + "has shape " + text(tensor.sizes()) + "; expected " + text(shape)});
    return {};
  }
  if (type != at::kFloat && type != at::kBFloat16 && type != at::kHalf) {
    problems_->push_back(failure{errc::unsupported, here + "is of type " + c10::toString(type) +
                                                        "; expected Float, BFloat16 or Half"});
    return {};
  }
  return tensor;
}

} // namespace ferry
