// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ferry {

/// What a hook remembers between calls, kept apart by context: the positive and the negative prompt
/// of one step, for example. The context is "default" until another is chosen.
template <class State>
class hook_states {
public:
  [[nodiscard]] const std::string& context() const noexcept { return context_; }

  /// Returns the state of the current context, made on first use.
  [[nodiscard]] State& current() { return states_[context_]; }

  void use_context(std::string_view name) { context_ = name; }

  /// Forgets the states of all contexts and goes back to "default".
  void reset() {
    states_.clear();
    context_ = "default";
  }

private:
  std::map<std::string, State, std::less<>> states_;
  std::string context_ = "default";
};

} // namespace ferry
