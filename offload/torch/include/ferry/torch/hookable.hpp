// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/hooks.hpp>

#include <torch/nn/module.h>

#include <type_traits>
#include <utility>

namespace ferry {

/// Gives a module a hook registry. A module derives from it beside `torch::nn::Module` and is then
/// called through `ferry::call`:
///
///     class wan_block : public torch::nn::Module, public hookable { ... };
///
/// The module's own `forward` keeps its signature and can still be called directly, past the hooks.
class hookable {
public:
  [[nodiscard]] hook_registry& hooks() const noexcept { return hooks_; }

protected:
  hookable() = default;
  hookable(const hookable&) = default;
  hookable& operator=(const hookable&) = default;
  ~hookable() = default;

private:
  mutable hook_registry hooks_;
};

/// Makes a module hookable whose class cannot be changed: `hooked<torch::nn::LinearImpl>`. The
/// names of its tensors stay as they were.
template <class Module>
class hooked : public Module, public hookable {
public:
  using Module::Module;
};

template <class Module>
concept hookable_module = std::is_base_of_v<hookable, std::remove_cvref_t<Module>> &&
                          std::is_base_of_v<torch::nn::Module, std::remove_cvref_t<Module>>;

} // namespace ferry
