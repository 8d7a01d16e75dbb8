// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace ferry {

/// Says which members of a struct are tensors, or hold some, so that hooks see them when the struct
/// is an argument or a result. Specialise it with `static auto of(T& value)`, returning
/// `std::tie(value.a, value.b)`.
template <class T>
struct tensor_members;

namespace detail {

template <class T>
concept has_tensor_members = requires(T& value) { tensor_members<T>::of(value); };

template <class T>
struct holds_tensors : std::bool_constant<has_tensor_members<T>> {};
template <>
struct holds_tensors<at::Tensor> : std::true_type {};
template <class T>
struct holds_tensors<std::optional<T>> : holds_tensors<T> {};
template <class T, class Allocator>
struct holds_tensors<std::vector<T, Allocator>> : holds_tensors<T> {};
template <class T, std::size_t N>
struct holds_tensors<std::array<T, N>> : holds_tensors<T> {};
template <class... T>
struct holds_tensors<std::tuple<T...>>
    : std::disjunction<holds_tensors<std::remove_cvref_t<T>>...> {};
template <class A, class B>
struct holds_tensors<std::pair<A, B>> : std::disjunction<holds_tensors<std::remove_cvref_t<A>>,
                                                         holds_tensors<std::remove_cvref_t<B>>> {};

} // namespace detail

/// Whether hooks see tensors in a `T`: a tensor itself, and optionals, vectors, arrays, pairs and
/// tuples of what holds tensors, and structs with `tensor_members`.
template <class T>
concept tensor_holder = detail::holds_tensors<std::remove_cvref_t<T>>::value;

/// Calls `visit` with each tensor in `value`, in order. Does nothing for what holds none, or is
/// const.
template <class T, class Visit>
void visit_tensors(T& value, Visit& visit) {
  if constexpr (std::is_const_v<T> || !tensor_holder<T>) {
    return;
  } else if constexpr (std::is_same_v<T, at::Tensor>) {
    visit(value);
  } else if constexpr (detail::has_tensor_members<T>) {
    std::apply([&](auto&... each) { (visit_tensors(each, visit), ...); },
               tensor_members<T>::of(value));
  } else if constexpr (requires { value.has_value(); }) {
    if (value)
      visit_tensors(*value, visit);
  } else if constexpr (requires { value.begin(); }) {
    for (auto& each : value)
      visit_tensors(each, visit);
  } else {
    std::apply([&](auto&... each) { (visit_tensors(each, visit), ...); }, value);
  }
}

} // namespace ferry
