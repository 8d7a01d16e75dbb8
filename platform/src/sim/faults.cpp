// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "sim/faults.hpp"

#include <utility>

namespace ferry::sim {
namespace {

const char* name_of(device_call call) noexcept {
  switch (call) {
    case device_call::any:
      return "any call";
    case device_call::allocate:
      return "allocate";
    case device_call::create_stream:
      return "create_stream";
    case device_call::create_event:
      return "create_event";
    case device_call::copy:
      return "copy";
    case device_call::compute:
      return "compute";
    case device_call::record:
      return "record";
    case device_call::wait:
      return "wait";
    case device_call::ready:
      return "ready";
    case device_call::synchronize:
      return "synchronize";
    case device_call::gather:
      return "all_gather";
    case device_call::register_pages:
      return "register_pages";
    case device_call::unregister_pages:
      return "unregister_pages";
    case device_call::pages_registered:
      return "pages_registered";
  }
  return "unknown call";
}

} // namespace

bool fault_plan::cancel() noexcept {
  armed_.clear();
  deferred_.reset();
  return std::exchange(happened_, false);
}

void fault_plan::require_alive(const char* operation) const {
  if (!poisoned_by_.empty())
    throw device_error(errc::device_poisoned, operation,
                       "the device is unusable since " + poisoned_by_ + " failed; open it again");
}

fault_outcome fault_plan::enter(device_call call) {
  require_alive(name_of(call));
  ++calls_;
  if (call == device_call::synchronize)
    surface(call);

  auto due = armed_.end();
  for (auto it = armed_.begin(); it != armed_.end(); ++it) {
    if (it->call != device_call::any && it->call != call)
      continue;
    if (it->after == 0 && due == armed_.end())
      due = it;
    else if (it->after > 0)
      --it->after;
  }
  if (due == armed_.end())
    return fault_outcome::none;

  auto fault = *due;
  armed_.erase(due);
  happened_ = true;
  if (fault.effect == fault_effect::deferred) {
    deferred_ = fault.error;
    if (call == device_call::synchronize)
      surface(call);
    return fault_outcome::none;
  }
  if (fault.effect == fault_effect::absence && call == device_call::gather)
    return fault_outcome::absence;
  if (fault.effect != fault_effect::once)
    poisoned_by_ = name_of(call);
  if (fault.effect == fault_effect::death && call == device_call::gather)
    return fault_outcome::death;
  throw device_error(fault.error, name_of(call),
                     "injected failure of call " + std::to_string(calls_));
}

void fault_plan::surface(device_call call) {
  if (!deferred_)
    return;
  auto error = *std::exchange(deferred_, std::nullopt);
  poisoned_by_ = "work enqueued before a synchronize";
  throw device_error(error, name_of(call), "injected failure of work enqueued earlier");
}

} // namespace ferry::sim
