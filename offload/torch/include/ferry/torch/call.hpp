// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/torch/hookable.hpp>
#include <ferry/torch/tensor_visit.hpp>

#include <c10/util/SmallVector.h>

#include <functional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

namespace ferry {

/// A hook that runs in place of a body that returns `Result`: a step cache, for example.
template <class Result>
class forward_replacement : public hook {
public:
  [[nodiscard]] bool replaces_forward() const noexcept final { return true; }

  /// Returns what the call returns. `original` runs the replaced body on `arguments` as they are
  /// then; it may be called once, or not at all.
  virtual Result forward(const hook_call& call, tensor_refs arguments,
                         const std::function<Result()>& original) = 0;
};

namespace detail {

using tensor_list = c10::SmallVector<at::Tensor*, 8>;

/// How a body receives an argument that the caller passed as `A`: what hooks may replace is never
/// the caller's own variable, so that a call means the same with and without hooks.
template <class A>
using passed = std::conditional_t<tensor_holder<A> && std::is_lvalue_reference_v<A>,
                                  const std::remove_cvref_t<A>&, A&&>;

/// How an argument is kept while hooks look at it.
template <class A>
using kept = std::conditional_t<tensor_holder<A>, std::remove_cvref_t<A>, A&&>;

[[noreturn]] void throw_wrong_replacement(const hook_call& call, const std::type_info& result);

template <class T>
void collect(T& value, tensor_list& into) {
  auto add = [&](at::Tensor& tensor) { into.push_back(&tensor); };
  visit_tensors(value, add);
}

template <class Result, class Original>
Result run_body(const hook_scope& scope, tensor_refs arguments, const Original& original) {
  auto* hook = scope.replacement();
  if (hook == nullptr)
    return original();
  auto* replacement = dynamic_cast<forward_replacement<Result>*>(hook);
  if (replacement == nullptr)
    throw_wrong_replacement(scope.call(), typeid(Result));
  return replacement->forward(scope.call(), arguments,
                              std::function<Result()>(std::cref(original)));
}

template <class Result, class Body, class... Args>
[[gnu::noinline]] Result call_hooked(hook_registry& hooks, const torch::nn::Module& module,
                                     std::string_view method, Body& body, Args&&... args) {
  std::tuple<kept<Args>...> arguments(std::forward<Args>(args)...);
  tensor_list inputs;
  std::apply([&](auto&... each) { (collect(each, inputs), ...); }, arguments);
  auto original = [&]() -> Result {
    return std::apply(
        [&](auto&... each) -> Result { return body(static_cast<passed<Args>>(each)...); },
        arguments);
  };

  hook_scope scope(hooks, module, method);
  scope.enter(inputs);
  if constexpr (std::is_void_v<Result>) {
    run_body<Result>(scope, inputs, original);
    scope.leave({});
  } else {
    Result result = run_body<Result>(scope, inputs, original);
    tensor_list outputs;
    collect(result, outputs);
    scope.leave(outputs);
    return result;
  }
}

} // namespace detail

/// Calls `body(args...)` as the entry point `method` of `module`, through `hooks`. The form under
/// the others, for modules whose registry lies elsewhere.
///
/// Without hooks it costs one branch. With hooks, tensors among the arguments (see `tensor_holder`)
/// are handed on as copies of their handles that hooks may replace; everything else is passed on as
/// it came. A tensor argument is never the caller's own variable, with hooks or without: a body
/// that returns a tensor by assigning to a parameter does not compile. Whatever throws goes
/// through, after every hook that had entered the call was told to `abandon` it.
/// @throws ferry_error `invalid_argument` if a hook replaces a body of another result type
template <class Body, class... Args>
decltype(auto) call_through(hook_registry& hooks, const torch::nn::Module& module,
                            std::string_view method, Body&& body, Args&&... args) {
  using result = std::invoke_result_t<Body&, detail::passed<Args>...>;
  if (hooks.empty()) [[likely]]
    return static_cast<result>(body(static_cast<detail::passed<Args>>(args)...));
  return static_cast<result>(
      detail::call_hooked<result>(hooks, module, method, body, std::forward<Args>(args)...));
}

/// Calls `block.forward(args...)` through the block's hooks.
template <hookable_module Block, class... Args>
decltype(auto) call(Block& block, Args&&... args) {
  auto body = [&block](auto&&... each) -> decltype(auto) {
    return block.forward(std::forward<decltype(each)>(each)...);
  };
  return call_through(block.hooks(), block, "forward", body, std::forward<Args>(args)...);
}

/// Calls another entry point through the same hooks:
/// `call_method(*vae, "decode", &vae_decoder::decode, latents)`.
template <hookable_module Module, class Method, class... Args>
decltype(auto) call_method(Module& module, std::string_view name, Method method, Args&&... args) {
  auto body = [&module, method](auto&&... each) -> decltype(auto) {
    return std::invoke(method, module, std::forward<decltype(each)>(each)...);
  };
  return call_through(module.hooks(), module, name, body, std::forward<Args>(args)...);
}

} // namespace ferry
