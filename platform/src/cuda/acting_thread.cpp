// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/acting_thread.hpp"

#include <algorithm>
#include <vector>

namespace ferry::cuda {
namespace {

struct acting {
  int device;
  host_thread_id thread;
  int current_before; ///< The device that was current while the thread acted as itself.
};

/// Of the calling thread: the devices on which it acts as something else than itself.
thread_local std::vector<acting> roles;

void make_current(const calls& on) noexcept {
  on.clean("cudaSetDevice", on->cudaSetDevice(on.index()));
}

} // namespace

host_thread_id act_as(const calls& on, host_thread_id thread) noexcept {
  constexpr auto itself = host_thread_id{0};
  const auto found = std::ranges::find(roles, on.index(), &acting::device);
  const auto before = found == roles.end() ? itself : found->thread;
  if (on.forked())
    return before;
  if (thread == itself) {
    if (found != roles.end()) {
      on.clean("cudaSetDevice", restore_device(on.api(), found->current_before));
      roles.erase(found);
    }
  } else if (found != roles.end()) {
    found->thread = thread;
    make_current(on);
  } else {
    auto current = on.index();
    on.clean("cudaGetDevice", on->cudaGetDevice(&current));
    roles.push_back({on.index(), thread, current});
    make_current(on);
  }
  return before;
}

} // namespace ferry::cuda
