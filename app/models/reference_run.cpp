// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "models/reference_run.hpp"

#include <ferry/torch/mapped_tensor.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace ferry {
namespace {

tl::unexpected<failure> malformed(const std::filesystem::path& path, std::string_view name,
                                  std::string_view expected) {
  std::string text = path.string();
  text.append(": ").append(name).append(" is missing or malformed; expected ").append(expected);
  return tl::unexpected{failure{errc::invalid_checkpoint, std::move(text)}};
}

std::optional<std::vector<std::int64_t>> row(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.scalar_type() != at::kLong || tensor.dim() != 2 ||
      tensor.size(0) != 1) {
    return std::nullopt;
  }
  const auto* first = tensor.const_data_ptr<std::int64_t>();
  return std::vector<std::int64_t>(first, first + tensor.numel());
}

template <class Number>
std::optional<Number> number(const safetensors_file& file, std::string_view name) {
  const auto found = file.metadata().find(name);
  if (found == file.metadata().end()) {
    return std::nullopt;
  }
  Number value{};
  const auto& text = found->second;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = problem == std::errc{} && end == text.data() + text.size();
  return whole ? std::optional{value} : std::nullopt;
}

double max_abs_error(const at::Tensor& value, const at::Tensor& expected) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (value.sizes() != expected.sizes()) {
    return infinite;
  }
  const auto difference = (value.to(at::kDouble) - expected.to(at::kDouble)).abs();
  const auto largest = difference.numel() == 0 ? 0.0 : difference.max().item<double>();
  return largest <= std::numeric_limits<double>::max() ? largest : infinite;
}

} // namespace

reference_run::reference_run(std::shared_ptr<const safetensors_file> file)
    : file_{std::move(file)} {}

result<reference_run> reference_run::open(const std::filesystem::path& path) {
  auto file = safetensors_file::open(path);
  if (!file) {
    return tl::unexpected{file.error()};
  }
  return reference_run{std::move(*file)};
}

at::Tensor reference_run::tensor(std::string_view name) const {
  const auto* stored = file_->find(name);
  return stored == nullptr ? at::Tensor{}
                           : tensor_over(file_, stored->bytes, stored->type, stored->shape);
}

result<at::Tensor> reference_run::tensor(std::string_view name, std::string_view expected) const {
  auto found = tensor(name);
  if (!found.defined()) {
    return malformed(file_->path(), name, expected);
  }
  return found;
}

result<std::vector<std::int64_t>> reference_run::ids(std::string_view name) const {
  auto found = row(tensor(name));
  if (!found) {
    return malformed(file_->path(), name, "int64 of shape [1, tokens]");
  }
  return std::move(*found);
}

result<std::int64_t> reference_run::steps() const {
  const auto found = number<std::int64_t>(*file_, "steps");
  if (!found) {
    return malformed(file_->path(), "the metadata steps", "an integer");
  }
  return *found;
}

result<double> reference_run::guidance() const {
  const auto found = number<double>(*file_, "guidance_scale");
  if (!found) {
    return malformed(file_->path(), "the metadata guidance_scale", "a number");
  }
  return *found;
}

result<request> reference_run::inputs() const {
  request asked;
  std::optional<failure> problem;
  const auto take = [&](auto read, auto& into) {
    if (read) {
      into = std::move(*read);
    } else if (!problem) {
      problem = read.error();
    }
  };
  take(ids("input_ids"), asked.positive.ids);
  take(ids("negative_input_ids"), asked.negative.ids);
  take(ids("attention_mask"), asked.positive.mask);
  asked.negative.mask = asked.positive.mask;
  take(tensor("initial_latents", "float32 latents"), asked.initial_latents);
  take(steps(), asked.steps);
  take(guidance(), asked.guidance);
  if (problem) {
    return tl::unexpected{std::move(*problem)};
  }
  return asked;
}

bool reference_run::knows(std::string_view stage) const {
  return file_->find(stage) != nullptr;
}

void reference_run::compare(std::string_view stage, const at::Tensor& value) {
  if (const auto expected = tensor(stage); expected.defined()) {
    errors_.push_back({std::string{stage}, max_abs_error(value.cpu(), expected)});
  }
}

std::optional<stage_error> reference_run::worst() const {
  const auto found = std::max_element(
      errors_.begin(), errors_.end(),
      [](const stage_error& a, const stage_error& b) { return a.max_abs < b.max_abs; });
  return found == errors_.end() ? std::nullopt : std::optional{*found};
}

} // namespace ferry
