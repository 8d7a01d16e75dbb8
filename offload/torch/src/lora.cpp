// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/torch/lora.hpp"

#include "ferry/torch/mapped_tensor.hpp"
#include "ferry/torch/torch_failure.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

namespace ferry {
namespace {

std::size_t hash_of(const_bytes bytes) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::set<std::string> tensors_of(const std::vector<lora_adapter>& adapters) {
  std::set<std::string> names;
  for (const auto& adapter : adapters)
    for (const auto& each : adapter.deltas)
      names.insert(each.tensor);
  return names;
}

/// Returns what is wrong with a delta for a tensor like `base`, nothing if it fits.
std::string misfit(const lora_delta& delta, const weight_value& base) {
  const auto describe = [&](const std::string& what) {
    return "delta of '" + base.name + "' (" + std::string{to_string(base.type)} + " " +
           c10::str(at::IntArrayRef{base.shape}) + ") " + what + "; ";
  };
  if (!c10::isFloatingType(scalar_type_of(base.type)) || base.shape.size() < 2)
    return describe("needs a floating-point tensor of two dimensions or more");
  if (!delta.down.defined() || !delta.up.defined() || delta.down.dim() != 2 || delta.up.dim() != 2)
    return describe("has no two matrices up and down");
  const auto rows = base.shape.front();
  const auto columns = c10::multiply_integers(base.shape.begin() + 1, base.shape.end());
  const auto rank = delta.down.size(0);
  if (delta.up.size(0) != rows || delta.up.size(1) != rank || delta.down.size(1) != columns)
    return describe("has up " + c10::str(delta.up.sizes()) + " and down " +
                    c10::str(delta.down.sizes()) + "; expected [" + std::to_string(rows) +
                    ", rank] and [rank, " + std::to_string(columns) + "]");
  return {};
}

at::Tensor tensor_of(const weight_value& value) {
  return tensor_over(value.owner, value.bytes, value.type, value.shape);
}

weight_value value_of(const weight_value& like, const at::Tensor& contents) {
  auto owner =
      std::make_shared<const at::Tensor>(contents.to(scalar_type_of(like.type)).contiguous());
  const const_bytes bytes{static_cast<const std::byte*>(owner->const_data_ptr()), owner->nbytes()};
  return {like.name, like.type, like.shape, bytes, std::move(owner)};
}

weight_value merge(const weight_value& base, const std::vector<lora_adapter>& adapters) {
  auto touched = false;
  const auto exact = base.type == dtype::f64 ? at::kDouble : at::kFloat;
  auto sum = tensor_of(base).to(exact, /*non_blocking=*/false, /*copy=*/true);
  for (const auto& adapter : adapters)
    for (const auto& delta : adapter.deltas)
      if (delta.tensor == base.name) {
        const auto product = at::matmul(delta.up.to(exact), delta.down.to(exact));
        sum.add_(product.reshape(base.shape), adapter.scale);
        touched = true;
      }
  return touched ? value_of(base, sum) : base;
}

} // namespace

lora_adapters::lora_adapters(weight_store& store, std::string component)
    : store_(&store), component_(std::move(component)) {}

result<void> lora_adapters::add(lora_adapter adapter) {
  if (std::ranges::find(adapters_, adapter.name, &lora_adapter::name) != adapters_.end())
    return tl::unexpected(
        failure{errc::already_enabled,
                "adapter '" + adapter.name + "' is merged already; remove it first"});
  if (adapter.deltas.empty())
    return tl::unexpected(failure{errc::invalid_argument,
                                  "adapter '" + adapter.name + "' has no deltas; expected some"});
  if (!std::isfinite(adapter.scale))
    return tl::unexpected(failure{errc::invalid_argument,
                                  "adapter '" + adapter.name + "' has scale " +
                                      c10::str(adapter.scale) + "; expected a finite number"});
  auto wanted = adapters_;
  wanted.push_back(std::move(adapter));
  return apply(std::move(wanted));
}

result<void> lora_adapters::remove(const std::string& name) {
  auto wanted = adapters_;
  if (std::erase_if(wanted, [&](const auto& each) { return each.name == name; }) == 0)
    return tl::unexpected(failure{errc::not_found, "no adapter '" + name + "' is merged"});
  return apply(std::move(wanted));
}

void lora_adapters::forget() noexcept {
  adapters_.clear();
  touched_.clear();
}

std::vector<std::string> lora_adapters::names() const {
  std::vector<std::string> all;
  for (const auto& each : adapters_)
    all.push_back(each.name);
  return all;
}

// What is merged already has its base here; the others are their own.
result<lora_adapters::tensors>
lora_adapters::bases_of(const std::vector<std::string>& names) const {
  auto now = store_->read_weights(component_, names);
  if (!now)
    return tl::unexpected(std::move(now.error()));
  tensors bases;
  for (auto& value : now->values) {
    const auto known = touched_.find(value.name);
    if (known == touched_.end()) {
      bases.emplace(value.name, merged_tensor{.base = value, .merged_hash = 0});
      continue;
    }
    if (hash_of(value.bytes) != known->second.merged_hash)
      return tl::unexpected(failure{errc::stale_handle,
                                    "tensor '" + value.name + "' of " + component_ +
                                        " was replaced after adapters were merged into it; forget "
                                        "them, then add them to the new weights"});
    bases.insert(*known);
  }
  return bases;
}

result<void> lora_adapters::apply(std::vector<lora_adapter> wanted) {
  auto names = tensors_of(wanted);
  names.merge(tensors_of(adapters_));
  auto bases = bases_of({names.begin(), names.end()});
  if (!bases)
    return tl::unexpected(std::move(bases.error()));

  std::string wrong;
  for (const auto& adapter : wanted)
    for (const auto& delta : adapter.deltas)
      wrong += misfit(delta, bases->at(delta.tensor).base);
  if (!wrong.empty())
    return tl::unexpected(
        failure{errc::invalid_argument, component_ + ": " + wrong.substr(0, wrong.size() - 2)});

  weight_update update{.component = component_, .values = {}};
  try {
    const at::NoGradGuard no_gradients;
    for (auto& [name, tensor] : *bases) {
      update.values.push_back(merge(tensor.base, wanted));
      tensor.merged_hash = hash_of(update.values.back().bytes);
    }
  } catch (const std::exception& error) {
    return tl::unexpected(failure_of(error));
  }
  if (auto written = store_->update_weights(std::move(update)); !written)
    return tl::unexpected(std::move(written.error()));
  adapters_ = std::move(wanted);
  const auto still = tensors_of(adapters_);
  std::erase_if(*bases, [&](const auto& each) { return !still.contains(each.first); });
  touched_ = std::move(*bases);
  return {};
}

} // namespace ferry
