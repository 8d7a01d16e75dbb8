// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "ferry/torch/hooks.hpp"

#include <ferry/platform/error.hpp>

#include "ferry/torch/call.hpp"

#include <c10/util/Type.h>

#include <algorithm>
#include <utility>

namespace ferry {

void hook::initialize_hook(torch::nn::Module&) {}
void hook::pre_forward(const hook_call&, tensor_refs) {}
void hook::post_forward(const hook_call&, tensor_refs) {}
void hook::abandon(const hook_call&) noexcept {}
bool hook::replaces_forward() const noexcept {
  return false;
}
void hook::reset() {}

bool hook_registry::replaces_forward() const noexcept {
  return !entries_.empty() && entries_.back().active->replaces_forward();
}

std::vector<hook_registry::entry>::const_iterator
hook_registry::position(std::string_view name) const noexcept {
  return std::ranges::find(entries_, name, &entry::name);
}

std::shared_ptr<hook> hook_registry::find(std::string_view name) const noexcept {
  auto found = position(name);
  return found == entries_.end() ? nullptr : found->active;
}

std::vector<std::string> hook_registry::names() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const auto& each : entries_)
    names.push_back(each.name);
  return names;
}

void hook_registry::require_idle(std::string_view operation, std::string_view name) const {
  if (running_ == 0)
    return;
  throw ferry_error({errc::busy, "cannot " + std::string(operation) + " hook '" +
                                     std::string(name) +
                                     "' from inside a call of its module: do it between calls"});
}

bool hook_registry::add(torch::nn::Module& module, std::string name, std::shared_ptr<hook> added) {
  require_idle("add", name);
  if (added->replaces_forward() && replaces_forward() && entries_.back().name != name)
    throw ferry_error({errc::already_enabled,
                       "hook '" + name + "' replaces the forward, which hook '" +
                           entries_.back().name + "' does already: remove that one first"});
  added->initialize_hook(module);

  auto next = entries_;
  auto replaced = std::erase_if(next, [&](const entry& each) { return each.name == name; }) != 0;
  next.push_back({std::move(name), std::move(added)});
  std::ranges::sort(next, {}, [](const entry& each) {
    return std::pair(each.active->replaces_forward(), std::string_view(each.name));
  });
  entries_.swap(next);
  return replaced;
}

void hook_registry::remove(std::string_view name) {
  auto found = position(name);
  if (found == entries_.end())
    return;
  require_idle("remove", name);
  entries_.erase(found);
}

void hook_registry::clear() {
  if (entries_.empty())
    return;
  require_idle("remove", entries_.front().name);
  entries_.clear();
}

void hook_registry::reset(std::string_view name) {
  if (auto found = find(name))
    found->reset();
}

hook_scope::hook_scope(hook_registry& registry, const torch::nn::Module& module,
                       std::string_view method) noexcept
    : registry_(registry), call_{module, method} {
  ++registry_.running_;
}

hook_scope::~hook_scope() {
  while (entered_ > 0)
    registry_.entries_[--entered_].active->abandon(call_);
  --registry_.running_;
}

hook* hook_scope::replacement() const noexcept {
  return registry_.replaces_forward() ? registry_.entries_.back().active.get() : nullptr;
}

void hook_scope::enter(tensor_refs arguments) {
  for (const auto& each : registry_.entries_) {
    each.active->pre_forward(call_, arguments);
    ++entered_;
  }
}

void hook_scope::leave(tensor_refs outputs) {
  for (; entered_ > 0; --entered_)
    registry_.entries_[entered_ - 1].active->post_forward(call_, outputs);
}

void detail::throw_wrong_replacement(const hook_call& call, const std::type_info& result) {
  throw ferry_error({errc::invalid_argument,
                     "'" + std::string(call.method) + "' returns " + c10::demangle(result.name()) +
                         ", which the hook that replaces it does not: derive the hook from "
                         "forward_replacement of that type"});
}

} // namespace ferry
