// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/offload/host_lease.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <ranges>
#include <utility>

namespace ferry {
namespace {

template <class Number>
std::string list(const std::vector<Number>& numbers) {
  std::string text;
  for (const auto each : numbers)
    text += (text.empty() ? "" : ",") + std::to_string(each);
  return "[" + text + "]";
}

std::string describe(const leased_tensor_form& form) {
  return std::string{to_string(form.type)} + list(form.shape) + " with strides " +
         list(form.strides) + " in " + std::to_string(form.bytes) + " bytes";
}

failure difference(const std::string& name, const std::string& is, const std::string& expected) {
  return {errc::invalid_checkpoint,
          "leased tensor '" + name + "' is " + is + "; the manifest expects " + expected};
}

std::optional<failure> first_mismatch(const leased_weights& weights,
                                      const std::map<std::string, leased_tensor_form>& manifest) {
  for (const auto& [name, expected] : manifest) {
    const auto found = weights.tensors.find(name);
    if (found == weights.tensors.end())
      return difference(name, "missing", describe(expected));
    const auto& tensor = found->second;
    if (tensor.form != expected)
      return difference(name, describe(tensor.form), describe(expected));
    if (tensor.bytes.size() != expected.bytes)
      return difference(name, std::to_string(tensor.bytes.size()) + " bytes long",
                        std::to_string(expected.bytes));
  }
  for (const auto& [name, tensor] : weights.tensors)
    if (!manifest.contains(name))
      return difference(name, describe(tensor.form), "no such tensor");
  return std::nullopt;
}

std::optional<failure> run(const host_lease::closer& close) noexcept {
  try {
    close();
    return std::nullopt;
  } catch (const ferry_error& e) {
    return e.reason();
  } catch (const std::exception& e) {
    return failure{errc::incomplete, e.what()};
  }
}

} // namespace

bool leased_weights::maps(const_bytes range) const noexcept {
  return std::ranges::any_of(regions, [&](const mapped_region& each) {
    return range.data() >= each.bytes.data() &&
           range.data() + range.size() <= each.bytes.data() + each.bytes.size();
  });
}

host_lease::host_lease(leased_weights weights, release how)
    : weights_(std::move(weights)), how_(std::move(how)), owner_(::getpid()) {}

host_lease::~host_lease() {
  static_cast<void>(close());
}

result<std::unique_ptr<host_lease>>
host_lease::open(leased_weights weights, const std::map<std::string, leased_tensor_form>& manifest,
                 release how) {
  std::unique_ptr<host_lease> made{new host_lease{std::move(weights), std::move(how)}};
  if (auto wrong = first_mismatch(made->weights_, manifest))
    return tl::unexpected(std::move(*wrong));
  return made;
}

const leased_weights& host_lease::weights() const noexcept {
  FERRY_ASSERT(!closed_);
  return weights_;
}

result<void> host_lease::close() {
  if (std::exchange(closed_, true))
    return {};
  weights_ = {};
  auto order = std::exchange(how_, {});
  std::optional<failure> first;
  auto note = [&first](std::optional<failure> failed) {
    if (failed && !first)
      first = std::move(failed);
  };
  for (const auto& each : order.closers | std::views::reverse)
    note(run(each));
  if (order.unlock && ::getpid() == owner_)
    note(run(order.unlock));
  if (first)
    return tl::unexpected(std::move(*first));
  return {};
}

lease_carrier::lease_carrier(std::unique_ptr<host_lease> lease) : lease_(std::move(lease)) {
  FERRY_ASSERT(lease_ != nullptr);
}

result<std::unique_ptr<host_lease>> lease_carrier::take() {
  if (lease_ == nullptr)
    return tl::unexpected(failure{
        errc::stale_handle, "the lease of the host weights was taken or closed; load them again"});
  return std::move(lease_);
}

result<void> lease_carrier::close() {
  if (lease_ == nullptr)
    return {};
  return std::exchange(lease_, nullptr)->close();
}

} // namespace ferry
