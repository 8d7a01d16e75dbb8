// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/platform/error.hpp>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace ferry {

/// What a module does with a weight.
enum class precision : std::uint8_t {
  computed, ///< Computes with it in the type of the model.
  exact,    ///< Computes with it in f32, whatever that is: it is never narrowed.
};

/// Returns the checkpoint's tensor of a name, undefined if there is none.
using tensor_lookup = std::function<at::Tensor(const std::string& name, precision wanted)>;

/// A place in a checkpoint's tree of names, from which a module takes its weights.
///
/// A tensor that is missing, of another shape or not of a floating-point type becomes a problem and
/// the undefined tensor is returned: a module built while there are problems is never run. What a
/// module does not take is ignored. `find` and `problems` outlive this.
class weights {
public:
  /// @param component names the component in messages
  weights(std::string component, const tensor_lookup& find, std::vector<failure>& problems);

  /// Returns the place one dotted path further down.
  [[nodiscard]] weights child(std::string_view path) const;

  /// Returns whether there is a tensor called `name` here.
  [[nodiscard]] bool has(std::string_view name) const;

  /// Returns the tensor called `name` here: the checkpoint's own memory, or that in another type.
  [[nodiscard]] at::Tensor take(std::string_view name, at::IntArrayRef shape,
                                precision wanted = precision::computed) const;

  /// Returns the first of `names` that is there. Checkpoints of different age spell some of them
  /// differently.
  [[nodiscard]] at::Tensor take_first(std::initializer_list<std::string_view> names,
                                      at::IntArrayRef shape,
                                      precision wanted = precision::computed) const;

private:
  [[nodiscard]] at::Tensor checked(const std::string& name, at::Tensor tensor,
                                   at::IntArrayRef shape) const;

  std::string component_;
  std::string prefix_;
  const tensor_lookup* find_;
  std::vector<failure>* problems_;
};

} // namespace ferry
