// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace torch::nn {
class Module;
}

namespace ferry {

/// One run of a module's entry point, as hooks see it.
struct hook_call {
  const torch::nn::Module& module;
  std::string_view method; ///< "forward", or the entry point that was called by name.
};

/// The tensors among the arguments or outputs of a call. Assigning to one replaces it in the call.
using tensor_refs = std::span<at::Tensor* const>;

/// Runs code around a module's entry points. Called on the thread that calls the module.
class hook {
public:
  hook() = default;
  hook(const hook&) = delete;
  hook& operator=(const hook&) = delete;
  virtual ~hook() = default;

  /// Prepares for `module`, before the hook becomes active. If it throws, the hook is not added.
  virtual void initialize_hook(torch::nn::Module& module);

  /// Runs before the body. A hook that throws here has cleaned up after itself.
  virtual void pre_forward(const hook_call& call, tensor_refs arguments);

  /// Runs after the body.
  virtual void post_forward(const hook_call& call, tensor_refs outputs);

  /// Ends a call that failed after this hook's `pre_forward` had returned and before its
  /// `post_forward` did.
  virtual void abandon(const hook_call& call) noexcept;

  /// Several calls of `module` follow one another until `let_go`: what this hook brings in for a
  /// call may come once for all of them. The calls themselves are told as ever. A hook that throws
  /// here has cleaned up after itself.
  virtual void hold(const torch::nn::Module& module);

  /// Ends what `hold` began.
  virtual void let_go(const torch::nn::Module& module) noexcept;

  /// Returns whether this is a `forward_replacement`, of which a module takes one.
  [[nodiscard]] virtual bool replaces_forward() const noexcept;

  /// Forgets what the hook has gathered over past calls.
  virtual void reset();
};

/// The hooks of one module, sorted by name, a replacement of the forward last. Copying a module
/// does not copy its hooks.
///
/// The module is called by one thread at a time. Hooks are added and removed by one thread at a
/// time, which may be another: a call that has begun keeps the hooks it began with.
class hook_registry {
public:
  hook_registry() noexcept = default;
  hook_registry(const hook_registry&) noexcept {}
  hook_registry& operator=(const hook_registry&) noexcept { return *this; }
  ~hook_registry() = default;

  [[nodiscard]] bool empty() const noexcept { return !any_.load(std::memory_order_acquire); }
  [[nodiscard]] bool replaces_forward() const noexcept;

  /// Returns null if there is no hook of that name.
  [[nodiscard]] std::shared_ptr<hook> find(std::string_view name) const noexcept;

  /// Returns the names in the order in which `pre_forward` runs.
  [[nodiscard]] std::vector<std::string> names() const;

  /// Initialises `added` and makes it active; a hook of the same name goes. Returns whether one
  /// did. All or nothing.
  /// @throws ferry_error `already_enabled` if another hook replaces the forward, `busy` from inside
  /// a call of the module; and whatever `initialize_hook` throws
  bool add(torch::nn::Module& module, std::string name, std::shared_ptr<hook> added);

  /// Takes the hook off. No such hook: nothing happens.
  /// @throws ferry_error `busy` from inside a call of the module
  void remove(std::string_view name);

  /// Takes every hook off. Calls are as if none had ever been there.
  /// @throws ferry_error `busy` from inside a call of the module
  void clear();

  /// Resets the hook. No such hook: nothing happens.
  void reset(std::string_view name);

private:
  friend class hook_scope;
  friend class hook_hold;

  struct entry {
    std::string name;
    std::shared_ptr<hook> active;
  };

  using entry_list = std::vector<entry>;

  [[nodiscard]] std::shared_ptr<const entry_list> entries() const noexcept;
  void replace(entry_list next);
  void require_idle(std::string_view operation, std::string_view name) const;

  std::atomic<std::shared_ptr<const entry_list>> entries_; ///< Null for none.
  std::atomic<bool> any_{false}; ///< Whether there are entries, for calls without hooks.
  std::atomic<int> running_{0};  ///< Calls under way.
};

/// Calls of one module that follow one another, such as those of several passes: its weights come
/// once for all that are made while this lives. Hooks are told of each call as ever.
class hook_hold {
public:
  /// `registry` and `module` outlive the hold.
  /// @throws what a hook's `hold` throws; then nothing is held
  hook_hold(hook_registry& registry, const torch::nn::Module& module);
  hook_hold(const hook_hold&) = delete;
  hook_hold& operator=(const hook_hold&) = delete;
  ~hook_hold();

private:
  struct nothing_yet {};
  hook_hold(hook_registry& registry, const torch::nn::Module& module, nothing_yet begins) noexcept;

  hook_registry& registry_;
  const torch::nn::Module& module_;
  std::shared_ptr<const hook_registry::entry_list> entries_; ///< Null for none.
  std::size_t held_ = 0; ///< Hooks that hold: the first so many.
};

/// One run through a registry's hooks: what `ferry::call` does around a body, for those who cannot
/// use it. Destroying it before `leave` has returned abandons the call.
class hook_scope {
public:
  /// Runs nothing yet. `method` and `module` outlive the scope.
  hook_scope(hook_registry& registry, const torch::nn::Module& module,
             std::string_view method) noexcept;
  hook_scope(const hook_scope&) = delete;
  hook_scope& operator=(const hook_scope&) = delete;
  ~hook_scope();

  [[nodiscard]] const hook_call& call() const noexcept { return call_; }

  /// Returns the hook that replaces the forward, or null.
  [[nodiscard]] hook* replacement() const noexcept;

  /// Runs `pre_forward` of every hook in order.
  void enter(tensor_refs arguments);

  /// Runs `post_forward` of every hook in reverse order. @pre `enter` has returned
  void leave(tensor_refs outputs);

private:
  hook_registry& registry_;
  std::shared_ptr<const hook_registry::entry_list> entries_;
  hook_call call_;
  std::size_t entered_ = 0; ///< Hooks that are inside the call: the first so many.
};

} // namespace ferry
