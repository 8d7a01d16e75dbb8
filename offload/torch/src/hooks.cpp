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
void hook::hold(const torch::nn::Module&) {}
void hook::let_go(const torch::nn::Module&) noexcept {}
bool hook::replaces_forward() const noexcept {
  return false;
}
void hook::reset() {}

namespace {

template <class Entries>
auto position(Entries& entries, std::string_view name) {
  return std::ranges::find_if(entries, [name](const auto& each) { return each.name == name; });
}

template <class Entries>
bool last_replaces(const Entries& entries) {
  return !entries.empty() && entries.back().active->replaces_forward();
}

} // namespace

std::shared_ptr<const hook_registry::entry_list> hook_registry::entries() const noexcept {
  static const auto none = std::make_shared<const entry_list>();
  auto now = entries_.load();
  return now == nullptr ? none : now;
}

void hook_registry::replace(entry_list next) {
  const auto any = !next.empty();
  entries_.store(any ? std::make_shared<const entry_list>(std::move(next)) : nullptr);
  any_.store(any, std::memory_order_release);
}

bool hook_registry::replaces_forward() const noexcept {
  return last_replaces(*entries());
}

std::shared_ptr<hook> hook_registry::find(std::string_view name) const noexcept {
  const auto now = entries();
  const auto found = position(*now, name);
  return found == now->end() ? nullptr : found->active;
}

std::vector<std::string> hook_registry::names() const {
  std::vector<std::string> names;
  const auto now = entries();
  names.reserve(now->size());
  for (const auto& each : *now)
    names.push_back(each.name);
  return names;
}

void hook_registry::require_idle(std::string_view operation, std::string_view name) const {
  if (running_.load() == 0)
    return;
  throw ferry_error({errc::busy, "cannot " + std::string(operation) + " hook '" +
                                     std::string(name) +
                                     "' from inside a call of its module: do it between calls"});
}

bool hook_registry::add(torch::nn::Module& module, std::string name, std::shared_ptr<hook> added) {
  require_idle("add", name);
  auto next = *entries();
  if (added->replaces_forward() && last_replaces(next) && next.back().name != name)
    throw ferry_error(
        {errc::already_enabled, "hook '" + name + "' replaces the forward, which hook '" +
                                    next.back().name + "' does already: remove that one first"});
  added->initialize_hook(module);

  auto replaced = std::erase_if(next, [&](const entry& each) { return each.name == name; }) != 0;
  next.push_back({std::move(name), std::move(added)});
  std::ranges::sort(next, {}, [](const entry& each) {
    return std::pair(each.active->replaces_forward(), std::string_view(each.name));
  });
  replace(std::move(next));
  return replaced;
}

void hook_registry::remove(std::string_view name) {
  auto next = *entries();
  const auto found = position(next, name);
  if (found == next.end())
    return;
  require_idle("remove", name);
  next.erase(found);
  replace(std::move(next));
}

void hook_registry::clear() {
  if (empty())
    return;
  require_idle("remove", entries()->front().name);
  replace({});
}

void hook_registry::reset(std::string_view name) {
  if (auto found = find(name))
    found->reset();
}

hook_hold::hook_hold(hook_registry& registry, const torch::nn::Module& module, nothing_yet) noexcept
    : registry_(registry), module_(module) {
  ++registry_.running_;
}

// Where a hook throws the hold has begun, so that its destructor runs.
hook_hold::hook_hold(hook_registry& registry, const torch::nn::Module& module)
    : hook_hold(registry, module, nothing_yet{}) {
  if (registry.empty())
    return;
  entries_ = registry.entries();
  for (const auto& each : *entries_) {
    each.active->hold(module_);
    ++held_;
  }
}

hook_hold::~hook_hold() {
  while (held_ > 0)
    (*entries_)[--held_].active->let_go(module_);
  --registry_.running_;
}

hook_scope::hook_scope(hook_registry& registry, const torch::nn::Module& module,
                       std::string_view method) noexcept
    : registry_(registry), call_{module, method} {
  ++registry_.running_;
  entries_ = registry_.entries();
}

hook_scope::~hook_scope() {
  while (entered_ > 0)
    (*entries_)[--entered_].active->abandon(call_);
  --registry_.running_;
}

hook* hook_scope::replacement() const noexcept {
  return last_replaces(*entries_) ? entries_->back().active.get() : nullptr;
}

void hook_scope::enter(tensor_refs arguments) {
  for (const auto& each : *entries_) {
    each.active->pre_forward(call_, arguments);
    ++entered_;
  }
}

void hook_scope::leave(tensor_refs outputs) {
  for (; entered_ > 0; --entered_)
    (*entries_)[entered_ - 1].active->post_forward(call_, outputs);
}

void detail::throw_wrong_replacement(const hook_call& call, const std::type_info& result) {
  throw ferry_error({errc::invalid_argument,
                     "'" + std::string(call.method) + "' returns " + c10::demangle(result.name()) +
                         ", which the hook that replaces it does not: derive the hook from "
                         "forward_replacement of that type"});
}

} // namespace ferry
